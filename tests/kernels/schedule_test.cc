#include "kernels/schedule.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace bertie::kernels
