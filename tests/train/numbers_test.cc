// An encoder-decoder that learns to say numbers, by pairs of texts and nothing else (examples/numbers.cc):
// what it writes for numbers that it has not seen depends on them through cross-attention alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "bertie/tokenizer.h"
#include "bertie/train.h"
#include "bertie/transformer.h"
#include "cli/program.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

const std::string kExample = BERTIE_BINARY_DIR "/example_numbers";

struct Told {
  size_t right = 0, all = 0;
};

// What a checkpoint writes for each line's source, against its target. The checkpoint has its tokenizer.
Told tell(const std::filesystem::path& checkpoint, const std::filesystem::path& pairs) {
  const Tokenizer tokenizer = Tokenizer::load(checkpoint);
  const Transformer model = Transformer::load(checkpoint);
  TransformerRun run(model);
  std::vector<int32_t> ids, offsets{0};
  std::vector<std::string> wanted;
  std::ifstream in(pairs);
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    for (int32_t id : tokenizer.encode(line.substr(0, tab), {.add_special_tokens = false}).ids)
      ids.push_back(id);
    ids.push_back(model.config().eos_id);
    offsets.push_back(int32_t(ids.size()));
    wanted.push_back(line.substr(tab + 1));
  }
  const auto written = run.generate({.ids = ids, .offsets = offsets}, 16);
  Told told{.all = wanted.size()};
  for (size_t i = 0; i < wanted.size(); ++i) told.right += tokenizer.decode(written[i]) == wanted[i];
  return told;
}

// Numbers of so many digits, and a model that learns them.
struct School {
  test::TempFolder folder;

  explicit School(int digits) {
    const auto result =
        test::run_shell(fmt::format("'{}' '{}' {}", kExample, folder.path().string(), digits));
    if (result.code != 0) throw std::runtime_error(result.err);
  }
  Told learn(const TransformerConfig& shape, uint64_t steps, double rate) const {
    folder.write("config.json", shape.to_json());
    const TrainResult result = pretrain(
        {.data = folder.path(),
         .config = folder.path() / "config.json",
         .objective = "seq2seq",
         .max_length = 20,
         .train = {
             .out = folder.path() / "run", .batch = 64, .steps = steps, .rate = rate, .eval_every = 0}});
    return tell(result.checkpoint, folder.path() / "held_out.tsv");
  }
};

TransformerConfig shape(size_t layers, size_t hidden) {
  return {.encoder_layers = layers,
          .decoder_layers = layers,
          .hidden = hidden,
          .encoder_heads = 4,
          .decoder_heads = 4,
          .encoder_ffn = 2 * hidden,
          .decoder_ffn = 2 * hidden,
          .vocabulary = 55,
          .positions = 20,
          .pad_id = 0,
          .eos_id = 3,
          .start_id = 2,
          .dropout = 0};
}

TEST(NumbersToWords, AreLearnedForNumbersNotSeen) {
  BERTIE_NEEDS(kExample);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "800 steps take an hour under a sanitizer; other tests take a few of the same";
#endif
  const Told told = School(4).learn(shape(1, 64), 800, 2e-3);
  EXPECT_GE(told.all, 200u);
  EXPECT_GE(double(told.right), 0.95 * double(told.all)) << told.right << " of " << told.all;
}

// Half a minute on two idle cores.
TEST(NumbersToWords, OfSixDigitsAreLearnedToNinetyNinePercent) {
  if (!std::getenv("BERTIE_SLOW_TESTS")) GTEST_SKIP() << "only with BERTIE_SLOW_TESTS set";
  BERTIE_NEEDS(kExample);
  const Told told = School(6).learn(shape(2, 128), 1500, 1.5e-3);
  EXPECT_EQ(told.all, 1000u);
  EXPECT_GE(double(told.right), 0.99 * double(told.all)) << told.right << " of " << told.all;
}

}  // namespace
}  // namespace bertie
