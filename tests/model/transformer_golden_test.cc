// The encoder-decoder against Hugging Face's MarianMTModel (tools/make_family_goldens.py): every hidden
// state, every attention weight of both sides and across, the logits, and what is written greedily.
#include <gtest/gtest.h>

#include "bertie/transformer.h"
#include "support/data.h"
#include "support/numbers.h"
#include "support/targets.h"
#include "support/temp_folder.h"
#include "support/tensors.h"

namespace bertie {
namespace {

constexpr double kTolerance = 2e-5;

struct Golden {
  explicit Golden(int number)
      : dir(test::source_dir() / fmt_name(number)),
        expected(dir / "expected.safetensors"),
        source_ids(expected.ints("source.ids")),
        source_offsets(expected.ints("source.offsets")),
        target_ids(expected.ints("target.ids")),
        target_offsets(expected.ints("target.offsets")) {}
  static std::string fmt_name(int number) {
    return "tests/golden/families/marian-seq2seq-" + std::to_string(number);
  }
  Batch sources() const { return {.ids = source_ids, .offsets = source_offsets}; }
  Batch targets() const { return {.ids = target_ids, .offsets = target_offsets}; }
  size_t count() const { return source_offsets.size() - 1; }

  std::filesystem::path dir;
  test::Expected expected;
  std::vector<int32_t> source_ids, source_offsets, target_ids, target_offsets;
};

// All weights of a layer, sequence after sequence and head after head.
std::vector<float> all(const AttentionWeights& weights, size_t layer, size_t sequences, size_t heads) {
  std::vector<float> numbers;
  for (size_t s = 0; s < sequences; ++s)
    for (size_t h = 0; h < heads; ++h) {
      const std::vector<float> one = test::copy_of(weights(layer, s, h));
      numbers.insert(numbers.end(), one.begin(), one.end());
    }
  return numbers;
}

void expect_states(const Golden& g, const TransformerOutput& out, const std::string& side, size_t layers,
                   size_t heads) {
  ASSERT_EQ(out.hidden_states.size(), layers + 1);
  for (size_t l = 0; l <= layers; ++l)
    EXPECT_TRUE(test::near(test::copy_of(out.hidden_states[l]),
                           g.expected.floats(side + ".hidden." + std::to_string(l)), kTolerance))
        << side << " hidden state " << l;
  for (size_t l = 0; l < layers; ++l)
    EXPECT_TRUE(test::near(all(out.attention, l, g.count(), heads),
                           g.expected.floats(side + ".attention." + std::to_string(l)), kTolerance))
        << side << " layer " << l;
  EXPECT_TRUE(test::same_bits(test::copy_of(out.last_hidden), test::copy_of(out.hidden_states.back())));
}

void expect_everything(const Golden& g, const Transformer& model) {
  const TransformerConfig& c = model.config();
  TransformerRun run(model, 2);
  expect_states(g, run.encode(g.sources(), {.hidden_states = true, .attention = true}), "encoder",
                c.encoder_layers, c.encoder_heads);
  const TransformerOutput& out = run.decode(g.targets(), {.hidden_states = true, .attention = true});
  expect_states(g, out, "decoder", c.decoder_layers, c.decoder_heads);
  for (size_t l = 0; l < c.decoder_layers; ++l)
    EXPECT_TRUE(test::near(all(out.cross, l, g.count(), c.decoder_heads),
                           g.expected.floats("cross." + std::to_string(l)), kTolerance))
        << "cross-attention, layer " << l;
  EXPECT_TRUE(test::near(test::copy_of(out.logits), g.expected.floats("logits"), kTolerance));

  // Without weights to keep, the faster kernel.
  EXPECT_TRUE(test::near(test::copy_of(run.encode(g.sources()).last_hidden),
                         g.expected.floats("encoder.hidden." + std::to_string(c.encoder_layers)),
                         kTolerance));
  EXPECT_TRUE(
      test::near(test::copy_of(run.decode(g.targets()).logits), g.expected.floats("logits"), kTolerance));
}

class TransformerGolden : public testing::TestWithParam<int> {};

TEST_P(TransformerGolden, HiddenStatesAttentionOfThreeKindsAndLogitsEqualTransformers) {
  const Golden g(GetParam());
  test::on_every_target([&] { expect_everything(g, Transformer::load(g.dir)); });
}

TEST_P(TransformerGolden, WritesWhatTransformersWrites) {
  const Golden g(GetParam());
  const std::vector<int32_t> ids = g.expected.ints("generate.ids"),
                             offsets = g.expected.ints("generate.offsets"),
                             counts = g.expected.ints("generate.max_new_tokens");
  test::on_every_target([&] {
    TransformerRun run(Transformer::load(g.dir), 2);
    const size_t longest = size_t(*std::max_element(counts.begin(), counts.end()));
    const auto together = run.generate(g.sources(), longest);
    ASSERT_EQ(together.size(), g.count());
    for (size_t s = 0; s < g.count(); ++s) {
      const std::vector<int32_t> want(ids.begin() + offsets[s], ids.begin() + offsets[s + 1]);
      const std::vector<int32_t> source(g.source_ids.begin() + g.source_offsets[s],
                                        g.source_ids.begin() + g.source_offsets[s + 1]);
      const std::vector<int32_t> whole{0, int32_t(source.size())};
      EXPECT_EQ(run.generate({.ids = source, .offsets = whole}, size_t(counts[s])).at(0), want) << s;
      // In one batch each goes on up to the largest of the counts.
      ASSERT_GE(together[s].size(), want.size());
      EXPECT_TRUE(std::equal(want.begin(), want.end(), together[s].begin())) << s;
    }
  });
}

TEST_P(TransformerGolden, SavesWhatItLoadedAndLoadsItAgain) {
  const Golden g(GetParam());
  const test::TempFolder folder;
  Transformer::load(g.dir).save(folder.path());
  expect_everything(g, Transformer::load(folder.path()));
}

INSTANTIATE_TEST_SUITE_P(Models, TransformerGolden, testing::Values(0, 1, 2));

}  // namespace
}  // namespace bertie
