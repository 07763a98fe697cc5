#include "core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace bertie {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(Philox, GivesThePublishedKnownAnswers) {  // Random123's kat_vectors, philox4x32 10
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IsAPureFunctionOfSeedStreamAndCounter) {
  Random sequence(0x123456789abcdef0, 42);
  const Random random(0x123456789abcdef0, 42);
  for (uint64_t i = 0; i < 100; ++i)
    for (uint32_t word : random.at(i)) EXPECT_EQ(sequence.next(), word);
  const uint64_t high = uint64_t{1} << 32;  // the upper halves count too
  EXPECT_NE(Random(1).at(0), Random(1 + high).at(0));
  EXPECT_NE(Random(1, 1).at(0), Random(1, 1 + high).at(0));
  EXPECT_NE(Random(1).at(1), Random(1).at(1 + high));
  EXPECT_NE(Random(1).at(0), Random(0, 1).at(0));
}

// Pearson's statistic for counts that should all be equal.
double chi_squared(const std::vector<int>& counts) {
  double total = 0, statistic = 0;
  for (int c : counts) total += c;
  const double expected = total / double(counts.size());
  for (int c : counts) statistic += (c - expected) * (c - expected) / expected;
  return statistic;
}

TEST(Random, BelowStaysBelowAndFavorsNobody) {
  Random random(7);
  for (uint32_t n : {1u, 2u, 3u, 5u, 10u, 97u}) {
    std::vector<int> counts(n);
    for (uint32_t i = 0; i < 2000 * n; ++i) {
      const uint32_t x = random.below(n);
      ASSERT_LT(x, n);
      ++counts[x];
    }
    // Mean n−1, standard deviation √(2(n−1)): five of them are 1 in millions, and the seed is fixed.
    EXPECT_LT(chi_squared(counts), (n - 1) + 5 * std::sqrt(2.0 * (n - 1)) + 1e-9) << n;
  }
}

TEST(Random, BelowHasNoBiasWhereTakingTheRemainderWould) {
  // With n = 3·2³⁰, next() % n would give the lower third twice as often as the others.
  Random random(8);
  std::vector<int> thirds(3);
  for (int i = 0; i < 30000; ++i) ++thirds[random.below(3u << 30) >> 30];
  EXPECT_LT(chi_squared(thirds), 2 + 5 * 2);
}

TEST(Random, UniformIsInZeroToOneWithout1AndFillsIt) {
  Random random(9);
  std::vector<int> counts(64);
  for (int i = 0; i < 64 * 2000; ++i) {
    const float x = random.uniform();
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    ++counts[size_t(x * 64)];
  }
  EXPECT_LT(chi_squared(counts), 63 + 5 * std::sqrt(126.0));
}

TEST(Random, NormalHasMeanZeroVarianceOneAndNormalTails) {
  Random random(10);
  const int n = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(double(n)));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96.0 / n));
}

}  // namespace
}  // namespace bertie
