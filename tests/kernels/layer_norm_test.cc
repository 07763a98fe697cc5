#include "kernels/layer_norm.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

constexpr double kEps = 1e-12;

// Rows of one shape with gamma and beta, and what the reference makes of them in double.
struct Case {
  Case(size_t row_count, size_t length, uint64_t seed, float mean = 0, float spread = 1)
      : rows(row_count),
        n(length),
        x(test::random_floats(rows * n, seed, mean - spread, mean + spread)),
        residual(test::random_floats(rows * n, seed + 1, -spread, spread)),
        gamma(test::random_floats(n, seed + 2, 0.5f, 2)),
        beta(test::random_floats(n, seed + 3)) {}

  LayerNorm norm() { return {.gamma = gamma.data(), .beta = beta.data(), .eps = float(kEps)}; }

  // The sum is rounded to float first, as every implementation does; all that follows is in double.
  std::vector<double> expected(bool with_residual) const {
    std::vector<double> s(x.begin(), x.end());
    if (with_residual)
      for (size_t i = 0; i < s.size(); ++i) s[i] = double(x[i] + residual[i]);
    const auto g = test::to_double(gamma), b = test::to_double(beta);
    std::vector<double> y(s.size());
    reference::layer_norm<double>({s.data(), rows, n}, g, b, kEps, {y.data(), rows, n});
    return y;
  }

  size_t rows, n;
  std::vector<float> x, residual, gamma, beta;
};

double worst_error(std::span<const float> actual, std::span<const double> expected) {
  test::Worst worst;
  for (size_t i = 0; i < actual.size(); ++i) worst.see(std::abs(actual[i] - expected[i]));
  return worst.error;
}

TEST(LayerNorm, EqualsTheReferenceAtEveryLength) {
  Team team;
  double worst = 0;
  test::on_every_target([&] {
    for (size_t n = 1; n <= 2 * 4 * 16 + 3; ++n)  // the inner loop takes four vectors at a time
      for (size_t misalignment : {0, 1, 7, 15}) {
        Case c(3, n, n);
        test::Guarded y(3 * n, misalignment), z(3 * n, misalignment);
        layer_norm_forward({c.x.data(), 3, n}, c.norm(), {y.data(), 3, n}, team);
        residual_layer_norm_forward({c.x.data(), 3, n}, {c.residual.data(), 3, n}, c.norm(), {z.data(), 3, n},
                                    team);
        ASSERT_TRUE(y.intact() && z.intact()) << n;
        // A row of 1 is its own mean: exactly beta. Two numbers that nearly agree magnify rounding, so short
        // rows get a wider bound.
        const double bound = n == 1 ? 0 : n < 4 ? 1e-4 : 2e-6;
        ASSERT_LE(worst_error(y.span(), c.expected(false)), bound) << n;
        ASSERT_LE(worst_error(z.span(), c.expected(true)), bound) << n;
      }
    for (size_t n : {64, 100, 384, 768, 1024, 3072}) {
      Case c(2, n, n);
      std::vector<float> y(2 * n);
      residual_layer_norm_forward({c.x.data(), 2, n}, {c.residual.data(), 2, n}, c.norm(), {y.data(), 2, n},
                                  team);
      const double error = worst_error(y, c.expected(true));
      worst = std::max(worst, error);
      EXPECT_LE(error, 1e-6) << n;
    }
  });
  std::printf("residual + LayerNorm, 64..3072 wide: worst error %.2e\n", worst);
}

TEST(LayerNorm, MayWriteOverItsInputs) {
  Team team;
  test::on_every_target([&] {
    for (size_t n : {1, 5, 16, 33, 384}) {
      Case c(4, n, n);
      std::vector<float> apart(4 * n), over_x = c.x, over_residual = c.residual, alone = c.x,
                                       alone_apart(4 * n);
      const auto view = [n](std::vector<float>& v) { return Matrix<float>(v.data(), 4, n); };
      residual_layer_norm_forward(view(c.x), view(c.residual), c.norm(), view(apart), team);
      residual_layer_norm_forward(view(over_x), view(c.residual), c.norm(), view(over_x), team);
      residual_layer_norm_forward(view(c.x), view(over_residual), c.norm(), view(over_residual), team);
      EXPECT_TRUE(test::same_bits(over_x, apart));
      EXPECT_TRUE(test::same_bits(over_residual, apart));
      layer_norm_forward(view(c.x), c.norm(), view(alone_apart), team);
      layer_norm_forward(view(alone), c.norm(), view(alone), team);
      EXPECT_TRUE(test::same_bits(alone, alone_apart));
    }
  });
}

TEST(LayerNorm, HoldsItsPrecisionWhereTheMeanIsLarge) {
  // E[x²] − E[x]² would lose everything here: variance 1/3 beside a mean of 1000.
  Team team;
  test::on_every_target([&] {
    for (size_t n : {16, 100, 768}) {
      Case c(3, n, n, 1000);
      std::vector<float> y(3 * n);
      layer_norm_forward({c.x.data(), 3, n}, c.norm(), {y.data(), 3, n}, team);
      // The mean, of 1000 in float, is the sum of n/lanes rounded steps; it is off by some √(n/lanes) units,
      // over a deviation of 0.58, times a gamma of 2.
      const int64_t target = hwy::SupportedTargets();
      const double lanes = target & HWY_AVX3 ? 16 : target & HWY_AVX2 ? 8 : target & HWY_SSE4 ? 4 : 1;
      const double bound = 1000 * 0x1p-24 * (2 + std::sqrt(double(n) / lanes)) / 0.58 * 2;
      EXPECT_LE(worst_error(y, c.expected(false)), bound) << n;
    }
  });
}

TEST(LayerNorm, OfAConstantRowIsBeta) {
  Team team;
  test::on_every_target([&] {
    for (float value : {0.0f, 1.0f, -3.0f, 1024.0f, 0.125f})  // sums of these are exact
      for (size_t n : {1, 7, 64, 768}) {
        Case c(1, n, n);
        std::fill(c.x.begin(), c.x.end(), value);
        std::vector<float> y(n);
        layer_norm_forward({c.x.data(), 1, n}, c.norm(), {y.data(), 1, n}, team);
        EXPECT_TRUE(test::same_bits(y, c.beta)) << value << " × " << n;
      }
  });
}

TEST(LayerNorm, OfAnyConstantRowStaysFinite) {
  // Here the mean is rounded, and what is left over is divided by its own deviation: never more than 1.
  Team team;
  test::on_every_target([&] {
    for (float value : {0.1f, -7.77f, 1e6f, 1e-20f, 3e18f})
      for (size_t n : {3, 77, 768}) {
        Case c(1, n, n);
        std::fill(c.x.begin(), c.x.end(), value);
        std::vector<float> y(n);
        layer_norm_forward({c.x.data(), 1, n}, c.norm(), {y.data(), 1, n}, team);
        for (size_t i = 0; i < n; ++i)
          ASSERT_LE(std::abs(y[i] - c.beta[i]), c.gamma[i] * 1.001) << value << " × " << n;
      }
  });
}

TEST(LayerNorm, CarriesNaNAndInfThroughItsRowAlone) {
  Team team;
  test::on_every_target([&] {
    for (float poison : {test::kNaN, test::kInf}) {
      Case c(3, 40, 1), clean(3, 40, 1);
      c.x[40 + 39] = poison;
      std::vector<float> y(120), z(120);
      layer_norm_forward({c.x.data(), 3, 40}, c.norm(), {y.data(), 3, 40}, team);
      layer_norm_forward({clean.x.data(), 3, 40}, clean.norm(), {z.data(), 3, 40}, team);
      for (size_t i = 40; i < 80; ++i) EXPECT_TRUE(std::isnan(y[i]));
      EXPECT_TRUE(test::same_bits(std::span(y).first(40), std::span(z).first(40)));
      EXPECT_TRUE(test::same_bits(std::span(y).last(40), std::span(z).last(40)));
    }
  });
}

TEST(LayerNorm, OfARowDoesNotDependOnItsNeighborsOrTheTeam) {
  test::on_every_target([&] {
    Case c(50, 100, 3);
    std::vector<float> all(50 * 100), row(100);
    Team team(3), alone;
    residual_layer_norm_forward({c.x.data(), 50, 100}, {c.residual.data(), 50, 100}, c.norm(),
                                {all.data(), 50, 100}, team);
    for (size_t r = 0; r < 50; ++r) {
      residual_layer_norm_forward({c.x.data() + r * 100, 1, 100}, {c.residual.data() + r * 100, 1, 100},
                                  c.norm(), {row.data(), 1, 100}, alone);
      ASSERT_TRUE(test::same_bits(std::span(all).subspan(r * 100, 100), row)) << r;
    }
  });
}

TEST(LayerNorm, TakesStridedRowsAndLeavesTheGaps) {
  Team team;
  test::on_every_target([&] {
    Case c(4, 21, 5);
    test::Guarded y(4 * 30);
    std::fill(y.span().begin(), y.span().end(), test::Guarded::guard());
    layer_norm_forward({c.x.data(), 4, 21}, c.norm(), {y.data(), 4, 21, 30}, team);
    const auto expected = c.expected(false);
    for (size_t r = 0; r < 4; ++r) {
      EXPECT_LE(worst_error(y.span().subspan(r * 30, 21), std::span(expected).subspan(r * 21, 21)), 2e-6);
      for (size_t i = 21; i < 30; ++i) EXPECT_EQ(y.span()[r * 30 + i], test::Guarded::guard());
    }
  });
}

}  // namespace
}  // namespace bertie::kernels
