// bertie::pretrain, as a C++ program calls it: defaults, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "bertie/data.h"
#include "bertie/train.h"
#include "io/safetensors.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

// Shards of a few sentences and a small model.
struct Small {
  test::TempFolder folder;
  PretrainJob job;

  Small() {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      for (int bit = 1; bit < 64; bit *= 2) text += i & bit ? "one " : "two ";  // no two documents are alike
      text += i % 2 ? ".\none two. three one.\n\n" : ".\ntwo three two.\nthree. one two.\n\n";
    }
    const fs::path vocab =
        folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\ntwo\nthree\n.\n");
    prepare({.texts = {.inputs = {folder.write("text", text).string()}},
             .out = folder.path() / "shards",
             .tokenizer = vocab,
             .held_out = 0.2,
             .threads = 1});
    job.data = folder.path() / "shards";
    job.config =
        folder.write("config.json",
                     R"({"model_type": "bert", "vocab_size": 9, "hidden_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16})");
    job.max_length = 16, job.threads = 1;
    job.train.out = folder.path() / "run", job.train.batch = 4, job.train.steps = 3;
  }
};

// A field of the options at fault is named, as it is called here.
template <class Action>
std::string field_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.field();
  }
  return "nothing was thrown";
}

TEST(Pretrain, TheFieldAtFaultIsNamed) {
  Small small;
  const auto field = [&](auto change) {
    PretrainJob job = small.job;
    change(job);
    return field_of([&] { pretrain(job); });
  };
  EXPECT_EQ(field([](PretrainJob& j) { j.max_length = 99; }), "max_length");
  EXPECT_EQ(field([](PretrainJob& j) { j.size = "tiny"; }), "size");
  EXPECT_EQ(field([](PretrainJob& j) { j.config.clear(), j.size = "tinny"; }), "size");
  EXPECT_EQ(field([](PretrainJob& j) { j.objective = "nsp"; }), "objective");
  EXPECT_EQ(field([](PretrainJob& j) { j.data = j.config; }), "");
  EXPECT_EQ(field([](PretrainJob& j) { j.data.clear(); }), "data");
  EXPECT_EQ(field([](PretrainJob& j) { j.train.out.clear(); }), "out");
  EXPECT_EQ(field([](PretrainJob& j) { j.train.rate = -1; }), "rate");
  EXPECT_EQ(field([](PretrainJob& j) { j.train.warmup = NAN; }), "warmup");
  EXPECT_EQ(field([](PretrainJob& j) { j.train.accumulate = 9; }), "batch");
  EXPECT_EQ(field([](PretrainJob& j) { j.train.patience = 2, j.train.eval_every = 0; }), "patience");
}

TEST(Pretrain, DefaultsAreTheOnesThatTheHeaderPromises) {
  Small small;
  small.job.train.steps = 0;
  TrainProgress first;
  pretrain(small.job, {.progress =
                           [&](const TrainProgress& p) {
                             if (p.step == 2) first = p;
                           },
                       .stop = [&] { return first.step == 2; }});
  EXPECT_EQ(first.steps, 20'000u);
  EXPECT_NEAR(first.rate, 0.128 / 16 / 2000, 1e-12) << "the second of 2000 steps of warm-up";
  ASSERT_EQ(first.metrics.size(), 2u);
  EXPECT_EQ(first.metrics[0].name, "token");
  EXPECT_EQ(first.metrics[1].name, "label");
}

// Every step would be skipped, and the end be a success.
TEST(Pretrain, WeightsThatAreNotFiniteAreAnErrorThatNamesTheTensor) {
  Small small;
  const TrainResult result = pretrain(small.job);
  const std::string name = "bert.encoder.layer.0.attention.self.key.weight";
  for (const float bad : {NAN, -INFINITY}) {
    const fs::path copy = small.folder.path() / "copy";
    fs::remove_all(copy);
    fs::copy(result.checkpoint, copy);
    const io::SafeTensors files = io::SafeTensors::open(copy);
    const auto* tensor = files.find(name);
    ASSERT_TRUE(tensor);
    std::ifstream in(copy / "model.safetensors", std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::string part(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
    const size_t at = bytes.find(part);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at + 4 * 7, 4, reinterpret_cast<const char*>(&bad), 4);
    std::ofstream(copy / "model.safetensors", std::ios::binary) << bytes;
    PretrainJob job = small.job;
    job.config.clear(), job.from = copy, job.train.out = small.folder.path() / "second";
    expect_error(name + " has numbers that are not finite", [&] { pretrain(job); });
    EXPECT_EQ(field_of([&] { pretrain(job); }), "from");
    EXPECT_FALSE(fs::exists(job.train.out)) << "nothing was written";
  }
}

TEST(Pretrain, TheMaskRateFallsAndAStopChangesNothing) {
  Small small;
  small.job.mask_rate = 0.8, small.job.mask_rate_end = 0.1;
  small.job.train.steps = 20, small.job.train.log_every = 1, small.job.train.bf16 = true;
  std::vector<uint64_t> counts;
  TrainEvents events;
  events.progress = [&](const TrainProgress& p) { counts.push_back(p.metrics[0].count); };
  const TrainResult straight = pretrain(small.job, events);
  ASSERT_EQ(counts.size(), 20u);
  EXPECT_GT(counts[0] + counts[1], 3 * (counts[18] + counts[19]));
  small.job.train.out = small.folder.path() / "stopped";
  size_t steps = 0;
  events.progress = [&](const TrainProgress& p) { steps = p.step; };
  events.stop = [&] { return steps == 9; };
  EXPECT_EQ(pretrain(small.job, events).end, TrainEnd::kStopped);
  small.job.train.resume = true;
  const TrainResult resumed = pretrain(small.job);
  const auto weights = [](const fs::path& folder) {
    std::ifstream in(folder / "model.safetensors", std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  EXPECT_EQ(resumed.step, 20u);
  EXPECT_TRUE(weights(resumed.checkpoint) == weights(straight.checkpoint));
}

TEST(EvaluateLanguageModel, CountsAsTheRunItselfDid) {
  Small small;
  small.job.train.eval_sequences = 0;
  EvalResult of_run;
  const TrainResult result = pretrain(small.job, {.evaluated = [&](const EvalResult& r) { of_run = r; }});
  LanguageModelJob job{.model = result.checkpoint.string(), .data = small.job.data, .max_length = 16};
  const LanguageModelScores scores = evaluate(job);
  EXPECT_EQ(scores.sequences, of_run.sequences);
  ASSERT_EQ(scores.metrics.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(scores.metrics[i].name, of_run.metrics[i].name);
    EXPECT_NEAR(scores.metrics[i].loss, of_run.metrics[i].loss, 1e-9);
    EXPECT_EQ(scores.metrics[i].accuracy, of_run.metrics[i].accuracy);
    EXPECT_EQ(scores.metrics[i].count, of_run.metrics[i].count);
  }
  EXPECT_NEAR(scores.bits_per_byte, scores.metrics[0].loss / std::log(2) / 3.4, 0.05) << "3.4 bytes a token";
  job.sequences = 2;
  EXPECT_EQ(evaluate(job).sequences, 2u);
  job.max_length = 0;
  job.objective = "mlm+sop";
  EXPECT_EQ(evaluate(job).metrics.size(), 2u);
  job.objective = "causal";
  EXPECT_EQ(field_of([&] { evaluate(job); }), "objective");
  job.objective = "mlm", job.max_length = 17;
  EXPECT_EQ(field_of([&] { evaluate(job); }), "max_length");
}

TEST(PretrainBenchmark, TakesSteps) {
  PretrainBenchmark steps({.batch = 2, .length = 16, .threads = 1});
  steps.step();
  EXPECT_GT(steps.operations(), 0);
  EXPECT_GT(steps.state_bytes(), 4'000'000u * 4);
  EXPECT_GT(steps.activation_bytes(), 0u);
}

}  // namespace
}  // namespace bertie
