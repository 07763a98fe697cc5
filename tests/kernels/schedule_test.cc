#include "kernels/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/random.h"

namespace bertie::kernels {
namespace {

// How often each panel of each row is computed, and how many chunks each block has.
void check(size_t rows, size_t panels, size_t fitting, size_t threads) {
  const Schedule schedule(rows, panels, fitting, threads);
  SCOPED_TRACE(testing::Message() << rows << " rows, " << panels << " panels, " << fitting << " fit, "
                                  << threads << " threads");
  ASSERT_GE(schedule.blocks(), 1u);
  ASSERT_LE(schedule.blocks(), Schedule::kMaxBlocks);
  ASSERT_EQ(schedule.block_begin(schedule.blocks()), rows);
  ASSERT_EQ(schedule.chunks() % threads, 0u) << "or shares of Team are not those of the schedule";
  std::vector<int> times(rows * panels);
  std::vector<size_t> chunks_of(schedule.blocks());
  for (size_t c = 0; c < schedule.chunks(); ++c) {
    const Schedule::Chunk chunk = schedule[c];
    ASSERT_LT(chunk.block, schedule.blocks());
    ASSERT_GE(chunk.r0, schedule.block_begin(chunk.block));
    ASSERT_LE(chunk.r1, schedule.block_begin(chunk.block + 1));
    ASSERT_LE(chunk.last, panels);
    ASSERT_LE(chunk.then, panels);
    ++chunks_of[chunk.block];
    for (size_t r = chunk.r0; r < chunk.r1; ++r)
      for (size_t p = chunk.first; p < chunk.last; ++p) ++times[r * panels + p];
    if (schedule.by_rows()) {
      ASSERT_EQ(chunk.block / (schedule.blocks() / threads), c / (schedule.chunks() / threads));
    }
  }
  for (const int n : times) ASSERT_EQ(n, 1);
  for (size_t b = 0; b < schedule.blocks(); ++b) ASSERT_EQ(schedule.chunks_of(b), chunks_of[b]) << b;
}

TEST(Schedule, ComputesEveryPanelOfEveryRowOnce) {
  for (size_t rows : {1, 2, 13, 14, 55, 56, 57, 111, 112, 128, 1000})
    for (size_t panels : {1, 2, 3, 7, 8, 24, 96})
      for (size_t threads : {1, 2, 3, 4, 7, 16, 64})
        ASSERT_NO_FATAL_FAILURE(check(rows, panels, 100, threads));
}

TEST(Schedule, AlsoOfManyBlocksAndForManyThreads) {
  Random random(1);
  for (int i = 0; i < 300; ++i)
    ASSERT_NO_FATAL_FAILURE(
        check(1 + random.below(40000), 1 + random.below(9), 40 + random.below(400), 1 + random.below(64)));
  ASSERT_NO_FATAL_FAILURE(check(60000, 2, 56, 63));  // blocks are rounded down to a multiple of threads
}

// When the last of Team's threads is done, over when all could be: each takes its share from the front, and
// then from the ends of others'.
double over_ideal(const Schedule& schedule, const std::vector<double>& speeds) {
  const size_t threads = speeds.size(), share = schedule.chunks() / threads;
  std::vector<size_t> begin(threads), end(threads);
  for (size_t t = 0; t < threads; ++t) begin[t] = t * share, end[t] = (t + 1) * share;
  std::vector<double> time(threads);
  double work = 0, speed = 0;
  for (const double s : speeds) speed += s;
  for (size_t left = schedule.chunks(); left > 0; --left) {
    const size_t t = size_t(std::ranges::min_element(time) - time.begin());
    size_t from = t;
    for (size_t other = 0; begin[t] == end[t] && other < threads; ++other)
      if (end[other] - begin[other] > end[from] - begin[from]) from = other;
    const Schedule::Chunk c = schedule[from == t ? begin[t]++ : --end[from]];
    const double size = double((c.r1 - c.r0) * (c.last - c.first));
    time[t] += size / speeds[t], work += size;
  }
  return std::ranges::max(time) / (work / speed);
}

TEST(Schedule, ThreadsEndAboutTogetherWhereOneIsSlow) {
  EXPECT_LE(over_ideal({1024, 24, 213, 2}, {1, 1}), 1.03);
  EXPECT_LE(over_ideal({1024, 96, 213, 2}, {1, 0.5}), 1.1);
  EXPECT_LE(over_ideal({512, 96, 160, 2}, {1, 0.5}), 1.1);
  EXPECT_LE(over_ideal({128, 96, 213, 2}, {1, 0.5}), 1.15);
  EXPECT_LE(over_ideal({1024, 96, 160, 4}, {1, 1, 1, 0.5}), 1.15);
  EXPECT_LE(over_ideal({256, 96, 160, 4}, {1, 1, 1, 0.5}), 1.2);
}

}  // namespace
}  // namespace bertie::kernels
