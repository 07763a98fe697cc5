#include "kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

// Every third row has none.
std::vector<int32_t> some_targets(size_t rows, size_t classes) {
  std::vector<int32_t> targets(rows);
  for (size_t t = 0; t < rows; ++t) targets[t] = t % 3 == 1 ? -1 : int32_t(t * 7919 % classes);
  return targets;
}

size_t count_right(Matrix<const float> z, std::span<const int32_t> targets) {
  size_t right = 0;
  for (size_t t = 0; t < z.rows(); ++t)
    right += targets[t] >= 0 && std::max_element(z[t].begin(), z[t].end()) - z[t].begin() == targets[t];
  return right;
}

TEST(CrossEntropy, EqualsTheReferenceAtEveryLength) {
  Team team(2);
  test::on_every_target([&] {
    for (size_t n : {1, 2, 3, 15, 16, 17, 33, 255, 256, 257, 600})
      for (size_t rows : {0, 1, 7, 130}) {
        const auto z = test::random_floats(rows * n, n, -8, 8);
        const auto targets = some_targets(rows, n);
        const auto exact = test::to_double(z);
        std::vector<double> dz(rows * n);
        const double loss = reference::cross_entropy<double>({exact.data(), rows, n}, targets);
        reference::cross_entropy_backward({exact.data(), rows, n}, targets, 0.125, {dz.data(), rows, n});
        test::Guarded logits(z, 3);
        const Matrix<float> view(logits.data(), rows, n);
        const LossSum alone = cross_entropy(view, targets, 0.125f, false, team);
        ASSERT_TRUE(test::same_bits(logits.span(), z)) << "touched without being asked to";
        const LossSum sum = cross_entropy(view, targets, 0.125f, true, team);
        ASSERT_TRUE(logits.intact());
        EXPECT_EQ(sum.loss, alone.loss);
        EXPECT_NEAR(sum.loss, loss, 1e-6 * double(rows));
        EXPECT_EQ(sum.count, rows - (rows + 1) / 3);
        EXPECT_EQ(sum.right, count_right({z.data(), rows, n}, targets));
        EXPECT_EQ(alone.right, sum.right);
        for (size_t i = 0; i < dz.size(); ++i) ASSERT_NEAR(logits.span()[i], dz[i], 1e-7) << n << ", " << i;
      }
  });
}

TEST(SoftCrossEntropy, IsTheDivergenceAndItsGradient) {
  Team team(2);
  test::on_every_target([&] {
    for (size_t n : {1, 2, 17, 256, 300, 1000})
      for (double t : {1.0, 2.0, 0.5}) {
        const size_t rows = 5;
        const auto z = test::random_floats(rows * n, n, -6, 6),
                   teacher = test::random_floats(rows * n, n + 1, -6, 6);
        std::vector<float> dz = z;
        const LossSum sum =
            soft_cross_entropy({dz.data(), rows, n}, {teacher.data(), rows, n}, float(t), 0.125f, team);
        double loss = 0;
        size_t right = 0;
        for (size_t r = 0; r < rows; ++r) {
          const auto softmax = [&](const std::vector<float>& x) {
            std::vector<double> p(n);
            double total = 0;
            for (size_t j = 0; j < n; ++j) total += p[j] = std::exp(double(x[r * n + j]) / t);
            for (double& v : p) v /= total;
            return p;
          };
          const auto p = softmax(teacher), q = softmax(z);
          for (size_t j = 0; j < n; ++j) {
            loss += t * t * p[j] * std::log(p[j] / q[j]);
            ASSERT_NEAR(dz[r * n + j], 0.125 * t * (q[j] - p[j]), 2e-7) << n << ", " << j;
          }
          right += std::max_element(p.begin(), p.end()) - p.begin() ==
                   std::max_element(q.begin(), q.end()) - q.begin();
        }
        EXPECT_NEAR(sum.loss, loss, 2e-5 * (1 + loss));
        EXPECT_EQ(sum.count, rows);
        EXPECT_EQ(sum.right, right);
      }
  });
}

TEST(CrossEntropy, OfHugeLogitsIsFinite) {
  Team team;
  test::on_every_target([&] {
    std::vector<float> z{1e30f, -1e30f, 0, 5000, 4999, 0};
    const LossSum sum = cross_entropy({z.data(), 2, 3}, std::vector<int32_t>{0, 1}, 1, true, team);
    EXPECT_NEAR(sum.loss, std::log(1 + std::exp(-1.0)) + 1, 1e-6);
    EXPECT_EQ(sum.right, 1u);
    EXPECT_EQ(z[0], 0.0f);
    EXPECT_EQ(z[1], 0.0f);
    EXPECT_NEAR(z[4], 1 / (1 + std::exp(1.0)) - 1, 1e-6);
  });
}

TEST(CrossEntropy, OfNaNIsNaNAndNotRight) {
  Team team;
  test::on_every_target([&] {
    for (size_t at : {0, 1}) {
      std::vector<float> z(40, 1.0f);
      z[at] = test::kNaN;
      const LossSum sum = cross_entropy({z.data(), 1, 40}, std::vector<int32_t>{0}, 1, false, team);
      EXPECT_TRUE(std::isnan(sum.loss));
      EXPECT_EQ(sum.count, 1u);
    }
  });
}

TEST(CrossEntropy, IsTheSameBitsForAnyTeam) {
  const size_t rows = 200, n = 37;
  const auto z = test::random_floats(rows * n, 1, -5, 5);
  const auto targets = some_targets(rows, n);
  std::vector<float> first = z;
  Team alone;
  const LossSum expected = cross_entropy({first.data(), rows, n}, targets, 1, true, alone);
  for (int threads : {2, 3}) {
    Team team(threads);
    std::vector<float> logits = z;
    EXPECT_EQ(cross_entropy({logits.data(), rows, n}, targets, 1, true, team).loss, expected.loss);
    EXPECT_TRUE(test::same_bits(logits, first));
  }
}

// A language model's head: states, the table they are multiplied by, targets.
struct HeadCase {
  HeadCase(size_t rows, size_t vocabulary, size_t width, bool with_bias, Products how = Products::kFloat32)
      : t(rows),
        v(vocabulary),
        e(width),
        stride(width + 3),
        x(test::random_floats(t * stride, 1)),
        table(test::random_floats(v * stride, 2)),
        bias(with_bias ? test::random_floats(v, 3) : std::vector<float>{}),
        targets(some_targets(t, v)),
        products(how) {
    if (are_bf16(products))  // numbers that need no rounding
      for (auto* numbers : {&x, &table})
        for (float& number : *numbers) number = float(BFloat16(number));
  }
  Matrix<const float> xs() const { return {x.data(), t, e, stride}; }
  VocabularyHead head() const { return {{table.data(), v, e, stride}, bias.empty() ? nullptr : bias.data()}; }

  size_t t, v, e, stride;
  std::vector<float> x, table, bias;
  std::vector<int32_t> targets;
  Products products;
};

struct HeadResult {
  HeadResult(const HeadCase& c, Team& team, bool with_gradient = true)
      : dx(c.t * c.stride),
        d_table(std::vector<float>(c.v * c.stride, kStart), 0),
        d_bias(std::vector<float>(c.bias.size(), kStart), 0) {
    test::Guarded workspace(vocabulary_loss_workspace(c.t, c.v, c.e, team.threads()));
    const VocabularyGradient gradient{{dx.data(), c.t, c.e, c.stride},
                                      {d_table.data(), c.v, c.e, c.stride},
                                      c.bias.empty() ? nullptr : d_bias.data()};
    sum = vocabulary_loss(c.xs(), c.head(), c.targets, kScale, with_gradient ? &gradient : nullptr,
                          workspace.data(), team, c.products);
    EXPECT_TRUE(dx.intact() && d_table.intact() && d_bias.intact() && workspace.intact());
  }
  static constexpr float kStart = 0.25f, kScale = 0.5f;
  test::Guarded dx, d_table, d_bias;
  LossSum sum;
};

void expect_reference(const HeadCase& c, Team& team) {
  const auto [t, v, e] = std::tuple(c.t, c.v, c.e);
  std::vector<double> x, table;
  for (size_t r = 0; r < t; ++r) x.insert(x.end(), c.xs()[r].begin(), c.xs()[r].end());
  for (size_t r = 0; r < v; ++r)
    table.insert(table.end(), c.head().table[r].begin(), c.head().table[r].end());
  const auto bias = test::to_double(c.bias);
  std::vector<double> z(t * v), dz(t * v), dx(t * e), d_table(v * e, HeadResult::kStart),
      d_bias(v, HeadResult::kStart);
  const Matrix<const double> xs(x.data(), t, e), tables(table.data(), v, e);
  reference::linear<double>(xs, tables, bias, Activation::kNone, {z.data(), t, v});
  const double loss = reference::cross_entropy<double>({z.data(), t, v}, c.targets);
  reference::cross_entropy_backward({z.data(), t, v}, c.targets, HeadResult::kScale, {dz.data(), t, v});
  reference::linear_backward(xs, tables, {dz.data(), t, v}, {dx.data(), t, e}, {d_table.data(), v, e},
                             d_bias);

  HeadResult result(c, team), loss_alone(c, team, false);
  SCOPED_TRACE(testing::Message() << t << " × " << v << " × " << e);
  EXPECT_NEAR(result.sum.loss, loss, 2e-6 * double(t));
  EXPECT_EQ(loss_alone.sum.loss, result.sum.loss);
  EXPECT_EQ(result.sum.count, t - (t + 1) / 3);
  const std::vector<float> logits(z.begin(), z.end());
  EXPECT_EQ(result.sum.right, count_right({logits.data(), t, v}, c.targets));
  EXPECT_EQ(loss_alone.sum.right, result.sum.right);
  // A logit of E terms is off by some √E·2⁻²⁴, and a weight by as much of itself: errors are measured against
  // the sum of the terms' sizes, where that is more than 1.
  test::Worst dx_error, table_error, bias_error;
  const auto relative = [](double error, double size) { return std::abs(error) / std::max(1.0, size); };
  for (size_t r = 0; r < t; ++r)
    for (size_t i = 0; i < e; ++i)
      dx_error.see(relative(result.dx.data()[r * c.stride + i] - dx[r * e + i], 1), double(r));
  for (size_t r = 0; r < v; ++r) {
    double bias_size = 0;
    for (size_t j = 0; j < t; ++j) bias_size += std::abs(dz[j * v + r]);
    if (!c.bias.empty()) bias_error.see(relative(result.d_bias.data()[r] - d_bias[r], bias_size), double(r));
    for (size_t i = 0; i < e; ++i) {
      double size = 0;
      for (size_t j = 0; j < t; ++j) size += std::abs(dz[j * v + r] * x[j * e + i]);
      table_error.see(relative(result.d_table.data()[r * c.stride + i] - d_table[r * e + i], size),
                      double(r));
    }
  }
  // In bf16 dz is rounded on its way into the products: by 2⁻⁹ of itself.
  const double most = are_bf16(c.products) ? 1e-6 + 0x1p-9 : 1e-6;
  EXPECT_LE(dx_error.error, most) << "row " << dx_error.at;
  EXPECT_LE(table_error.error, most) << "word " << table_error.at;
  EXPECT_LE(bias_error.error, 1e-6) << "word " << bias_error.at;
  for (size_t r = 0; r < v; ++r)
    for (size_t i = e; i < c.stride; ++i) ASSERT_EQ(result.d_table.data()[r * c.stride + i], 0.25f);
}

TEST(VocabularyLoss, EqualsTheReferenceAtEveryShape) {
  Team team(2);
  test::on_every_target([&] {
    struct Shape {
      size_t t, v, e;
    };
    for (Shape s : {Shape{1, 1, 1}, Shape{2, 5, 3}, Shape{3, 32, 32}, Shape{31, 223, 33}, Shape{33, 224, 16},
                    Shape{40, 225, 70}, Shape{5, 700, 64}, Shape{70, 1000, 40}, Shape{319, 60, 20},
                    Shape{321, 50, 9}, Shape{700, 30, 5}})
      for (bool with_bias : {false, true})
        for (Products products : {Products::kFloat32, Products::kBFloat16, Products::kAmx})
          expect_reference(HeadCase(s.t, s.v, s.e, with_bias, products), team);
  });
}

TEST(VocabularyLoss, TakesMoreWordsThanItHasParts) {
  Team team(2);
  expect_reference(HeadCase(20, 224 * 33 + 5, 12, true), team);
}

TEST(VocabularyLoss, IsTheSameBitsForAnyTeam) {
  test::on_every_target([&] {
    for (Products products : {Products::kFloat32, Products::kBFloat16, Products::kAmx}) {
      const HeadCase c(50, 900, 40, true, products);
      Team alone;
      HeadResult expected(c, alone);
      for (int threads : {2, 3}) {
        Team team(threads);
        HeadResult result(c, team);
        EXPECT_EQ(result.sum.loss, expected.sum.loss);
        EXPECT_TRUE(test::same_bits(result.dx.span(), expected.dx.span()));
        EXPECT_TRUE(test::same_bits(result.d_table.span(), expected.d_table.span()));
        EXPECT_TRUE(test::same_bits(result.d_bias.span(), expected.d_bias.span()));
      }
    }
  });
}

TEST(VocabularyLoss, HearsNothingOfRowsWithoutATarget) {
  Team team;
  test::on_every_target([&] {
    const HeadCase c(20, 300, 33, true);
    HeadCase poisoned = c;
    for (size_t t = 0; t < c.t; ++t)
      if (c.targets[t] < 0) std::fill_n(poisoned.x.begin() + ptrdiff_t(t * c.stride), c.e, test::kNaN);
    HeadResult expected(c, team), result(poisoned, team);
    EXPECT_EQ(result.sum.loss, expected.sum.loss);
    EXPECT_TRUE(test::same_bits(result.d_table.span(), expected.d_table.span()));
    EXPECT_TRUE(test::same_bits(result.dx.span(), expected.dx.span()));
  });
}

TEST(VocabularyLoss, OfNaNIsNaN) {
  Team team;
  test::on_every_target([&] {
    HeadCase c(5, 300, 8, true);
    c.x[0] = test::kNaN;
    EXPECT_TRUE(std::isnan(HeadResult(c, team).sum.loss));
  });
}

TEST(VocabularyLoss, OfHugeLogitsIsFinite) {
  Team team;
  test::on_every_target([&] {
    HeadCase c(5, 500, 8, false);
    for (float& x : c.x) x *= 1e4f;
    HeadResult result(c, team);
    EXPECT_TRUE(std::isfinite(result.sum.loss));
    for (float d : result.d_table.span()) ASSERT_TRUE(std::isfinite(d));
  });
}

}  // namespace
}  // namespace bertie::kernels
