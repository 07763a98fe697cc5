#include "core/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "bertie/error.h"
#include "core/random.h"

namespace bertie {
namespace {

// Every chunk once, worker ids in range, and no id used by two threads at the same time.
void check_job(Team& team, size_t chunks) {
  std::vector<std::atomic<int>> times(chunks);
  std::vector<std::atomic<int>> busy(size_t(team.threads()));
  std::atomic<int> wrong{0};
  team.parallel_for(chunks, [&](size_t chunk, size_t worker) {
    if (worker >= busy.size() || chunk >= chunks) {
      ++wrong;
      return;
    }
    if (busy[worker].exchange(1) != 0) ++wrong;
    ++times[chunk];
    if (busy[worker].exchange(0) != 1) ++wrong;
  });
  ASSERT_EQ(wrong, 0) << "a chunk or worker out of range, or a worker id in two places at once";
  for (size_t c = 0; c < chunks; ++c) ASSERT_EQ(times[c], 1) << "chunk " << c << " of " << chunks;
}

class TeamOf : public testing::TestWithParam<int> {};

TEST_P(TeamOf, RunsEveryChunkExactlyOnce) {
  Team team(GetParam());
  ASSERT_EQ(team.threads(), GetParam());
  for (size_t chunks = 0; chunks <= 70; ++chunks) check_job(team, chunks);
  for (size_t chunks : {127, 128, 129, 1000, 4999, 5000}) check_job(team, chunks);
}

TEST_P(TeamOf, RunsThousandsOfJobsInARow) {
  Team team(GetParam());
  Random random(1);
  // With more threads than cores each job may wait for the system to run somebody.
  for (int job = 0; job < 3000; ++job) ASSERT_NO_FATAL_FAILURE(check_job(team, random.below(9)));
}

TEST_P(TeamOf, WakesThreadsThatHaveGoneToSleep) {
  Team team(GetParam());
  Random random(2);
  for (int job = 0; job < 150; ++job) {
    // Around the time after which idle threads sleep, and well past it.
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(2) ? random.below(150) : 1500));
    ASSERT_NO_FATAL_FAILURE(check_job(team, 1 + random.below(20)));
  }
}

TEST_P(TeamOf, ResultsAreSeenByTheCallerWithoutMoreAdo) {
  // Plain memory, written by all, read by the caller: a missing happens-before shows here and under TSan.
  Team team(GetParam());
  std::vector<size_t> written(512);
  for (size_t job = 1; job <= 2000; ++job) {
    team.parallel_for(written.size() / 8, [&](size_t chunk) {
      for (size_t i = 8 * chunk; i < 8 * chunk + 8; ++i) written[i] += job + i;
    });
    ASSERT_EQ(written[job % 512], job * (job + 1) / 2 + job * (job % 512));
  }
}

TEST_P(TeamOf, TakesMoreChunksThanItsCounterHolds) {
  Team team(GetParam());
  // Around powers of two, where a packed counter would run over.
  for (size_t chunks :
       {(size_t{1} << 19) + 1, (size_t{1} << 20) - 2, (size_t{1} << 20) - 1, (size_t{1} << 20) + 1}) {
    std::vector<uint8_t> times(chunks);
    team.parallel_for(chunks, [&](size_t chunk) { ++times[chunk]; });
    for (size_t c = 0; c < chunks; ++c) ASSERT_EQ(times[c], 1) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, TeamOf, testing::Range(1, 6));

TEST(Team, IsMadeAndEndedQuicklyAgainAndAgain) {
  for (int i = 0; i < 200; ++i) {
    Team team(1 + i % 4);
    if (i % 2) check_job(team, size_t(i % 7));
  }
}

TEST(Team, EndsWhileItsThreadsSleep) {
  auto team = std::make_unique<Team>(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  team.reset();
}

TEST(Team, OfNobodyIsTheCallerAlone) {
  Team team(0);
  EXPECT_EQ(team.threads(), 1);
  check_job(team, 10);
}

TEST(Team, GivesEveryThreadSomeOfALongJob) {
  Team team(2);
  std::vector<std::atomic<int>> chunks_of(2);
  // Chunks of 1 ms: even a thread that the system wakes late finds some left.
  team.parallel_for(100, [&](size_t, size_t worker) {
    ++chunks_of[worker];
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_GT(chunks_of[0], 10);
  EXPECT_GT(chunks_of[1], 10);
}

TEST(Team, ThreadsBeginWithSharesOfTheirOwnInOrder) {
  Team team(2);
  std::vector<size_t> worker_of(100), order(100);
  std::atomic<size_t> taken{0};
  team.parallel_for(100, [&](size_t chunk, size_t worker) {
    worker_of[chunk] = worker, order[chunk] = taken++;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  // The caller's share, from the front: what the other takes of it, if it does, is at the end.
  size_t own = 0;
  while (own < 50 && worker_of[own] == 0) ++own;
  EXPECT_GT(own, 10);
  for (size_t c = own; c < 50; ++c) EXPECT_EQ(worker_of[c], 1) << c;
  EXPECT_TRUE(std::is_sorted(order.begin(), order.begin() + ptrdiff_t(own)));
  size_t others = 50;
  while (others < 100 && worker_of[others] == 1) ++others;
  for (size_t c = others; c < 100; ++c) EXPECT_EQ(worker_of[c], 0) << c;
}

TEST(TeamDeathTest, ThatCannotBeStartedIsAnErrorNotTheEnd) {
  // In a process of its own, with address space for some stacks but not for hundreds.
  const auto start_too_many = [] {
    const rlimit limit{size_t{1} << 30, size_t{1} << 30};
    setrlimit(RLIMIT_AS, &limit);
    try {
      Team team(1000);
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(7);
    }
    std::_Exit(0);
  };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  EXPECT_EXIT(start_too_many(), testing::ExitedWithCode(7), "of 1000 threads");
}

TEST(AvailableThreads, IsAtLeastOne) { EXPECT_GE(available_threads(), 1); }

}  // namespace
}  // namespace bertie
