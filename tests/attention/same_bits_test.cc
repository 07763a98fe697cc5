// A sequence's attention is bitwise the same alone, in any batch, and with any number of threads.
#include <gtest/gtest.h>

#include "attention/attention_cases.h"
#include "support/targets.h"

namespace bertie::dot_product {
namespace {

using test::AttentionCase;
using test::run_exact;
using test::run_tiled;

const std::vector<int32_t> kLengths{1, 40, 0, 17, 1030, 3, 14, 15, 520, 2};

TEST(AttentionBits, AreTheSameWithAnyNumberOfThreads) {
  Team one, two(2), three(3);
  test::on_every_target([&] {
    const AttentionCase c({kLengths, kLengths, 2, 8, 8}, 1);
    const auto exact = run_exact(c.batch(), one);
    const auto tiled = run_tiled(c.batch(), one);
    for (Team* team : {&two, &three}) {
      const auto again = run_exact(c.batch(), *team);
      EXPECT_TRUE(test::same_bits(again.out, exact.out));
      EXPECT_TRUE(test::same_bits(again.weights, exact.weights));
      EXPECT_TRUE(test::same_bits(run_tiled(c.batch(), *team), tiled));
    }
  });
}

TEST(AttentionBits, AreTheSameAloneAndInAnyBatch) {
  Team team;
  test::on_every_target([&] {
    const AttentionCase c({kLengths, kLengths, 2, 8, 8}, 2);
    const AttentionBatch all = c.batch();
    const auto exact = run_exact(all, team);
    const auto tiled = run_tiled(all, team);
    size_t weights_at = 0;
    for (size_t s = 0; s < all.sequences(); ++s) {
      const size_t n = all.queries(s), first = size_t(all.q_offsets[s]);
      const std::vector<int32_t> offsets{0, int32_t(n)};
      AttentionBatch alone = all;
      alone.q = all.q.slice_rows(first, n), alone.k = all.k.slice_rows(first, n),
      alone.v = all.v.slice_rows(first, n);
      alone.q_offsets = alone.k_offsets = offsets;
      const auto part = [&](const std::vector<float>& v) { return std::span(v).subspan(first * 16, n * 16); };
      const auto by_itself = run_exact(alone, team);
      EXPECT_TRUE(test::same_bits(by_itself.out, part(exact.out))) << "length " << n;
      EXPECT_TRUE(
          test::same_bits(by_itself.weights, std::span(exact.weights).subspan(weights_at, 2 * n * n)));
      EXPECT_TRUE(test::same_bits(run_tiled(alone, team), part(tiled))) << "length " << n;
      weights_at += 2 * n * n;
    }
  });
}

TEST(AttentionBits, OfAQueryDoNotDependOnTheOtherQueries) {
  Team team;
  test::on_every_target([&] {
    const AttentionCase c({{31}, {600}, 1, 8, 8}, 3);
    const AttentionBatch all = c.batch();
    const auto exact = run_exact(all, team).out;
    const auto tiled = run_tiled(all, team);
    const std::vector<int32_t> one{0, 1};
    for (size_t i = 0; i < 31; ++i) {
      AttentionBatch alone = all;
      alone.q = all.q.slice_rows(i, 1), alone.q_offsets = one;
      ASSERT_TRUE(test::same_bits(run_exact(alone, team).out, std::span(exact).subspan(i * 8, 8))) << i;
      ASSERT_TRUE(test::same_bits(run_tiled(alone, team), std::span(tiled).subspan(i * 8, 8))) << i;
    }
  });
}

}  // namespace
}  // namespace bertie::dot_product
