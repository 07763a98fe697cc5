#include <gtest/gtest.h>

#include "kernels/layer_norm.h"
#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

constexpr double kEps = 1e-12;

// All inputs of both passes, and what the reference makes of them in double.
struct Case {
  Case(size_t row_count, size_t length, float rate)
      : rows(row_count), n(length), numbers(row_count), dropout{{rate, 17}, {}}, mask(rows * n) {
    for (size_t t = 0; t < rows; ++t) numbers[t] = (t / 7 << 32) + t % 7;
    dropout.rows = numbers;
    for (size_t t = 0; t < rows; ++t)
      for (size_t c = 0; c < n; ++c) mask[t * n + c] = dropout_factor(dropout.dropout, numbers[t], c);
  }
  LayerNorm norm() { return {.gamma = gamma.data(), .beta = beta.data(), .eps = float(kEps)}; }
  Matrix<const float> view(const std::vector<float>& v) const { return {v.data(), rows, n}; }

  size_t rows, n;
  std::vector<uint64_t> numbers;
  RowDropout dropout;
  std::vector<double> mask;
  std::vector<float> x = test::random_floats(rows * n, 1), residual = test::random_floats(rows * n, 2),
                     gamma = test::random_floats(n, 3, 0.5f, 2), beta = test::random_floats(n, 4),
                     dy = test::random_floats(rows * n, 5), carry = test::random_floats(rows * n, 6);
};

struct Forward {
  explicit Forward(const Case& c)
      : sum(c.rows * c.n), normalized(c.rows * c.n), y(c.rows * c.n), rho(c.rows), rows(c.rows), n(c.n) {}
  Normalized saved() { return {view(normalized), rho}; }
  Matrix<float> view(test::Guarded& v) { return {v.data(), rows, n}; }
  bool intact() const { return sum.intact() && normalized.intact() && y.intact(); }
  test::Guarded sum, normalized, y;
  std::vector<float> rho;
  size_t rows, n;
};

struct Backward {
  explicit Backward(const Case& c)
      : ds(c.rows * c.n),
        dx(c.rows * c.n),
        gamma(std::vector<float>(c.n, 0.5f), 0),
        beta(std::vector<float>(c.n, -0.5f), 0),
        workspace(layer_norm_backward_workspace(c.rows, c.n)) {}
  LayerNorm gradient() { return {.gamma = gamma.data(), .beta = beta.data()}; }
  bool intact() const {
    return ds.intact() && dx.intact() && gamma.intact() && beta.intact() && workspace.intact();
  }
  test::Guarded ds, dx, gamma, beta, workspace;
};

void run(Case& c, Forward& f, Backward& b, Team& team) {
  const bool drops = c.dropout.dropout.rate > 0;
  layer_norm_training_forward(c.view(c.x), c.dropout, c.view(c.residual), c.norm(), f.view(f.sum), f.saved(),
                              f.view(f.y), team);
  layer_norm_training_backward(c.view(c.dy), f.saved(), c.norm(), c.view(c.carry), c.dropout, f.view(b.ds),
                               drops ? f.view(b.dx) : Matrix<float>{}, b.gradient(), b.workspace.data(),
                               team);
}

double worst_error(std::span<const float> actual, std::span<const double> expected) {
  test::Worst worst;
  for (size_t i = 0; i < actual.size(); ++i)
    worst.see(std::abs(actual[i] - expected[i]) / std::max(1.0, std::abs(expected[i])));
  return worst.error;
}

TEST(LayerNormTraining, BothWaysEqualsTheReferenceAtEveryLength) {
  Team team(2);
  test::on_every_target([&] {
    for (size_t n : {1, 3, 4, 15, 16, 17, 33, 64, 67, 100, 128, 131, 768})
      for (float rate : {0.0f, 0.25f}) {
        Case c(70, n, rate);
        Forward f(c);
        Backward b(c);
        run(c, f, b, team);
        ASSERT_TRUE(f.intact() && b.intact()) << n;

        const auto x = test::to_double(c.x), r = test::to_double(c.residual), g = test::to_double(c.gamma),
                   bt = test::to_double(c.beta), dy = test::to_double(c.dy);
        std::vector<double> s(x.size()), y(x.size()), ds(x.size()), dx(x.size()), dg(n, 0.5), db(n, -0.5);
        const auto in = [&](const std::vector<double>& v) {
          return Matrix<const double>(v.data(), c.rows, n);
        };
        const auto out = [&](std::vector<double>& v) { return Matrix<double>(v.data(), c.rows, n); };
        reference::dropout_residual_layer_norm<double>(in(x), in(c.mask), in(r), g, bt, kEps, out(s), out(y));
        EXPECT_LE(worst_error(f.sum.span(), s), 1e-6);
        // The backward pass starts from the rounded sum: two numbers that nearly agree magnify its rounding.
        for (size_t i = 0; i < s.size(); ++i) s[i] = f.sum.span()[i];
        reference::layer_norm<double>(in(s), g, bt, kEps, out(y));
        reference::layer_norm_backward(in(s), g, kEps, in(dy), out(ds), dg, db);
        for (size_t i = 0; i < ds.size(); ++i) ds[i] += c.carry[i], dx[i] = ds[i] * c.mask[i];
        const double bound = n == 1 ? 0 : n < 4 ? 1e-4 : 4e-6;
        EXPECT_LE(worst_error(f.y.span(), y), bound) << n;
        EXPECT_LE(worst_error(b.gamma.span(), dg), n < 4 ? 2e-3 : 1e-5) << n;
        EXPECT_LE(worst_error(b.beta.span(), db), 1e-5) << n;
        if (n < 4) continue;  // ρ may be 1e6 there, and ds as large with no digit right
        EXPECT_LE(worst_error(b.ds.span(), ds), 1e-5) << n;
        if (rate > 0) {
          EXPECT_LE(worst_error(b.dx.span(), dx), 1e-5) << n;
        }
      }
  });
}

TEST(LayerNormTraining, IsTheSameBitsForAnyTeam) {
  test::on_every_target([&] {
    Case c(300, 100, 0.1f);
    Forward f1(c);
    Backward b1(c);
    Team alone;
    run(c, f1, b1, alone);
    for (int threads : {2, 3}) {
      Forward f(c);
      Backward b(c);
      Team team(threads);
      run(c, f, b, team);
      EXPECT_TRUE(test::same_bits(f.y.span(), f1.y.span()));
      EXPECT_TRUE(test::same_bits(b.ds.span(), b1.ds.span()));
      EXPECT_TRUE(test::same_bits(b.dx.span(), b1.dx.span()));
      EXPECT_TRUE(test::same_bits(b.gamma.span(), b1.gamma.span()));
      EXPECT_TRUE(test::same_bits(b.beta.span(), b1.beta.span()));
    }
  });
}

TEST(LayerNormTraining, WithoutDropoutIsTheForwardPassOfInference) {
  Team team;
  test::on_every_target([&] {
    for (size_t n : {5, 64, 100}) {
      Case c(20, n, 0);
      Forward f(c);
      std::vector<float> y(20 * n), later(20 * n);
      layer_norm_training_forward(c.view(c.x), {}, c.view(c.residual), c.norm(), {}, f.saved(), f.view(f.y),
                                  team);
      residual_layer_norm_forward(c.view(c.x), c.view(c.residual), c.norm(), {y.data(), 20, n}, team);
      EXPECT_TRUE(test::same_bits(f.y.span(), y));
      layer_norm_training_forward(c.view(c.x), {}, {}, c.norm(), {}, f.saved(), f.view(f.y), team);
      layer_norm_forward(c.view(c.x), c.norm(), {y.data(), 20, n}, team);
      EXPECT_TRUE(test::same_bits(f.y.span(), y));
      normalized_output(f.saved().x, c.norm(), {later.data(), 20, n}, team);
      EXPECT_TRUE(test::same_bits(later, y));
    }
  });
}

TEST(LayerNormTraining, MayWriteOverItsInputs) {
  Team team;
  test::on_every_target([&] {
    for (size_t n : {5, 40, 64}) {
      Case c(20, n, 0.2f);
      Forward apart(c), over(c);
      Backward b(c), b_over(c);
      run(c, apart, b, team);
      auto x = c.x, residual = c.residual;
      layer_norm_training_forward(c.view(x), c.dropout, c.view(residual), c.norm(), {residual.data(), 20, n},
                                  over.saved(), {x.data(), 20, n}, team);
      EXPECT_TRUE(test::same_bits(x, apart.y.span()));
      EXPECT_TRUE(test::same_bits(residual, apart.sum.span()));
      auto dy = c.dy, carry = c.carry;
      layer_norm_training_backward(c.view(dy), over.saved(), c.norm(), c.view(carry), c.dropout,
                                   {dy.data(), 20, n}, over.view(b_over.dx), b_over.gradient(),
                                   b_over.workspace.data(), team);
      EXPECT_TRUE(test::same_bits(dy, b.ds.span()));
      EXPECT_TRUE(test::same_bits(b_over.dx.span(), b.dx.span()));
      dy = c.dy;
      layer_norm_training_backward(c.view(dy), over.saved(), c.norm(), c.view(carry), c.dropout,
                                   {carry.data(), 20, n}, over.view(b_over.dx), b_over.gradient(),
                                   b_over.workspace.data(), team);
      EXPECT_TRUE(test::same_bits(carry, b.ds.span()));
    }
  });
}

}  // namespace
}  // namespace bertie::kernels
