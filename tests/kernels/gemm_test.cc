#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

using enum Activation;

// Random numbers; for products of bf16 such as need no rounding.
std::vector<float> numbers_for(Products products, size_t count, uint64_t seed) {
  std::vector<float> numbers = test::random_floats(count, seed);
  if (are_bf16(products))
    for (float& x : numbers) x = float(BFloat16(x));
  return numbers;
}

// A packed layer with its own memory, between guards.
struct Layer {
  Layer(size_t outputs, size_t inputs, uint64_t seed) : Layer(outputs, inputs, seed, Products::kFloat32) {}
  Layer(size_t outputs, size_t inputs, uint64_t seed, Products products)
      : w(numbers_for(products, outputs * inputs, seed)),
        packed(packed_floats(outputs, inputs)),
        bias(panels_for(outputs) * kPanel) {
    std::fill(packed.span().begin(), packed.span().end(), 0.0f);
    std::fill(bias.span().begin(), bias.span().end(), 0.0f);
    const auto b = test::random_floats(outputs, seed + 1);
    std::copy(b.begin(), b.end(), bias.data());
    linear = {.packed = packed.data(), .bias = bias.data(), .inputs = inputs, .outputs = outputs};
    pack_rows({w.data(), outputs, inputs}, 0, linear);
  }
  std::vector<float> w;
  test::Guarded packed, bias;
  Linear linear;
};

struct Shape {
  size_t m, n, k;
};

// Worst |y − exact| as a multiple of 2⁻²⁴·Σ|x||w|, the natural unit of a sum's error; before the activation
// all terms count, so only f without a slope above 1.2 keeps that meaning.
double check(Shape s, Activation f, Team& team, Products products = Products::kFloat32) {
  Layer layer(s.n, s.k, 7 * s.n + s.k, products);
  const size_t x_stride = s.k + 3, y_stride = s.n + 5;
  const auto x = numbers_for(products, s.m * x_stride, s.m);
  test::Guarded y(s.m * y_stride);
  std::fill(y.span().begin(), y.span().end(), test::Guarded::guard());
  linear_forward({x.data(), s.m, s.k, x_stride}, layer.linear, f, {y.data(), s.m, s.n, y_stride}, team, {},
                 products);
  EXPECT_TRUE(y.intact() && layer.packed.intact() && layer.bias.intact());
  test::Worst worst;
  for (size_t t = 0; t < s.m; ++t) {
    for (size_t n = 0; n < s.n; ++n) {
      double sum = layer.bias.data()[n], size = std::abs(sum);
      for (size_t k = 0; k < s.k; ++k) {
        const double product = double(x[t * x_stride + k]) * double(layer.w[n * s.k + k]);
        sum += product, size += std::abs(product);
      }
      const double error = std::abs(y.data()[t * y_stride + n] - reference::activation(f, sum));
      worst.see(std::max(0.0, error - (f == kNone ? 0 : 3e-7 * std::max(1.0, std::abs(sum)))) /
                (0x1p-24 * size + 1e-30));
    }
    for (size_t n = s.n; n < y_stride; ++n)
      EXPECT_EQ(y.data()[t * y_stride + n], test::Guarded::guard()) << "written between the rows";
  }
  return worst.error;
}

// k roundings, one for each fused step, each at most half a unit of the sum so far; in fact far fewer.
double allowed(size_t k) { return 2 + 2 * std::sqrt(double(k)); }

TEST(Linear, EqualsTheReferenceAtEveryShapeAroundTheTileEdges) {
  Team team;
  double worst = 0;
  test::on_every_target([&] {
    for (size_t m = 0; m <= 40; ++m)
      for (size_t n : {1, 2, 7, 31, 32, 33, 63, 64, 65, 70})
        for (size_t k : {1, 2, 3, 4, 5, 33, 70}) {
          const double error = check({m, n, k}, kNone, team);
          ASSERT_LE(error, allowed(k)) << m << " × " << n << " × " << k;
          worst = std::max(worst, error);
        }
    for (size_t n = 1; n <= 70; ++n)
      for (size_t k = 1; k <= 70; k += 3)
        ASSERT_LE(check({5, n, k}, kNone, team), allowed(k)) << n << " × " << k;
  });
  std::printf("linear, small: worst error %.2f · 2^-24 · sum of |x||w|\n", worst);
}

TEST(Linear, EqualsTheReferenceAroundSlicesOfK) {
  Team team;
  double worst = 0;
  test::on_every_target([&] {
    for (size_t k : {1023, 1024, 1025, 2047, 2048, 2049, 3072})
      for (Shape s : {Shape{1, 33, k}, Shape{17, 40, k}}) {
        const double error = check(s, kNone, team);
        ASSERT_LE(error, allowed(k)) << s.m << " × " << s.n << " × " << k;
        worst = std::max(worst, error);
      }
  });
  std::printf("linear, long: worst error %.2f · 2^-24 · sum of |x||w|\n", worst);
}

TEST(LinearWithBf16Products, EqualsTheReferenceOnNumbersThatNeedNoRounding) {
  Team team(2);
  double worst = 0;
  test::on_every_target([&] {
    const auto see = [&](Shape s, Activation f) {
      for (Products products : {Products::kBFloat16, Products::kAmx}) {
        const double error = check(s, f, team, products);
        ASSERT_LE(error, (f == kNone ? 1.0 : 1.3) * allowed(s.k))
            << s.m << " × " << s.n << " × " << s.k << ", products " << int(products);
        worst = std::max(worst, error);
      }
    };
    for (size_t m = 0; m <= 40; ++m)
      for (size_t n : {1, 31, 32, 33, 70})
        for (size_t k : {1, 2, 3, 31, 32, 33, 70}) see({m, n, k}, kNone);
    for (size_t k : {511, 512, 513, 1023, 1024, 1025, 2049}) see({17, 40, k}, kNone);
    for (size_t m : {47, 48, 63, 64, 65}) see({m, 40, 70}, kNone);
    see({700, 100, 40}, kGelu);
  });
  std::printf("linear, bf16: worst error %.2f · 2^-24 · sum of |x||w|\n", worst);
}

TEST(LinearWithBf16Products, RoundsBothSidesToNearest) {
  if (!has_bf16_products()) GTEST_SKIP() << "this machine has no products of bf16";
  Team team;
  Layer layer(40, 70, 1), rounded(40, 70, 1, Products::kBFloat16);
  const auto x = test::random_floats(20 * 70, 2), x_rounded = numbers_for(Products::kBFloat16, 20 * 70, 2);
  std::vector<float> a(20 * 40), b(20 * 40), exact(20 * 40);
  const auto multiply = [&](const Layer& l, const std::vector<float>& from, std::vector<float>& y,
                            Products p) {
    linear_forward({from.data(), 20, 70}, l.linear, kNone, {y.data(), 20, 40}, team, {}, p);
  };
  multiply(layer, x, exact, Products::kFloat32);
  for (Products products : {Products::kBFloat16, Products::kAmx}) {
    multiply(layer, x, a, products);
    multiply(rounded, x_rounded, b, products);
    EXPECT_TRUE(test::same_bits(a, b));
    EXPECT_FALSE(test::same_bits(a, exact));
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], exact[i], 0.05) << i;  // of sums of 70 products
  }
}

TEST(Linear, AppliesEveryActivationOnceAtTheEnd) {
  Team team;
  test::on_every_target([&] {
    for (Activation f : {kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh})
      for (Shape s : {Shape{3, 32, 20}, Shape{15, 45, 40}, Shape{3, 33, 1500}})
        EXPECT_LE(check(s, f, team), 1.3 * allowed(s.k))
            << int(f) << ", " << s.m << " × " << s.n << " × " << s.k;
  });
}

TEST(Linear, WithoutABiasAddsNone) {
  Team team;
  test::on_every_target([&] {
    Layer layer(33, 9, 1), zero(33, 9, 1);
    std::fill(zero.bias.span().begin(), zero.bias.span().end(), 0.0f);
    layer.linear.bias = nullptr;
    const auto x = test::random_floats(4 * 9, 2);
    std::vector<float> a(4 * 33), b(4 * 33);
    linear_forward({x.data(), 4, 9}, layer.linear, kNone, {a.data(), 4, 33}, team);
    linear_forward({x.data(), 4, 9}, zero.linear, kNone, {b.data(), 4, 33}, team);
    EXPECT_TRUE(test::same_bits(a, b));
  });
}

std::vector<float> run(const Layer& layer, std::span<const float> x, size_t rows, Activation f, Team& team) {
  std::vector<float> y(rows * layer.linear.outputs);
  linear_forward({x.data(), rows, layer.linear.inputs}, layer.linear, f,
                 {y.data(), rows, layer.linear.outputs}, team);
  return y;
}

TEST(Linear, GivesARowTheSameBitsAloneAndInAnyBatch) {
  Team team;
  test::on_every_target([&] {
    for (Shape s : {Shape{70, 70, 40}, Shape{40, 33, 1100}, Shape{400, 34, 1024}}) {
      const Layer layer(s.n, s.k, 5);
      const auto x = test::random_floats(s.m * s.k, 6);
      const auto all = run(layer, x, s.m, kGelu, team);
      for (size_t r = 0; r<s.m; r += s.m> 100 ? 13 : 1) {
        ASSERT_TRUE(test::same_bits(run(layer, std::span(x).subspan(r * s.k, s.k), 1, kGelu, team),
                                    std::span(all).subspan(r * s.n, s.n)))
            << "row " << r;
      }
      for (size_t count : {2, 6, 7, 13, 14, 15, 28, 29}) {
        const size_t r = s.m - count - 1;
        ASSERT_TRUE(
            test::same_bits(run(layer, std::span(x).subspan(r * s.k, count * s.k), count, kGelu, team),
                            std::span(all).subspan(r * s.n, count * s.n)))
            << count << " rows from " << r;
      }
    }
  });
}

TEST(Linear, GivesTheSameBitsWithAnyNumberOfThreads) {
  Team one, two(2), three(3);
  test::on_every_target([&] {
    for (Shape s : {Shape{1, 100, 64}, Shape{13, 1000, 40}, Shape{300, 96, 1100}, Shape{7, 31, 9}}) {
      const Layer layer(s.n, s.k, 5);
      const auto x = test::random_floats(s.m * s.k, 6);
      const auto expected = run(layer, x, s.m, kGelu, one);
      EXPECT_TRUE(test::same_bits(run(layer, x, s.m, kGelu, two), expected));
      EXPECT_TRUE(test::same_bits(run(layer, x, s.m, kGelu, three), expected));
    }
  });
}

TEST(Linear, GivesTheSameBitsOnEveryInstructionSetWithFma) {
  Team team;
  const Layer layer(70, 1100, 5);
  const auto x = test::random_floats(20 * 1100, 6);
  std::vector<std::vector<float>> results;
  test::on_every_target([&] {
    const bool has_fma = (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2)) != 0;
    if (has_fma) results.push_back(run(layer, x, 20, kGelu, team));
  });
  if (results.size() < 2) GTEST_SKIP() << "this machine has fewer than two of them";
  EXPECT_TRUE(test::same_bits(results[0], results[1]));
}

TEST(Linear, CarriesNaNAndInfToTheRowsAndColumnsTheyBelongTo) {
  Team team;
  test::on_every_target([&] {
    const Layer layer(40, 30, 1);
    auto x = test::random_floats(16 * 30, 2);
    const auto clean = run(layer, x, 16, kNone, team);
    x[5 * 30 + 29] = test::kNaN;
    const auto y = run(layer, x, 16, kNone, team);
    for (size_t r = 0; r < 16; ++r)
      for (size_t c = 0; c < 40; ++c) {
        ASSERT_TRUE(r == 5 ? std::isnan(y[r * 40 + c]) : y[r * 40 + c] == clean[r * 40 + c])
            << r << ", " << c;
      }
  });
}

// Linear, then residual + LayerNorm: what the fused call must equal to the bit.
std::vector<float> in_two_steps(const Layer& layer, Matrix<const float> x, Matrix<const float> residual,
                                const LayerNorm& norm) {
  Team team;
  std::vector<float> y(x.rows() * layer.linear.outputs);
  const Matrix<float> view(y.data(), x.rows(), layer.linear.outputs);
  linear_forward(x, layer.linear, kNone, view, team);
  residual_layer_norm_forward(view, residual, norm, view, team);
  return y;
}

TEST(LinearResidualLayerNorm, IsBitwiseTheTwoStepsWithAnyNumberOfThreads) {
  Team one, two(2), three(3);
  test::on_every_target([&] {
    // A block of rows is 160 here: less than one, around one, and more of them than threads.
    for (Shape s : {Shape{0, 40, 1024}, Shape{1, 40, 1024}, Shape{159, 33, 1024}, Shape{161, 70, 1100},
                    Shape{320, 64, 1024}, Shape{700, 33, 1024}, Shape{30, 40, 20}}) {
      const Layer layer(s.n, s.k, 5);
      const auto x = test::random_floats(s.m * s.k, 6), residual = test::random_floats(s.m * s.n, 7);
      auto gamma = test::random_floats(s.n, 8), beta = test::random_floats(s.n, 9);
      const LayerNorm norm{.gamma = gamma.data(), .beta = beta.data()};
      const Matrix<const float> xs(x.data(), s.m, s.k), residuals(residual.data(), s.m, s.n);
      const auto expected = in_two_steps(layer, xs, residuals, norm);
      for (Team* team : {&one, &two, &three}) {
        test::Guarded y(s.m * s.n);
        linear_residual_layer_norm_forward(xs, layer.linear, residuals, norm, {y.data(), s.m, s.n}, *team);
        EXPECT_TRUE(y.intact());
        ASSERT_TRUE(test::same_bits(y.span(), expected)) << s.m << " rows, " << team->threads() << " threads";
      }
    }
  });
}

TEST(LinearResidualLayerNorm, TakesMoreRowsThanItCountsBlocks) {
  // 50,000 rows, all of them the same one: a stride of 0 saves the memory.
  const size_t rows = 50'000, n = 8, k = 1024;
  const Layer layer(n, k, 5);
  const auto x = test::random_floats(k, 6), residual = test::random_floats(n, 7);
  std::vector<float> gamma(n, 1.0f), beta(n, 0.0f);
  const LayerNorm norm{.gamma = gamma.data(), .beta = beta.data()};
  const auto expected = in_two_steps(layer, {x.data(), 1, k}, {residual.data(), 1, n}, norm);
  test::Guarded y(rows * n);
  Team team(2);
  linear_residual_layer_norm_forward({x.data(), rows, k, 0}, layer.linear, {residual.data(), rows, n, 0},
                                     norm, {y.data(), rows, n}, team);
  EXPECT_TRUE(y.intact());
  for (size_t r = 0; r < rows; ++r) ASSERT_TRUE(test::same_bits(y.span().subspan(r * n, n), expected)) << r;
}

// bf16 is a float without its lower half, so a layer in bf16 is the layer of the rounded weights, to the bit.
TEST(LinearInBf16, IsTheLayerOfRoundedWeights) {
  Team team(2);
  test::on_every_target([&] {
    for (const Shape s : {Shape{1, 1, 1}, {3, 33, 7}, {40, 70, 1100}, {1, 64, 2049}}) {
      const Layer exact(s.n, s.k, 11);
      std::vector<uint16_t> memory(packed_floats(s.n, s.k));
      Linear half = exact.linear;
      half.packed = memory.data(), half.format = WeightFormat::kBFloat16;
      pack_rows({exact.w.data(), s.n, s.k}, 0, half);
      Layer rounded(s.n, s.k, 11);
      unpack_rows(half, 0, {rounded.w.data(), s.n, s.k});
      pack_rows({rounded.w.data(), s.n, s.k}, 0, rounded.linear);
      for (size_t i = 0; i < exact.w.size(); ++i) {
        ASSERT_NEAR(rounded.w[i], exact.w[i], 0x1p-8 * std::abs(exact.w[i]));
        ASSERT_EQ(weight_at(half, i / s.k, i % s.k), rounded.w[i]);
      }
      const auto x = test::random_floats(s.m * s.k, 5);
      std::vector<float> a(s.m * s.n), b(s.m * s.n);
      linear_forward({x.data(), s.m, s.k}, half, kGelu, {a.data(), s.m, s.n}, team);
      linear_forward({x.data(), s.m, s.k}, rounded.linear, kGelu, {b.data(), s.m, s.n}, team);
      EXPECT_TRUE(test::same_bits(a, b)) << s.m << " × " << s.n << " × " << s.k;
    }
  });
}

TEST(LinearInBf16, RoundsToNearestAndKeepsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> w{1.0f, 1.00390625f, 1.01171875f, 1.0078126f, -3.4e38f, inf, nan, 1e-40f};
  std::vector<uint16_t> memory(packed_floats(1, w.size()));
  const Linear half{
      .packed = memory.data(), .inputs = w.size(), .outputs = 1, .format = WeightFormat::kBFloat16};
  pack_rows({w.data(), 1, w.size()}, 0, half);
  EXPECT_EQ(weight_at(half, 0, 0), 1.0f);
  EXPECT_EQ(weight_at(half, 0, 1), 1.0f) << "a tie goes to the even one";
  EXPECT_EQ(weight_at(half, 0, 2), 1.015625f) << "a tie goes to the even one";
  EXPECT_EQ(weight_at(half, 0, 3), 1.0078125f);
  EXPECT_EQ(weight_at(half, 0, 4), -inf);
  EXPECT_EQ(weight_at(half, 0, 5), inf);
  EXPECT_TRUE(std::isnan(weight_at(half, 0, 6)));
  EXPECT_NEAR(weight_at(half, 0, 7), 1e-40f, 5e-41) << "denormal numbers lie far apart";
}

TEST(PackRows, PutsEachWeightWhereTheHeaderSays) {
  const size_t n = 70, k = 5;
  const Layer layer(n, k, 3);
  for (size_t column = 0; column < panels_for(n) * kPanel; ++column)
    for (size_t i = 0; i < k; ++i) {
      const float there = layer.linear.floats()[column / kPanel * kPanel * k + i * kPanel + column % kPanel];
      EXPECT_EQ(there, column < n ? layer.w[column * k + i] : 0.0f);
    }
}

TEST(PackRows, InPiecesIsTheSameAsAtOnce) {
  // Queries, keys and values are three tensors in one layer, and loading packs 32 rows at a time.
  const size_t n = 100, k = 9;
  Layer whole(n, k, 3), pieces(n, k, 3);
  for (size_t step : {1, 7, 32, 33}) {
    std::fill(pieces.packed.span().begin(), pieces.packed.span().end(), 0.0f);
    for (size_t r = 0; r < n; r += step)
      pack_rows({whole.w.data() + r * k, std::min(step, n - r), k}, r, pieces.linear);
    EXPECT_TRUE(test::same_bits(pieces.packed.span(), whole.packed.span())) << step;
    EXPECT_TRUE(pieces.packed.intact());
  }
}

TEST(UnpackRows, GivesBackAnyRowsThatWerePacked) {
  const size_t n = 100, k = 9, stride = k + 2;
  const Layer layer(n, k, 3);
  for (size_t first : {0, 1, 31, 32, 40, 99})
    for (size_t rows : {0, 1, 20, 33, 60, 100}) {
      if (first + rows > n) continue;
      test::Guarded w(rows * stride);
      std::fill(w.span().begin(), w.span().end(), test::Guarded::guard());
      unpack_rows(layer.linear, first, {w.data(), rows, k, stride});
      for (size_t r = 0; r < rows; ++r) {
        EXPECT_TRUE(
            test::same_bits(w.span().subspan(r * stride, k), std::span(layer.w).subspan((first + r) * k, k)));
        EXPECT_EQ(w.span()[r * stride + k], test::Guarded::guard()) << "written between the rows";
      }
      EXPECT_TRUE(w.intact());
    }
}

}  // namespace
}  // namespace bertie::kernels
