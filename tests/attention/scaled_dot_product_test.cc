#include "attention/scaled_dot_product.h"

#include <gtest/gtest.h>

#include "attention/attention_cases.h"
#include "support/targets.h"

namespace bertie::dot_product {
namespace {

using test::AttentionCase;
using test::AttentionShape;
using test::run_exact;
using test::run_tiled;

// Values are below 1 in size, so these are errors of the weights' sum: 2e-6 is some 30 roundings.
constexpr double kTolerance = 2e-6;

struct Errors {
  double exact = 0, weights = 0, tiled = 0;
};

void check(const AttentionShape& shape, Errors& worst, Team& team, float size = 1) {
  const AttentionCase c(shape, 11, size);
  const AttentionBatch b = c.batch();
  const test::Reference expected(b);
  const auto exact = run_exact(b, team);
  const auto tiled = run_tiled(b, team);
  const double e = test::worst_difference(exact.out, expected.out),
               w = test::worst_difference(exact.weights, expected.weights),
               t = test::worst_difference(tiled, expected.out);
  ASSERT_LE(e, kTolerance) << "exact";
  ASSERT_LE(w, kTolerance) << "weights";
  ASSERT_LE(t, kTolerance) << "tiled";
  worst = {std::max(worst.exact, e), std::max(worst.weights, w), std::max(worst.tiled, t)};
}

void print(const char* what, const Errors& e) {
  std::printf("%s: worst error exact %.2e, weights %.2e, tiled %.2e\n", what, e.exact, e.weights, e.tiled);
}

TEST(Attention, EqualsTheReferenceAtEveryShortLength) {
  Team team;
  Errors worst;
  test::on_every_target([&] {
    for (int32_t n = 0; n <= 70; ++n) {
      SCOPED_TRACE(n);
      ASSERT_NO_FATAL_FAILURE(check({{n}, {n}, 2, 24, 24}, worst, team, 3));
    }
  });
  print("lengths 0..70", worst);
}

TEST(Attention, EqualsTheReferenceAcrossKeyBlocksAndRowGroups) {
  Team team;
  Errors worst;
  test::on_every_target([&] {
    for (auto [n, m] :
         {std::pair(511, 511), {512, 512}, {513, 513}, {3, 1025}, {1025, 40}, {20, 2049}, {2049, 3}}) {
      SCOPED_TRACE(testing::Message() << n << " queries, " << m << " keys");
      ASSERT_NO_FATAL_FAILURE(check({{n}, {m}, 1, 8, 8}, worst, team, 2));
    }
  });
  print("long", worst);
}

TEST(Attention, EqualsTheReferenceAtEveryHeadSize) {
  Team team;
  Errors worst;
  test::on_every_target([&] {
    for (size_t d : {1, 2, 5, 24, 32, 33, 64, 80})
      for (size_t dv : {size_t{1}, size_t{31}, d}) {
        SCOPED_TRACE(testing::Message() << "D " << d << ", Dv " << dv);
        ASSERT_NO_FATAL_FAILURE(check({{17, 5}, {17, 5}, 3, d, dv}, worst, team, 2));
      }
    for (size_t heads = 1; heads <= 12; ++heads)
      ASSERT_NO_FATAL_FAILURE(check({{9}, {9}, heads, 8, 8}, worst, team));
  });
  print("head sizes", worst);
}

TEST(Attention,
     EqualsTheReferenceAcrossSequencesOfOtherLengths) {  // cross-attention, with nothing to see in some
  Team team(2);
  Errors worst;
  test::on_every_target([&] {
    ASSERT_NO_FATAL_FAILURE(check({{3, 0, 5, 1, 7}, {4, 6, 0, 1, 33}, 2, 16, 8}, worst, team));
    ASSERT_NO_FATAL_FAILURE(check({{0, 0, 2, 0}, {0, 0, 2, 0}, 4, 8, 8}, worst, team));
    ASSERT_NO_FATAL_FAILURE(check({{0}, {0}, 2, 8, 8}, worst, team));
  });
}

TEST(Attention, OfAQueryWithNothingToLookAtIsZero) {
  Team team;
  test::on_every_target([&] {
    const AttentionCase c({{3}, {0}, 2, 4, 4}, 1);
    for (float x : run_exact(c.batch(), team).out) EXPECT_EQ(x, 0.0f);
    for (float x : run_tiled(c.batch(), team)) EXPECT_EQ(x, 0.0f);
  });
}

TEST(Attention, TakesViewsOfOneQkvBuffer) {
  Team team;
  test::on_every_target([&] {
    const size_t heads = 3, d = 8, hidden = heads * d;
    const std::vector<int32_t> offsets{0, 7, 7, 20};
    const auto qkv = test::random_floats(20 * 3 * hidden, 1);
    const Matrix<const float> all(qkv.data(), 20, 3 * hidden);
    AttentionBatch strided{.q_offsets = offsets, .k_offsets = offsets, .heads = heads, .scale = 0.35f};
    strided.q = all.slice_cols(0, hidden), strided.k = all.slice_cols(hidden, hidden);
    strided.v = all.slice_cols(2 * hidden, hidden);
    const auto q = test::copy_of(strided.q), k = test::copy_of(strided.k), v = test::copy_of(strided.v);
    AttentionBatch compact = strided;
    compact.q = {q.data(), 20, hidden}, compact.k = {k.data(), 20, hidden},
    compact.v = {v.data(), 20, hidden};
    const auto a = run_exact(strided, team), b = run_exact(compact, team);
    EXPECT_TRUE(test::same_bits(a.out, b.out));
    EXPECT_TRUE(test::same_bits(a.weights, b.weights));
    EXPECT_TRUE(test::same_bits(run_tiled(strided, team), run_tiled(compact, team)));
    EXPECT_LE(test::worst_difference(a.out, test::Reference(strided).out), kTolerance);
  });
}

TEST(Attention, LeavesTheGapsBetweenOutputRowsAlone) {
  Team team;
  test::on_every_target([&] {
    const AttentionCase c({{5}, {5}, 2, 8, 5}, 1);
    const AttentionBatch b = c.batch();
    const auto expected = run_tiled(b, team);
    test::Guarded out(5 * 16);
    std::fill(out.span().begin(), out.span().end(), test::Guarded::guard());
    Block workspace(workspace_bytes(b, false, 1));
    tiled(b, {out.data(), 5, 10, 16}, {}, workspace.data(), team);
    EXPECT_TRUE(test::same_bits(test::copy_of({out.data(), 5, 10, 16}), expected));
    for (size_t i = 0; i < 80; ++i) EXPECT_EQ(out.span()[i] == test::Guarded::guard(), i % 16 >= 10) << i;
  });
}

TEST(Attention, ExactAndTiledAgreeWithin1e5) {
  Team team(2);
  test::on_every_target([&] {
    for (float size : {0.5f, 3.0f, 20.0f}) {  // from nearly even weights to one key that takes all
      const AttentionCase c({{600, 1, 33}, {1100, 513, 33}, 2, 32, 32}, 4, size);
      const auto exact = run_exact(c.batch(), team).out;
      EXPECT_LE(test::worst_difference(run_tiled(c.batch(), team), test::to_double(exact)), 1e-5) << size;
    }
  });
}

TEST(Attention, WeightsAreNotNegativeAndRowsSumToOne) {
  Team team;
  test::on_every_target([&] {
    const AttentionCase c({{33, 7}, {700, 7}, 2, 16, 16}, 5, 4);
    const auto weights = run_exact(c.batch(), team).weights;
    size_t at = 0;
    for (auto [n, m] : {std::pair<size_t, size_t>(33, 700), {7, 7}})
      for (size_t row = 0; row < 2 * n; ++row, at += m) {
        double sum = 0;
        for (size_t j = 0; j < m; ++j) {
          ASSERT_GE(weights[at + j], 0.0f);
          sum += weights[at + j];
        }
        ASSERT_NEAR(sum, 1, 2e-6);
      }
    EXPECT_EQ(at, weights.size());
  });
}

TEST(Attention, PermutingKeysPermutesWeightsAndKeepsTheOutput) {
  Team team;
  test::on_every_target([&] {
    const size_t m = 45, d = 8;
    const AttentionCase c({{6}, {int32_t(m)}, 1, d, d}, 6, 2);
    AttentionCase permuted = c;
    const auto to = [](size_t j) { return (7 * j + 3) % m; };  // 7 and 45 have no common divisor
    for (size_t j = 0; j < m; ++j) {
      std::copy_n(c.k.begin() + ptrdiff_t(j * d), d, permuted.k.begin() + ptrdiff_t(to(j) * d));
      std::copy_n(c.v.begin() + ptrdiff_t(j * d), d, permuted.v.begin() + ptrdiff_t(to(j) * d));
    }
    const auto a = run_exact(c.batch(), team), b = run_exact(permuted.batch(), team);
    for (size_t i = 0; i < 6; ++i)
      for (size_t j = 0; j < m; ++j) ASSERT_NEAR(a.weights[i * m + j], b.weights[i * m + to(j)], 3e-7);
    EXPECT_LE(test::worst_difference(b.out, test::to_double(a.out)), 1e-6);
  });
}

TEST(Attention, WithHugeScoresStaysFiniteAndPicksTheLargest) {
  Team team;
  test::on_every_target([&] {
    for (int32_t m : {40, 1100}) {
      AttentionCase c({{4}, {m}, 1, 4, 4}, 7, 100);  // scores up to ±2·10⁴
      const test::Reference expected(c.batch());
      const auto exact = run_exact(c.batch(), team);
      const auto tiled = run_tiled(c.batch(), team);
      for (float x : exact.weights) ASSERT_TRUE(std::isfinite(x));
      // Scores of 10⁴ are themselves off by 10⁻³ in float, so compare where one key clearly wins.
      for (size_t i = 0; i < 4; ++i) {
        const auto row = std::span(expected.weights).subspan(i * size_t(m), size_t(m));
        if (*std::max_element(row.begin(), row.end()) < 0.999) continue;
        for (size_t j = 0; j < 4; ++j) {
          EXPECT_NEAR(exact.out[i * 4 + j], expected.out[i * 4 + j], 2e-3);
          EXPECT_NEAR(tiled[i * 4 + j], expected.out[i * 4 + j], 2e-3);
        }
      }
      for (float x : tiled) ASSERT_TRUE(std::isfinite(x));
    }
  });
}

TEST(Attention, NaNInAQueryStaysInItsRow) {
  Team team;
  test::on_every_target([&] {
    for (int32_t m : {5, 600}) {
      AttentionCase c({{20}, {m}, 1, 4, 4}, 8);
      const auto clean = run_exact(c.batch(), team);
      const auto clean_tiled = run_tiled(c.batch(), team);
      c.q[6 * 4 + 1] = test::kNaN;
      const auto exact = run_exact(c.batch(), team);
      const auto tiled = run_tiled(c.batch(), team);
      for (size_t i = 0; i < 20; ++i)
        for (size_t j = 0; j < 4; ++j) {
          const size_t at = i * 4 + j;
          ASSERT_TRUE(i == 6 ? std::isnan(exact.out[at]) : exact.out[at] == clean.out[at]) << i;
          ASSERT_TRUE(i == 6 ? std::isnan(tiled[at]) : tiled[at] == clean_tiled[at]) << i;
        }
      for (size_t j = 0; j < size_t(m); ++j) ASSERT_TRUE(std::isnan(exact.weights[6 * size_t(m) + j]));
    }
  });
}

TEST(Attention, NaNOrInfInAKeyMakesItsSequenceNaNAndNoOther) {
  Team team;
  test::on_every_target([&] {
    for (float poison : {test::kNaN, test::kInf})
      for (int32_t m : {5, 1100}) {
        AttentionCase c({{4, 4}, {m, 3}, 1, 2, 2}, 9);
        for (float& x : c.q) x = std::abs(x) + 0.1f;  // so that Inf in a key is +Inf in every score
        const auto clean = run_exact(c.batch(), team);
        const auto clean_tiled = run_tiled(c.batch(), team);
        for (size_t where : {size_t{0}, size_t(m) - 1}) {
          AttentionCase p = c;
          p.k[where * 2] = poison;
          const auto exact = run_exact(p.batch(), team);
          const auto tiled = run_tiled(p.batch(), team);
          for (size_t i = 0; i < 8; ++i) ASSERT_TRUE(std::isnan(exact.out[i]) && std::isnan(tiled[i])) << m;
          for (size_t i = 8; i < 16; ++i)
            ASSERT_TRUE(exact.out[i] == clean.out[i] && tiled[i] == clean_tiled[i]) << m;
        }
      }
  });
}

TEST(Attention, NaNInAValueShowsInItsColumn) {
  Team team;
  test::on_every_target([&] {
    AttentionCase c({{4}, {600}, 1, 2, 3}, 9);
    c.v[599 * 3 + 1] = test::kNaN;
    const auto exact = run_exact(c.batch(), team);
    const auto tiled = run_tiled(c.batch(), team);
    for (size_t i = 0; i < 12; ++i) {
      EXPECT_EQ(std::isnan(exact.out[i]), i % 3 == 1);
      EXPECT_EQ(std::isnan(tiled[i]), i % 3 == 1);
    }
    for (float w : exact.weights) EXPECT_TRUE(std::isfinite(w));
  });
}

}  // namespace
}  // namespace bertie::dot_product
