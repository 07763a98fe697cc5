// After the first step, a training step takes no memory from anywhere: batches, passes, update, log.
#include <gtest/gtest.h>

#include "alloc/allocations.h"
#include "support/temp_folder.h"
#include "train/fake_learner.h"

namespace bertie {
namespace {

using namespace test;

// Sequences that grow from step to step, up to 12 tokens, the first four masked.
class GrowingSource final : public BatchSource {
 public:
  std::span<const TermSpec> terms() const override { return kFakeTerms; }
  void begin_step(size_t count) override { next_ += count; }
  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    for (size_t s = first; s < first + count; ++s) {
      const auto length = int32_t(std::min<size_t>(12, 4 + next_ / count));
      for (int32_t i = 0; i < length; ++i) {
        if (i < 4) into.terms[0].rows.push_back(int32_t(into.ids.size())), into.terms[0].targets.push_back(i);
        into.ids.push_back(int32_t((next_ + s + size_t(i)) % 50));
        into.types.push_back(0);
      }
      into.offsets.push_back(int32_t(into.ids.size()));
      into.terms[1].targets.push_back(int32_t(s % 2));
    }
  }
  std::string cursor() const override { return std::to_string(next_); }
  void seek(const std::string& cursor) override { next_ = std::stoull(cursor); }
  double epochs() const override { return 0; }

 private:
  size_t next_ = 0;
};

void expect_none(Learner& learner, BatchSource& source, size_t accumulate,
                 OptimizerMethod method = OptimizerMethod::kAdamW) {
  TempFolder folder;
  const auto alone = join_ranks();
  TrainOptions o = fake_options(folder.path());
  o.save_every = 0, o.accumulate = accumulate, o.rate = 1e-3, o.method = method;
  double seen = 0;
  Trainer trainer({.learner = learner, .source = source, .ranks = *alone, .max_length = 12}, o,
                  {.progress = [&](const TrainProgress& p) { seen += p.loss; }});
  trainer.step();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(allocations_of([&] { trainer.step(); }), 0u) << "step " << i + 2;
  EXPECT_GT(seen, 0);
}

TEST(Allocations, OfATrainingStepAreNoneAfterTheFirst) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  const Config config{
      .layers = 2, .hidden = 48, .heads = 4, .intermediate = 100, .vocabulary = 60, .positions = 20};
  for (size_t accumulate : {1, 2})
    for (int threads : {1, 2}) {
      FakeLearner fake(50, threads);
      GrowingSource source;
      expect_none(fake, source, accumulate);
      for (const auto method : {OptimizerMethod::kAdamW, OptimizerMethod::kMuon}) {
        const auto learner =
            make_learner(config, {Head::kMaskedLm, Head::kNextSentence}, 1, {.threads = threads});
        expect_none(*learner, source, accumulate, method);
      }
    }
}

}  // namespace
}  // namespace bertie
