// A step's gradients over ranks, in buckets.
#include "train/loop/batch_step.h"

#include <gtest/gtest.h>

#include "support/numbers.h"
#include "train/fake_learner.h"
#include "train/thread_ranks.h"

namespace bertie {
namespace {

using namespace test;

// Buckets end where they end, not where the learner says that it is ready; whatever their size, the sums are
// the same.
TEST(BatchStep, GradientsAreTheSameInAnyNumberOfBuckets) {
  std::vector<float> one;
  for (size_t bucket : {size_t{1} << 20, size_t{1051}, size_t{1000}, size_t{100}, size_t{7}}) {
    ThreadRanks threads(3);
    std::vector<std::vector<float>> results(3);
    threads.run([&](Collective& rank) {
      FakeLearner learner(50, 1, 1000);
      learner.spoil = [&](std::span<float> g) {  // something everywhere
        for (size_t i = 0; i < g.size(); ++i) g[i] += float(i) * 1e-3f + float(rank.rank());
      };
      FakeSource source;
      BatchStep step(learner, rank, kFakeHeads, {.batch = 6, .accumulate = 2, .bucket = bucket});
      double seconds = 0;
      step.learn(source, {}, seconds);
      results[size_t(rank.rank())].assign(learner.gradients().begin(), learner.gradients().end());
    });
    if (one.empty()) one = results[0];
    for (const auto& result : results) EXPECT_TRUE(same_bits(result, one)) << bucket;
    EXPECT_EQ(threads.sums_started, (1051 + bucket - 1) / bucket);
  }
}

}  // namespace
}  // namespace bertie
