// bertie pretrain on ranks over MPI: as many as there are, the same model; and what happens when one dies.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "bertie/transformer.h"
#include "io/safetensors.h"
#include "io/temp_folder.h"
#include "train/mpirun.h"

namespace bertie {
namespace {

using test::fs::path, test::mpirun, test::Result, test::run_shell;

// Pairs to learn from, a small encoder-decoder, and runs over them.
struct Runs {
  test::TempFolder folder;

  Runs() {
    const char* words[] = {"one", "two", "three", "four", "five"};
    std::string pairs, vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (const char* word : words) vocabulary += fmt::format("{}\n", word);
    for (int i = 0; i < 125; ++i)
      pairs += fmt::format("{0} {1} {2}\t{2} {0}\n", words[i % 5], words[i / 5 % 5], words[i / 25]);
    folder.write("train.tsv", pairs);
    folder.write("vocab.txt", vocabulary);
    folder.write("config.json", TransformerConfig{.encoder_layers = 1,
                                                  .decoder_layers = 1,
                                                  .hidden = 32,
                                                  .encoder_heads = 2,
                                                  .decoder_heads = 2,
                                                  .encoder_ffn = 64,
                                                  .decoder_ffn = 64,
                                                  .vocabulary = 10,
                                                  .positions = 10,
                                                  .pad_id = 0,
                                                  .eos_id = 3,
                                                  .start_id = 2}
                                    .to_json());
  }
  std::string options(const std::string& out, size_t steps, const std::string& more = "") const {
    return fmt::format(
        "pretrain --objective seq2seq --data '{0}' --config '{0}/config.json' --max-length 10 --batch 24 "
        "--rate 1e-3 --threads 1 --eval-every 0 --out '{0}/{1}' --steps {2} {3}",
        folder.path().string(), out, steps, more);
  }
  path model(const std::string& out) const { return folder.path() / out / "last/model.safetensors"; }
  std::vector<float> numbers(const std::string& out) const {
    const io::SafeTensors files = io::SafeTensors::open(model(out));
    std::vector<float> all;
    for (const io::TensorInfo& t : files.tensors()) {
      const size_t first = all.size();
      all.resize(first + t.elements());
      io::to_float(t, 0, std::span(all).subspan(first));
    }
    return all;
  }
};

TEST(TrainingOverMpi, GivesTheSameModelOnAnyNumberOfRanks) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  for (int ranks : {1, 2, 4}) {
    const Result result = mpirun(ranks, test::kProgram, runs.options(fmt::format("run{}", ranks), 20));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const std::vector<float> one = runs.numbers("run1");
  double size = 0;
  for (float x : one) size += double(x) * x;
  for (const char* several : {"run2", "run4"}) {
    const std::vector<float> x = runs.numbers(several);
    ASSERT_EQ(x.size(), one.size());
    double apart = 0;
    for (size_t i = 0; i < x.size(); ++i) apart += std::pow(double(x[i]) - double(one[i]), 2);
    EXPECT_LE(std::sqrt(apart / size), 1e-5) << several;
  }
  ASSERT_EQ(mpirun(2, test::kProgram, runs.options("again", 20)).code, 0);
  EXPECT_TRUE(test::read_all(runs.model("again")) == test::read_all(runs.model("run2")))
      << "not the same bytes";
}

TEST(TrainingOverMpi, GoesOnWithAnotherNumberOfRanksAfterOneDied) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  // A rank is killed as soon as there is a checkpoint.
  const std::string last = (runs.folder.path() / "run/last/state.json").string();
  const Result died =
      run_shell(fmt::format("mpirun --allow-run-as-root --oversubscribe -np 3 '{}' {} & mpirun=$!\n"
                            "for i in $(seq 600); do [ -e '{}' ] && break; sleep 0.1; done\n"
                            "kill -9 $(cat /proc/$mpirun/task/*/children | cut -d' ' -f3); wait $mpirun",
                            test::kProgram, runs.options("run", 1'000'000, "--save-every 10"), last));
  EXPECT_EQ(died.code, 128 + 9) << died.err;
  EXPECT_NE(died.err.find("has died; all 3 ranks stop"), std::string::npos) << died.err;
  EXPECT_NE(died.err.find("--resume"), std::string::npos) << died.err;

  const auto last_step = [&] {
    const std::string name = test::fs::read_symlink(runs.folder.path() / "run/last").filename().string();
    return std::stoul(name.substr(name.find('-') + 1));
  };
  const size_t saved = last_step();
  EXPECT_GE(saved, 10u);
  const Result on = mpirun(2, test::kProgram, runs.options("run", saved + 5, "--resume"));
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_NE(on.err.find("goes on from"), std::string::npos) << on.err;
  EXPECT_EQ(last_step(), saved + 5) << on.out;
}

}  // namespace
}  // namespace bertie
