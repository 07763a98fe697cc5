// After warm-up a forward pass takes no memory from anywhere.
#include <gtest/gtest.h>

#include <memory>

#include "alloc/counting_allocator.h"
#include "bertie/model.h"
#include "core/arena.h"
#include "support/sentences.h"

namespace bertie {
namespace {

const Config kConfig{
    .layers = 3, .hidden = 48, .heads = 4, .intermediate = 100, .vocabulary = 100, .positions = 600};

using test::allocations_of;

TEST(Allocations, AreCountedWhereverTheyComeFrom) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  // Through pointers that the compiler cannot see through, or it would leave the allocation out.
  void* volatile keep = nullptr;
  EXPECT_EQ(allocations_of([&] { keep = new int(1); }), 1u);
  delete static_cast<int*>(keep);
  EXPECT_EQ(allocations_of([&] { keep = malloc(10); }), 1u);
  EXPECT_EQ(allocations_of([&] { keep = realloc(keep, 100); }), 1u);
  free(keep);
  EXPECT_EQ(allocations_of([&] { keep = calloc(10, 10); }), 1u);
  free(keep);
  EXPECT_GE(allocations_of([&] { std::vector<int> v(10), w(v); }), 2u);
  EXPECT_EQ(allocations_of([&] { Block block(100); }), 1u) << "mmap";
}

TEST(Allocations, OfAForwardPassAreNoneAfterWarmUp) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  const Model model = Model::random(kConfig);
  Random random(1);
  std::vector<test::Packed> batches;
  for (int i = 0; i < 20; ++i) {
    std::vector<test::Sentence> sentences(random.below(5));
    for (auto& s : sentences) s = test::random_sentence(random, random.below(100), kConfig);
    batches.emplace_back(sentences, 2);
  }
  const std::vector<test::Sentence> longest(4, test::random_sentence(random, 600, kConfig));
  const test::Packed warm_up(longest, 2);
  const Capture captures[] = {
      {}, {.pooled = true}, {.attention = {1}}, {.attention = {0, 2}}, test::kEverything};
  for (int threads : {1, 2}) {
    bertie::Run run(model, threads);
    run.forward(warm_up.batch(), test::kEverything);
    const size_t memory = run.memory();
    for (const auto& batch : batches)
      for (const Capture& capture : captures)
        ASSERT_EQ(allocations_of([&] { run.forward(batch.batch(), capture); }), 0u)
            << batch.ids.size() << " tokens, " << threads << " threads";
    EXPECT_EQ(allocations_of([&] { run.forward(warm_up.batch(), test::kEverything); }), 0u)
        << "the largest again";
    EXPECT_EQ(run.memory(), memory);
  }
}

TEST(Allocations, OfAForwardPassThatGrowsAreFew) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  const Model model = Model::random(kConfig);
  bertie::Run run(model, 1);
  const std::vector<test::Sentence> one(1, test::Sentence(100, 1));
  const test::Packed packed(one, 2);
  EXPECT_GE(allocations_of([&] { run.forward(packed.batch(), test::kEverything); }), 1u)
      << "or nothing is counted";
}

}  // namespace
}  // namespace bertie
