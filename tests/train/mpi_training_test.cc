// bertie pretrain on ranks over MPI: as many as there are, the same model; and what happens when one dies.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "bertie/transformer.h"
#include "io/safetensors.h"
#include "support/temp_folder.h"
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
  size_t last_step(const std::string& out) const {
    const std::string name = test::fs::read_symlink(folder.path() / out / "last").filename().string();
    return std::stoul(name.substr(name.find('-') + 1));
  }
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

// The length of the difference, beside that of b.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference += std::pow(double(a[i]) - double(b[i]), 2), size += double(b[i]) * b[i];
  return std::sqrt(difference / size);
}

TEST(TrainingOverMpi, GivesTheSameModelOnAnyNumberOfRanks) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  for (int ranks : {1, 2, 4}) {
    const Result result = mpirun(ranks, test::kProgram, runs.options(fmt::format("run{}", ranks), 20));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const std::vector<float> one = runs.numbers("run1");
  for (const char* several : {"run2", "run4"}) EXPECT_LE(apart(runs.numbers(several), one), 1e-5) << several;
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

  const size_t saved = runs.last_step("run");
  EXPECT_GE(saved, 10u);
  const Result on = mpirun(2, test::kProgram, runs.options("run", saved + 5, "--resume"));
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_NE(on.err.find("continues from"), std::string::npos) << on.err;
  EXPECT_EQ(runs.last_step("run"), saved + 5) << on.out;
}

// Starts mpirun on a run without an end, and gives it a signal as soon as there is a first log line.
Result stopped_by(const char* signal, const Runs& runs, const std::string& options) {
  const std::string log = (runs.folder.path() / "run/log.jsonl").string();
  return run_shell(fmt::format(
      "ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe {} -np 2 '{}' {} & "
      "mpirun=$!\n"
      "for i in $(seq 600); do [ -s '{}' ] && break; sleep 0.1; done\n"
      "kill -{} $mpirun; wait $mpirun",
      options, test::kProgram, runs.options("run", 1'000'000, "--save-every 1000000"), log, signal));
}

void expect_goes_on(const Runs& runs) {
  const size_t saved = runs.last_step("run");
  EXPECT_GE(saved, 1u);
  const Result on = mpirun(2, test::kProgram, runs.options("run", saved + 3, "--resume"));
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(runs.last_step("run"), saved + 3);
}

TEST(TrainingOverMpi, SavesWhenMpirunPassesASignalOn) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  const Result stopped = stopped_by("USR1", runs, "");
  EXPECT_NE(stopped.err.find("to stop and save: kill -USR1 "), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("--mca odls_base_sigkill_timeout 30"), std::string::npos) << stopped.err;
  // mpirun's own words, and what they lacked.
  EXPECT_NE(stopped.out.find("mpirun --mca odls_base_sigkill_timeout 30 --allow-run-as-root --oversubscribe"),
            std::string::npos)
      << stopped.out;
  EXPECT_NE(stopped.out.find("--save-every 1000000 --resume\n"), std::string::npos) << stopped.out;
  expect_goes_on(runs);
}

// As Ctrl-C does. mpirun waits for twice the time that it is given.
TEST(TrainingOverMpi, SavesWhenMpirunIsInterrupted) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  const Result stopped = stopped_by("INT", runs, "--mca odls_base_sigkill_timeout 4");
  EXPECT_NE(stopped.code, 0);
  expect_goes_on(runs);
}

// Shards, two heads, dropout, and evaluations; then resumed with other numbers of ranks.
TEST(TrainingOverMpi, GivesTheSameBertOnAnyNumberOfRanks) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  const path& folder = runs.folder.path();
  std::string text;
  const char* words[] = {"one", "two", "three", "four", "five"};
  for (int i = 0; i < 300; ++i)
    text += fmt::format("{} {} {} {}.{}", words[i % 5], words[i / 5 % 5], words[i * 7 % 5], words[i * 3 % 4],
                        i % 5 == 4 ? "\n\n" : "\n");
  runs.folder.write("text.txt", text);
  const Result prepared =
      run_shell(fmt::format("'{0}' prepare '{1}/text.txt' --vocab '{1}/vocab.txt' --out '{1}/shards' "
                            "--held-out 0.2",
                            test::kProgram, folder.string()));
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  runs.folder.write("bert.json",
                    R"({"model_type": "bert", "vocab_size": 10, "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32,
      "type_vocab_size": 2, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1})");
  const auto options = [&](const std::string& out, int steps, const std::string& more = "") {
    return fmt::format(
        "pretrain --data '{0}/shards' --config '{0}/bert.json' --max-length 32 --batch 16 --rate 1e-3 "
        "--threads 1 --eval-every 4 --out '{0}/{1}' --steps {2} {3}",
        folder.string(), out, steps, more);
  };
  for (int ranks : {1, 2, 4}) {
    const Result result = mpirun(ranks, test::kProgram, options(fmt::format("run{}", ranks), 12));
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find("held-out loss"), std::string::npos) << result.err;
  }
  const std::vector<float> one = runs.numbers("run1");
  for (const char* several : {"run2", "run4"}) EXPECT_LE(apart(runs.numbers(several), one), 1e-5) << several;

  // A run of two ranks goes on with four, and one of one with two: they are one run again.
  ASSERT_EQ(mpirun(4, test::kProgram, options("run2", 16, "--resume")).code, 0);
  ASSERT_EQ(mpirun(2, test::kProgram, options("run1", 16, "--resume")).code, 0);
  EXPECT_LE(apart(runs.numbers("run2"), runs.numbers("run1")), 1e-5);
}

TEST(TrainingOverMpi, RefusesRanksThatDoAnotherRun) {
  BERTIE_NEEDS_MPI();
  const Runs runs;
  const Result result =
      run_shell(fmt::format("ASAN_OPTIONS=detect_leaks=0 timeout -k 1 300 mpirun --allow-run-as-root "
                            "--oversubscribe -np 1 '{0}' {1} : "
                            "-np 1 '{0}' {2}",
                            test::kProgram, runs.options("run", 10), runs.options("run", 12, "--seed 5")));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("rank 1 would not do the same run as rank 0: not the same"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("seed"), std::string::npos) << result.err;
  EXPECT_FALSE(test::fs::exists(runs.folder.path() / "run"));
}

}  // namespace
}  // namespace bertie
