// The loop, with something small that learns: batches, ranks, limits, evaluations.
#include "train/loop/trainer.h"

#include <gtest/gtest.h>

#include "fake_learner.h"
#include "io/file.h"
#include "io/json.h"
#include "kernels/gemm.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/targets.h"
#include "support/temp_folder.h"
#include "thread_ranks.h"

namespace bertie {
namespace {

using namespace test;
namespace fs = std::filesystem;

struct Fixture {
  FakeLearner learner;
  FakeSource source, held_out;
  std::unique_ptr<Collective> alone = join_ranks();

  Trainer trainer(const TrainOptions& o, const TrainEvents& events = {}, bool evaluates = false) {
    return Trainer({.learner = learner,
                    .source = source,
                    .held_out = evaluates ? &held_out : nullptr,
                    .ranks = *alone,
                    .eval_sequences = o.eval_sequences},
                   o, events);
  }
  std::vector<float> parameters() { return {learner.parameters().begin(), learner.parameters().end()}; }
};

TEST(Trainer, SaysWhereBf16IsNotToBeHad) {
  test::on_every_target([] {
    EXPECT_EQ(warning_of({}), "");
    TrainOptions options;
    options.bf16 = true;
    EXPECT_EQ(warning_of(options).empty(), kernels::has_bf16_products());
    if (hwy::SupportedTargets() & HWY_AVX3) return;
    EXPECT_FALSE(kernels::has_bf16_products());
  });
}

TEST(Trainer, Learns) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 300;
  std::vector<double> losses;
  TrainResult result =
      f.trainer(o, {.progress = [&](const TrainProgress& p) { losses.push_back(p.loss); }}).run();
  ASSERT_EQ(losses.size(), 300u);
  EXPECT_LT(losses.back(), losses.front() / 3);
  EXPECT_EQ(result.end, TrainEnd::kLimit);
  EXPECT_EQ(result.step, 300u);
  EXPECT_EQ(result.loss, losses.back());
}

// The gradient of the mean over the whole batch, however it is cut.
TEST(Trainer, MicroBatchesAndRanksDoNotChangeAStep) {
  TempFolder folder;
  TrainOptions o = fake_options(folder.path() / "one");
  o.batch = 12, o.steps = 5;
  Fixture whole;
  whole.trainer(o).run();
  for (size_t accumulate : {2, 3, 5, 12}) {
    Fixture f;
    o.out = folder.path() / std::to_string(accumulate), o.accumulate = accumulate;
    f.trainer(o).run();
    for (size_t i = 0; i < f.parameters().size(); ++i)
      EXPECT_NEAR(f.parameters()[i], whole.parameters()[i], 1e-5) << accumulate;
  }
  for (int ranks : {2, 3, 4}) {
    ThreadRanks threads(ranks);
    o.out = folder.path() / ("ranks" + std::to_string(ranks)), o.accumulate = 2;
    std::vector<std::vector<float>> results(static_cast<size_t>(ranks));
    threads.run([&](Collective& rank) {
      FakeLearner learner;
      if (rank.rank() > 0) learner.parameters()[0] = 17;  // rank 0's are taken
      FakeSource source;
      Trainer({.learner = learner, .source = source, .ranks = rank}, o).run();
      results[size_t(rank.rank())].assign(learner.parameters().begin(), learner.parameters().end());
    });
    for (const auto& result : results) {
      EXPECT_TRUE(same_bits(result, results[0]));
      for (size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], whole.parameters()[i], 1e-5) << ranks;
    }
    EXPECT_EQ(threads.sums_started, 5u) << "one bucket a step";
  }
}

// A source's losses have names and weights of their own, and what is evaluated may be something else.
TEST(Trainer, MetricsAreNamedByTheirSource) {
  TempFolder folder;
  FakeLearner learner;
  FakeSource source(50,
                    {{"token", Head::kMaskedLm, 0.5}, {"a", Head::kNextSentence, 2}, {"b", Head::kClassify}}),
      held_out(50, {{"word", Head::kMaskedLm}});
  const auto alone = join_ranks();
  TrainOptions o = fake_options(folder.path());
  o.eval_every = 20;
  TrainProgress last;
  std::vector<EvalResult> evaluated;
  Trainer({.learner = learner, .source = source, .held_out = &held_out, .ranks = *alone, .eval_sequences = 9},
          o,
          {.progress = [&](const TrainProgress& p) { last = p; },
           .evaluated = [&](const EvalResult& r) { evaluated.push_back(r); }})
      .run();
  ASSERT_EQ(last.metrics.size(), 3u);
  EXPECT_EQ(last.metrics[2].name, "b");
  EXPECT_EQ(last.metrics[1].count, 8u);
  EXPECT_NEAR(last.loss, 0.5 * last.metrics[0].loss + 2 * last.metrics[1].loss + last.metrics[2].loss, 1e-12);
  ASSERT_EQ(evaluated.size(), 2u);
  ASSERT_EQ(evaluated[0].metrics.size(), 1u);
  EXPECT_EQ(evaluated[0].metrics[0].name, "word");
  EXPECT_EQ(evaluated[0].loss, evaluated[0].metrics[0].loss);
  std::ifstream log(folder.path() / "log.jsonl");
  std::string line;
  std::getline(log, line);
  EXPECT_TRUE(nlohmann::json::parse(line).contains("b_accuracy")) << line;
}

TEST(Trainer, ABatchThatCannotBeCutIsAnError) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.accumulate = 9;
  expect_error("cannot be cut into 9 micro-batches", [&] { f.trainer(o); });
}

TEST(Trainer, DropoutsSeedIsTheStepsAndSequencesAreNumberedInTheStep) {
  TempFolder folder;
  Fixture f;
  f.learner.keeps_account = true;
  TrainOptions o = fake_options(folder.path());
  o.steps = 3, o.accumulate = 2;
  f.trainer(o).run();
  ASSERT_EQ(f.learner.seen.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(f.learner.seen[i].second, i % 2 * 4);
    EXPECT_EQ(f.learner.seen[i].first, f.learner.seen[i / 2 * 2].first);
  }
  EXPECT_NE(f.learner.seen[0].first, f.learner.seen[2].first);
  EXPECT_NE(f.learner.seen[2].first, f.learner.seen[4].first);
}

TEST(Trainer, TheRateFollowsTheLimitByTokens) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 0, o.tokens = 1000, o.warmup = 0;
  uint64_t before = 0;
  const TrainResult result =
      f.trainer(o, {.progress =
                        [&](const TrainProgress& p) {
                          EXPECT_NEAR(p.rate, o.rate * (1 - double(before) / 1000), 1e-12);
                          EXPECT_NEAR(p.fraction, std::min(1.0, double(p.tokens) / 1000), 1e-12);
                          before = p.tokens;
                        }})
          .run();
  EXPECT_GE(result.tokens, 1000u);
  EXPECT_LT(result.tokens, 1000u + 8 * 9);
}

TEST(Trainer, ALimitByTimeEndsTheRun) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 0, o.seconds = 0.05, o.save_every = 0;
  const TrainResult result = f.trainer(o).run();
  EXPECT_GE(result.seconds, 0.05);
  EXPECT_GT(result.step, 0u);
  EXPECT_TRUE(fs::exists(result.checkpoint / "model.safetensors"));
}

TEST(Trainer, WithoutALimitOrAFolderItDoesNotStart) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 0;
  expect_error("needs a limit", [&] { f.trainer(o); });
  o = fake_options("");
  expect_error("needs a folder", [&] { f.trainer(o); });
}

TEST(Trainer, StepsThatAreNotFiniteAreSkippedSaidAndCounted) {
  TempFolder folder;
  Fixture f;
  int passes = 0;
  f.learner.spoil = [&](std::span<float> g) {
    if (++passes == 7) g[3] = kNaN;
  };
  std::vector<std::string> warnings;
  const TrainResult result = f.trainer(fake_options(folder.path()),
                                       {.warning = [&](std::string_view w) { warnings.emplace_back(w); }})
                                 .run();
  EXPECT_EQ(result.skipped, 1u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("step 7 was skipped"), std::string::npos) << warnings[0];
  for (float p : f.parameters()) EXPECT_TRUE(std::isfinite(p));
}

TEST(Trainer, GivesUpWhenNoStepCanBeTaken) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 1000;
  f.learner.spoil = [](std::span<float> g) { g[0] = kInf; };
  expect_error("100 steps in a row", [&] { f.trainer(o).run(); });
}

TEST(Trainer, IsNoSuccessWhereEveryStepWasSkipped) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 7;
  f.learner.spoil = [](std::span<float> g) { g[0] = kInf; };
  expect_error("all 7 steps were skipped", [&] { f.trainer(o).run(); });
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "last")) << "there is nothing to save";
}

TEST(Trainer, EvaluatesOnHeldOutDataKeepsTheBestAndLosesPatience) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  o.steps = 400, o.eval_every = 5, o.eval_sequences = 30, o.patience = 3, o.keep = 1, o.rate = 0.2;
  o.schedule = Schedule::kConstant;
  std::vector<EvalResult> looks;
  const TrainResult result =
      f.trainer(o, {.evaluated = [&](const EvalResult& r) { looks.push_back(r); }}, true).run();
  EXPECT_EQ(result.end, TrainEnd::kPatience);
  ASSERT_GE(looks.size(), 4u);
  double best = 1e9;
  uint64_t best_step = 0;
  for (const EvalResult& r : looks) {
    EXPECT_EQ(r.best, r.loss < best);
    if (r.best) best = r.loss, best_step = r.step;
  }
  EXPECT_EQ(result.best_step, best_step);
  EXPECT_EQ(result.best_loss, best);
  EXPECT_EQ(result.step, best_step + 15);
  EXPECT_EQ(fs::read_symlink(folder.path() / "best"), RunFolder::name_of(best_step));
  EXPECT_EQ(fs::read_symlink(folder.path() / "last"), RunFolder::name_of(result.step));
  EXPECT_EQ(RunFolder(folder.path()).steps(), (std::vector<uint64_t>{best_step, result.step}));
  // What it saw there is the loss of the parameters there.
  Fixture again;
  again.learner.load(folder.path() / "best");
  o.out = folder.path() / "again";
  EXPECT_EQ(again.trainer(o, {}, true).evaluate().loss, best);
}

TEST(Trainer, AnEvaluationDoesNotChangeTheRun) {
  TempFolder folder;
  Fixture a, b;
  TrainOptions o = fake_options(folder.path() / "a");
  a.trainer(o).run();
  o.out = folder.path() / "b", o.eval_every = 3, o.eval_sequences = 10;
  b.trainer(o, {}, true).run();
  EXPECT_TRUE(same_bits(a.parameters(), b.parameters()));
}

TEST(Trainer, StopsWhenAskedSavesAndGoesOnToTheSameBits) {
  TempFolder folder;
  Fixture whole, first, second;
  TrainOptions o = fake_options(folder.path() / "whole");
  whole.trainer(o).run();
  o.out = folder.path() / "parts";
  int steps = 0;
  const TrainResult stopped = first.trainer(o, {.stop = [&] { return ++steps == 23; }}).run();
  EXPECT_EQ(stopped.end, TrainEnd::kStopped);
  EXPECT_EQ(stopped.step, 23u);
  EXPECT_EQ(stopped.checkpoint, folder.path() / "parts" / "step-000023");
  o.resume = true;
  std::string note;
  const TrainResult result = second.trainer(o, {.note = [&](std::string_view what) { note = what; }}).run();
  EXPECT_NE(note.find("continues from"), std::string::npos) << note;
  EXPECT_EQ(result.step, 40u);
  EXPECT_TRUE(same_bits(whole.parameters(), second.parameters()));
}

// The mean of the parameters is what is evaluated and saved; learning goes on with the parameters.
TEST(Trainer, AMeanIsMeasuredAndSavedAndChangesNothingElse) {
  TempFolder folder;
  Fixture plain, mean;
  TrainOptions o = fake_options(folder.path() / "plain");
  o.eval_every = 8, o.eval_sequences = 30, o.schedule = Schedule::kConstant;
  double of_plain = 0, of_mean = 0;
  plain.trainer(o, {.evaluated = [&](const EvalResult& r) { of_plain = r.loss; }}, true).run();
  o.out = folder.path() / "mean", o.average = 0.9;
  mean.trainer(o, {.evaluated = [&](const EvalResult& r) { of_mean = r.loss; }}, true).run();
  EXPECT_TRUE(same_bits(plain.parameters(), mean.parameters()));
  EXPECT_NE(of_plain, of_mean);
  Fixture saved;
  saved.learner.load(o.out / "last");
  EXPECT_FALSE(same_bits(saved.parameters(), mean.parameters()));
  o.out = folder.path() / "saved", o.average = 0;
  EXPECT_EQ(saved.trainer(o, {}, true).evaluate().loss, of_mean) << "what was measured is what was saved";
}

TEST(Trainer, AMeanGoesOnToTheSameBitsAndMayEndEarlierOrBeginLater) {
  TempFolder folder;
  Fixture whole, first, second;
  TrainOptions o = fake_options(folder.path() / "whole");
  o.average = 0.9;
  whole.trainer(o).run();
  o.out = folder.path() / "parts";
  int steps = 0;
  first.trainer(o, {.stop = [&] { return ++steps == 23; }}).run();
  o.resume = true;
  second.trainer(o).run();
  EXPECT_TRUE(same_bits(whole.parameters(), second.parameters()));
  const auto model = [&](const char* run) {
    return std::string(io::MappedFile(folder.path() / run / "last" / "model.safetensors").text());
  };
  EXPECT_EQ(model("whole"), model("parts"));
  // Without it from here on: with the parameters, not with their mean.
  Fixture third;
  o.average = 0, o.steps = 41;
  std::string warning;
  {
    Trainer without = third.trainer(o, {.warning = [&](std::string_view what) { warning = what; }});
    EXPECT_TRUE(same_bits(whole.parameters(), third.parameters()));
    without.run();
  }
  EXPECT_NE(warning.find("another average: 0, not 0.9"), std::string::npos) << warning;
  // And again with it: the mean begins with the parameters.
  Fixture fourth;
  o.average = 0.9;
  Trainer again = fourth.trainer(o);
  EXPECT_TRUE(same_bits(third.parameters(), fourth.parameters()));
}

// Options under which the held-out loss soon no longer falls.
TrainOptions impatient(const fs::path& out) {
  TrainOptions o = fake_options(out);
  o.steps = 400, o.eval_every = 5, o.eval_sequences = 30, o.patience = 3, o.keep = 1, o.rate = 0.2;
  o.schedule = Schedule::kConstant;
  return o;
}

TEST(Trainer, ARunThatLostPatienceStaysWhereItIs) {
  TempFolder folder;
  TrainOptions o = impatient(folder.path());
  const TrainResult before = Fixture().trainer(o, {}, true).run();
  ASSERT_EQ(before.end, TrainEnd::kPatience);
  o.resume = true;
  const TrainResult after = Fixture().trainer(o, {}, true).run();
  EXPECT_EQ(after.end, TrainEnd::kPatience);
  EXPECT_EQ(after.step, before.step);
  EXPECT_EQ(after.loss, before.loss);
}

// Stopped where an evaluation is due: the same evaluations, the same best one, the same end.
TEST(Trainer, AnEvaluationThatWasDueWhenARunStoppedComesWhenItIsResumed) {
  TempFolder folder;
  TrainOptions o = impatient(folder.path() / "whole");
  std::vector<double> looks, in_parts;
  const TrainResult whole =
      Fixture().trainer(o, {.evaluated = [&](const EvalResult& r) { looks.push_back(r.loss); }}, true).run();
  o.out = folder.path() / "parts";
  TrainResult parts;
  for (int sessions = 0; sessions == 0 || parts.end == TrainEnd::kStopped; ++sessions) {
    ASSERT_LT(sessions, 400);
    int steps = 0;
    Fixture f;
    parts = f.trainer(o,
                      {.evaluated = [&](const EvalResult& r) { in_parts.push_back(r.loss); },
                       .stop = [&] { return ++steps == 5; }},
                      true)
                .run();
    o.resume = true;
  }
  EXPECT_EQ(parts.end, TrainEnd::kPatience);
  EXPECT_EQ(parts.step, whole.step);
  EXPECT_EQ(parts.best_step, whole.best_step);
  EXPECT_EQ(in_parts, looks);
  EXPECT_EQ(fs::read_symlink(folder.path() / "parts/best"), fs::read_symlink(folder.path() / "whole/best"));
}

TEST(Trainer, AFinishedRunThatGoesOnHasItsLossAndLeavesNoTrace) {
  TempFolder folder;
  TrainOptions o = fake_options(folder.path());
  const TrainResult before = Fixture().trainer(o).run();
  const auto names = [&] {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder.path())) all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto there = names();
  o.resume = true;
  const TrainResult after = Fixture().trainer(o).run();
  EXPECT_EQ(after.loss, before.loss);
  EXPECT_GT(after.loss, 0);
  EXPECT_EQ(after.step, before.step);
  EXPECT_EQ(names(), there);
}

// A loss that is not finite has no place in JSON.
TEST(Trainer, GoesOnAfterALossThatWasNotFinite) {
  TempFolder folder;
  TrainOptions o = fake_options(folder.path());
  Fixture f;
  {
    Trainer trainer = f.trainer(o);
    trainer.step();
    for (float& p : f.learner.parameters()) p = kNaN;
    EXPECT_EQ(trainer.run().skipped, 39u);
  }
  o.resume = true, o.steps = 41;
  EXPECT_EQ(Fixture().trainer(o).run().step, 41u);
}

TEST(Trainer, GoesOnWithAnotherNumberOfRanks) {
  TempFolder folder;
  Fixture whole, second;
  TrainOptions o = fake_options(folder.path() / "whole");
  whole.trainer(o).run();
  o.out = folder.path() / "parts", o.steps = 40;
  ThreadRanks ranks(2);
  ranks.run([&](Collective& rank) {
    FakeLearner learner;
    FakeSource source;
    Trainer trainer({.learner = learner, .source = source, .ranks = rank}, o);
    for (int i = 0; i < 20; ++i) trainer.step();
    trainer.save();
  });
  o.resume = true;
  second.trainer(o).run();
  for (size_t i = 0; i < whole.parameters().size(); ++i)
    EXPECT_NEAR(second.parameters()[i], whole.parameters()[i], 1e-5);
}

TEST(Trainer, ARunIsNotOverwrittenByAccident) {
  TempFolder folder;
  Fixture a, b;
  const TrainOptions o = fake_options(folder.path());
  a.trainer(o).run();
  expect_error("has checkpoints of a run already", [&] { b.trainer(o); });
}

TEST(Trainer, TwoDoNotTrainInOneFolder) {
  TempFolder folder;
  Fixture a, b;
  TrainOptions o = fake_options(folder.path());
  o.resume = true;
  {
    Trainer first = a.trainer(o);
    expect_error("another process trains", [&] { b.trainer(o); });
  }
  b.trainer(o).run();
}

TEST(Trainer, ResumingWhereThereIsNothingStarts) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path() / "new");
  o.resume = true;
  EXPECT_EQ(f.trainer(o).run().step, 40u);
}

TEST(Trainer, ACheckpointOfAnotherModelIsAnError) {
  TempFolder folder;
  Fixture f;
  TrainOptions o = fake_options(folder.path());
  f.trainer(o).run();
  FakeLearner other(60);
  o.resume = true;
  expect_error("another model",
               [&] { Trainer({.learner = other, .source = f.source, .ranks = *f.alone}, o); });
}

// Muon keeps no second moments of some parameters, and Adam's steps without them would be far too long.
TEST(Trainer, MomentsOfMuonAreNotGoneOnWithByAnother) {
  for (const auto& [first, second] : {std::pair(OptimizerMethod::kMuon, OptimizerMethod::kAdamW),
                                      {OptimizerMethod::kAdamW, OptimizerMethod::kMuon},
                                      {OptimizerMethod::kMuon, OptimizerMethod::kMuon}}) {
    TempFolder folder;
    Fixture a, b;
    TrainOptions o = fake_options(folder.path());
    o.method = first;
    a.trainer(o).run();
    o.resume = true, o.steps = 50, o.method = second;
    b.trainer(o).run();
    const nlohmann::json state =
        io::parse_json(ModelFiles(folder.path() / "last").read("state.json").text(), "state.json");
    EXPECT_EQ(state["optimiser"]["moment_updates"], first == second ? 50 : 10);
    EXPECT_EQ(state["optimiser"]["updates"], 50);
  }
}

TEST(Trainer, OtherOptionsThanTheRunHadAreSaid) {
  TempFolder folder;
  Fixture a, b;
  TrainOptions o = fake_options(folder.path());
  a.trainer(o).run();
  o.resume = true, o.batch = 16, o.steps = 50, o.method = OptimizerMethod::kLamb;
  std::vector<std::string> warnings;
  b.trainer(o, {.warning = [&](std::string_view w) { warnings.emplace_back(w); }}).run();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0], "the run continues with another batch: 16, not 8");
  EXPECT_EQ(warnings[1], "the run continues with another optimizer: lamb, not adamw");
}

}  // namespace
}  // namespace bertie
