// Evenly spaced sequences of a source: the same ones as it has, from all of it.
#include "train/data/subset_source.h"

#include <gtest/gtest.h>

#include "fake_learner.h"

namespace bertie {
namespace {

using namespace test;

// Sequence i is the token i, to be predicted; a pair has it on the other side too.
class CountingSource : public BatchSource {
 public:
  explicit CountingSource(bool pairs, int& steps) : pairs_(pairs), steps_(steps) {}
  std::span<const TermSpec> terms() const override { return kFakeTerms; }
  void begin_step(size_t) override { ++steps_; }
  void make(size_t first, size_t count, BatchStorage& into) override {
    into.clear();
    into.offsets.push_back(0);
    if (pairs_) into.target_offsets.push_back(0);
    for (size_t i = first; i < first + count; ++i) {
      into.ids.insert(into.ids.end(), 2, int32_t(i));
      into.types.insert(into.types.end(), 2, 0);
      into.offsets.push_back(int32_t(into.ids.size()));
      if (pairs_) {
        into.target_ids.insert(into.target_ids.end(), 3, int32_t(i));
        into.target_offsets.push_back(int32_t(into.target_ids.size()));
      }
      into.terms[0].rows.push_back(int32_t((pairs_ ? into.target_ids : into.ids).size()) - 1);
      into.terms[0].targets.push_back(int32_t(i));
      into.terms[1].targets.push_back(int32_t(i % 2));
    }
  }
  std::string cursor() const override { return ""; }
  void seek(const std::string&) override {}
  double epochs() const override { return 0; }

 private:
  bool pairs_;
  int& steps_;
};

TEST(SubsetSource, TakesSequencesFromAllOfIt) {
  int planned = 0;
  const auto source = make_subset_source(std::make_unique<CountingSource>(false, planned), 10, 4);
  BatchStorage store(kFakeTerms);
  for (int evaluation = 0; evaluation < 3; ++evaluation) {
    source->seek("0");
    source->begin_step(3);
    source->make(0, 3, store);
    EXPECT_EQ(store.terms[0].targets, (std::vector<int32_t>{0, 2, 5}));
    EXPECT_EQ(store.offsets, (std::vector<int32_t>{0, 2, 4, 6}));
    EXPECT_EQ(store.terms[0].rows, (std::vector<int32_t>{1, 3, 5}));
    EXPECT_EQ(store.terms[1].targets, (std::vector<int32_t>{0, 0, 1}));
    EXPECT_EQ(store.ids, (std::vector<int32_t>{0, 0, 2, 2, 5, 5}));
    EXPECT_EQ(store.types.size(), 6u);
    source->begin_step(2);
    source->make(0, 2, store);
    EXPECT_EQ(store.terms[0].targets, (std::vector<int32_t>{7, 0})) << "and from the start again";
    source->make(1, 1, store);
    EXPECT_EQ(store.terms[0].targets, (std::vector<int32_t>{0}));
  }
  EXPECT_EQ(planned, 1) << "an evaluation plans nothing";
}

TEST(SubsetSource, RowsOfPairsAreTheDecoders) {
  int planned = 0;
  const auto source = make_subset_source(std::make_unique<CountingSource>(true, planned), 10, 5);
  BatchStorage store(kFakeTerms);
  source->begin_step(2);
  source->make(0, 2, store);
  EXPECT_EQ(store.terms[0].rows, (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(store.target_offsets, (std::vector<int32_t>{0, 3, 6}));
  EXPECT_EQ(store.target_ids, (std::vector<int32_t>{0, 0, 0, 2, 2, 2}));
}

// All of it is what it is without.
TEST(SubsetSource, AllSequencesAreThoseOfTheSource) {
  FakeSource plain;
  const auto source = make_subset_source(std::make_unique<FakeSource>(), 20, 20);
  BatchStorage a(kFakeTerms), b(kFakeTerms);
  plain.begin_step(20), source->begin_step(20);
  plain.make(3, 9, a), source->make(3, 9, b);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.terms[0].rows, b.terms[0].rows);
  EXPECT_EQ(a.terms[0].targets, b.terms[0].targets);
  EXPECT_EQ(a.terms[1].targets, b.terms[1].targets);
}

}  // namespace
}  // namespace bertie
