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
      BatchStep step(learner, rank, source, {.batch = 6, .accumulate = 2, .bucket = bucket});
      double seconds = 0;
      step.learn({}, seconds);
      results[size_t(rank.rank())].assign(learner.gradients().begin(), learner.gradients().end());
    });
    if (one.empty()) one = results[0];
    for (const auto& result : results) EXPECT_TRUE(same_bits(result, one)) << bucket;
    EXPECT_EQ(threads.sums_started, (1051 + bucket - 1) / bucket);
  }
}

// A term's gradient is that of its own mean, times its weight.
TEST(BatchStep, EachTermIsTheMeanOverItsOwnTargetsTimesItsWeight) {
  const auto gradients = [](std::vector<TermSpec> terms) {
    FakeLearner learner;
    FakeSource source(50, std::move(terms));
    const auto alone = join_ranks();
    BatchStep step(learner, *alone, source, {.batch = 6, .accumulate = 2});
    double seconds = 0;
    step.learn({}, seconds);
    return std::vector<float>(learner.gradients().begin(), learner.gradients().end());
  };
  const TermSpec token{"token", Head::kMaskedLm}, none{"label", Head::kNextSentence, 0},
      heavy{"label", Head::kNextSentence, 3};
  const auto one = gradients({token, {"label", Head::kNextSentence}}), without = gradients({token, none}),
             three = gradients({token, heavy});
  const size_t bias = one.size() - 1;  // what labels have a gradient for
  EXPECT_TRUE(same_bits(std::span(one).first(bias), std::span(three).first(bias)));
  EXPECT_EQ(without[bias], 0);
  EXPECT_NE(one[bias], 0);
  EXPECT_NEAR(three[bias], 3 * one[bias], 1e-6);
}

TEST(BatchStorage, CountsTargetsAsTheLearnerDoes) {
  BatchStorage store(std::vector<TermSpec>{{"token", Head::kMaskedLm},
                                           {"answer", Head::kAnswer},
                                           {"score", Head::kClassify},
                                           {"teacher", Head::kMaskedLm}});
  store.offsets = {0, 4, 10, 20};  // three sequences
  store.terms[0].targets = {5, -1, 0};
  EXPECT_EQ(store.count(store.terms[0]), 2u);
  store.terms[1].targets = {3, 4, -1, -1, 2, 2};
  EXPECT_EQ(store.count(store.terms[1]), 2u) << "a first and a last token are one answer";
  store.terms[2].values = {0.5f, 1, 2};
  EXPECT_EQ(store.count(store.terms[2]), 3u);
  store.terms[3].teacher.resize(12), store.terms[3].teacher_columns = 4;
  EXPECT_EQ(store.count(store.terms[3]), 3u) << "rows of four";
  store.terms[1].targets.clear();
  store.terms[1].teacher.resize(40), store.terms[1].teacher_columns = 2;
  EXPECT_EQ(store.count(store.terms[1]), 3u) << "a teacher's answer is all tokens of a sequence";
  store.clear();
  for (const BatchStorage::Term& term : store.terms) EXPECT_TRUE(term.empty());
}

}  // namespace
}  // namespace bertie
