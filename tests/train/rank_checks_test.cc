// What ranks must have in common, and what happens when they have not.
#include "train/ranks/rank_checks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "fake_learner.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "thread_ranks.h"
#include "train/loop/trainer.h"
#include "train/ranks/launch_advice.h"

namespace bertie {
namespace {

using namespace test;

// A run of two ranks; `change` may make rank 1 another one.
struct TwoRanks {
  TempFolder folder;
  using Change = std::function<void(int rank, FakeLearner&, FakeSource&, TrainOptions&, Trainer::Parts&)>;

  void run(const Change& change, const TrainEvents& events = {}, const TrainOptions* options = nullptr) {
    ThreadRanks(2).run([&](Collective& rank) {
      FakeLearner learner;
      FakeSource source;
      TrainOptions o = options ? *options : fake_options(folder.path() / "run");
      Trainer::Parts parts{.learner = learner, .source = source, .ranks = rank};
      change(rank.rank(), learner, source, o, parts);
      Trainer(parts, o, events).run();
    });
  }
  bool began() const { return std::filesystem::exists(folder.path() / "run"); }
};

TEST(RanksOfARun, ThatWereToldOtherThingsAreAnError) {
  using Options = std::function<void(TrainOptions&)>;
  const std::pair<const char*, Options> cases[] = {
      {"rank 1 would not do the same run as rank 0: not the same limits",
       [](TrainOptions& o) { o.steps = 41; }},
      {"not the same rate, seed", [](TrainOptions& o) { o.rate = 0.06, o.seed = 7; }},
      {"not the same save-every", [](TrainOptions& o) { o.save_every = 11; }}};
  for (const auto& [what, other] : cases) {
    TwoRanks ranks;
    expect_error(what, [&] {
      ranks.run([&](int rank, auto&, auto&, TrainOptions& o, auto&) {
        if (rank == 1) other(o);
      });
    });
    EXPECT_FALSE(ranks.began()) << "nothing was written";
  }
}

TEST(RanksOfARun, WithOtherDataOrAnotherModelAreAnError) {
  TwoRanks ranks;
  expect_error("not the same data", [&] {
    ranks.run([](int rank, auto&, FakeSource& source, auto&, auto&) {
      if (rank == 1) source.begin_step(3);
    });
  });
  expect_error("not the same objective", [&] {
    ranks.run([](int rank, auto&, auto&, auto&, Trainer::Parts& parts) {
      parts.description = rank == 1 ? R"({"objective": "mlm"})" : R"({"objective": "mlm+nsp"})";
    });
  });
  expect_error("not the same other settings", [&] {
    ranks.run([](int rank, auto&, auto&, auto&, Trainer::Parts& parts) {
      if (rank == 1) parts.description = R"({"more": 1})";
    });
  });
}

// A rank whose memory or processor spoils its own numbers, after they were added up.
TEST(RanksOfARun, WhoseModelsDriftApartDoNotSave) {
  TwoRanks ranks;
  expect_error("the model of rank 1 is no longer that of rank 0", [&] {
    ranks.run([](int rank, FakeLearner& learner, auto&, auto&, auto&) {
      if (rank == 1)
        learner.spoil = [&learner](std::span<float>) {
          learner.parameters()[3] = std::nextafter(learner.parameters()[3], 9.0f);
        };
    });
  });
  EXPECT_TRUE(ranks.began());
  EXPECT_FALSE(std::filesystem::exists(ranks.folder.path() / "run/last")) << "nothing was saved";
}

// Saves and limits by time go by rank 0's clock: one second for each look at it. Rank 1's stands still, or
// has long passed all limits.
TEST(RanksOfARun, GoByTheClockOfRank0) {
  for (const double others : {0.0, 1e9}) {
    TwoRanks ranks;
    TrainOptions o = fake_options(ranks.folder.path() / "run");
    o.save_every = 0, o.save_seconds = 30, o.steps = 0, o.seconds = 150;
    std::atomic<int> saved = 0;
    std::array<std::atomic<uint64_t>, 2> steps{};
    double looks = 0;
    ThreadRanks(2).run([&](Collective& rank) {
      FakeLearner learner;
      FakeSource source;
      double offset = 0;
      Trainer trainer({.learner = learner,
                       .source = source,
                       .ranks = rank,
                       .clock = [&, first = rank.rank() == 0] { return first ? ++looks : offset += others; }},
                      o, {.saved = [&](const auto&) { ++saved; }});
      steps[size_t(rank.rank())] = trainer.run().step;
    });
    EXPECT_EQ(steps[0], steps[1]);
    EXPECT_GT(steps[0], 10u);
    EXPECT_GE(saved, 3);
    EXPECT_LE(saved, 6);
  }
}

// The decision to take a step, and how far it is clipped, is rank 0's.
TEST(RanksOfARun, TakeTheNormOfRank0) {
  ThreadRanks(2).run(
      [](Collective& rank) { EXPECT_EQ(value_of_rank_0(rank, rank.rank() == 0 ? 1.5 : 99), 1.5); });
}

bool says(const std::vector<std::string>& advice, const std::string& what) {
  for (const std::string& word : advice)
    if (word.find(what) != word.npos) return true;
  return false;
}

std::vector<std::string> advice_for(const Launcher& launcher, int ranks, int cores) {
  std::vector<std::string> advice;
  ThreadRanks(ranks).run([&](Collective& rank) {
    const auto said = launch_advice(launcher, rank, cores);
    if (rank.rank() == 0) advice = said;
  });
  return advice;
}

TEST(Launcher, AdviceSaysWhatIsMissing) {
  const Launcher plain{.ranks = 2, .open_mpi = true, .cores = 64};
  const auto advice = advice_for(plain, 2, 1);
  EXPECT_TRUE(says(advice, "within 2 s")) << advice[0];
  EXPECT_TRUE(says(advice, "--mca odls_base_sigkill_timeout 30"));
  EXPECT_TRUE(says(advice, "the 2 ranks are bound to 2 of 64 cores"));
  EXPECT_TRUE(says(advice, "--bind-to none"));
  EXPECT_TRUE(says(advice, "--map-by slot:PE=32"));
}

TEST(Launcher, AdviceIsSilentWhereAllIsWell) {
  Launcher well{.ranks = 2, .open_mpi = true, .kill_timeout = 30, .cores = 64};
  EXPECT_TRUE(advice_for(well, 2, 32).empty());
  EXPECT_TRUE(advice_for(well, 2, 64).empty());  // not bound
  EXPECT_TRUE(advice_for(well, 1, 1).empty());
  well.cores = 2;
  EXPECT_TRUE(advice_for(well, 4, 1).empty());  // more ranks than cores
}

TEST(Launcher, IsFoundInTheEnvironment) {
  const char* names[] = {"OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_RANK",
                         "PMI_SIZE",
                         "PMIX_RANK",
                         "OMPI_MCA_odls_base_sigkill_timeout",
                         "OMPI_MCA_orte_forward_job_control"};
  for (const char* name : names) unsetenv(name);
  EXPECT_FALSE(Launcher::find().several());
  setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
  setenv("OMPI_COMM_WORLD_RANK", "2", 1);
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "45", 1);
  const Launcher found = Launcher::find();
  EXPECT_TRUE(found.several());
  EXPECT_TRUE(found.open_mpi);
  EXPECT_EQ(found.ranks, 3);
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.kill_timeout, 45);
  EXPECT_FALSE(found.forwards_job_control);
  EXPECT_EQ(found.process, 0) << "this test's parent is no mpirun";
  EXPECT_GT(found.cores, 0);
  for (const char* name : names) unsetenv(name);
}

}  // namespace
}  // namespace bertie
