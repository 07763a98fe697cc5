#include <gtest/gtest.h>

#include "kernels/gemm.h"
#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

struct Shape {
  size_t t, n, k;
};

// A layer, an input, and a gradient that comes back; rows are wider than they are long.
struct Case {
  explicit Case(Shape shape, Products how = Products::kFloat32)
      : s(shape),
        products(how),
        x_stride(s.k + 3),
        dy_stride(s.n + 5),
        x(test::random_floats(s.t * x_stride, 1)),
        w(test::random_floats(s.n * s.k, 2)),
        dy(test::random_floats(s.t * dy_stride, 3)),
        packed(packed_floats(s.n, s.k)) {
    if (are_bf16(products))  // numbers that need no rounding
      for (auto* numbers : {&x, &w, &dy})
        for (float& number : *numbers) number = float(BFloat16(number));
    pack_rows({w.data(), s.n, s.k}, 0, layer());
  }
  Matrix<const float> xs() const { return {x.data(), s.t, s.k, x_stride}; }
  Matrix<const float> dys() const { return {dy.data(), s.t, s.n, dy_stride}; }
  Linear layer() { return {.packed = packed.data(), .inputs = s.k, .outputs = s.n}; }

  Shape s;
  Products products;
  size_t x_stride, dy_stride;
  std::vector<float> x, w, dy, packed;
};

// Packed gradients between guards, that start as small numbers.
struct Gradient {
  explicit Gradient(Shape s) : packed(packed_floats(s.n, s.k)), bias(panels_for(s.n) * kPanel) {
    linear = {.packed = packed.data(), .bias = bias.data(), .inputs = s.k, .outputs = s.n};
    std::fill(packed.span().begin(), packed.span().end(), 0.0f);
    std::fill(bias.span().begin(), bias.span().end(), 0.0f);
    pack_rows({std::vector<float>(s.n * s.k, kStart).data(), s.n, s.k}, 0, linear);
    std::fill_n(bias.data(), s.n, kStart);
  }
  static constexpr float kStart = 0.25f;
  test::Guarded packed, bias;
  Linear linear;
};

// An error as a multiple of 2⁻²⁴·Σ|terms|; what is allowed for n terms is what linear_forward's test allows.
double relative(double error, double size) { return std::abs(error) / (0x1p-24 * size + 1e-30); }
double allowed(size_t terms) { return 2 + 2 * std::sqrt(double(terms)); }

void expect_input_gradient(Case& c, Accumulate accumulate, Team& team) {
  const auto [t, n, k] = c.s;
  const size_t stride = k + 7;
  test::Guarded dx(t * stride), workspace(linear_backward_input_workspace(c.layer()));
  std::fill(dx.span().begin(), dx.span().end(), test::Guarded::guard());
  const Matrix<float> dxs(dx.data(), t, k, stride);
  const float start = accumulate == Accumulate::kYes ? 0.5f : test::kNaN;
  for (size_t r = 0; r < t; ++r) std::fill_n(dxs.row(r), k, start);
  linear_backward_input(c.dys(), c.layer(), dxs, workspace.data(), team, accumulate, c.products);
  ASSERT_TRUE(dx.intact() && workspace.intact());
  test::Worst worst;
  for (size_t r = 0; r < t; ++r) {
    for (size_t i = 0; i < k; ++i) {
      double sum = accumulate == Accumulate::kYes ? 0.5 : 0, size = sum;
      for (size_t j = 0; j < n; ++j) {
        const double product = double(c.dys()(r, j)) * double(c.w[j * k + i]);
        sum += product, size += std::abs(product);
      }
      worst.see(relative(dxs(r, i) - sum, size));
    }
    for (size_t i = k; i < stride; ++i) ASSERT_EQ(dxs.row(r)[i], test::Guarded::guard());
  }
  ASSERT_LE(worst.error, allowed(n)) << t << " × " << n << " × " << k;
}

void expect_weight_gradient(Case& c, Team& team) {
  const auto [t, n, k] = c.s;
  Gradient g(c.s);
  test::Guarded workspace(linear_backward_weights_workspace(g.linear, t));
  linear_backward_weights(c.xs(), c.dys(), g.linear, workspace.data(), team, c.products);
  ASSERT_TRUE(g.packed.intact() && g.bias.intact() && workspace.intact());
  std::vector<float> dw(n * k);
  unpack_rows(g.linear, 0, {dw.data(), n, k});
  test::Worst worst;
  for (size_t j = 0; j < n; ++j) {
    double bias = Gradient::kStart, bias_size = bias;
    for (size_t r = 0; r < t; ++r) bias += double(c.dys()(r, j)), bias_size += std::abs(c.dys()(r, j));
    worst.see(relative(g.bias.data()[j] - bias, bias_size));
    for (size_t i = 0; i < k; ++i) {
      double sum = Gradient::kStart, size = sum;
      for (size_t r = 0; r < t; ++r) {
        const double product = double(c.dys()(r, j)) * double(c.xs()(r, i));
        sum += product, size += std::abs(product);
      }
      worst.see(relative(dw[j * k + i] - sum, size));
    }
  }
  ASSERT_LE(worst.error, allowed(t)) << t << " × " << n << " × " << k;
  for (size_t j = n; j < panels_for(n) * kPanel; ++j) {  // there is no such output, nor its gradient
    ASSERT_EQ(g.bias.data()[j], 0.0f);
    for (size_t i = 0; i < k; ++i)
      ASSERT_EQ(g.packed.data()[(j / kPanel * k + i) * kPanel + j % kPanel], 0.0f);
  }
}

const Shape kShapes[] = {{0, 33, 5},     {1, 1, 1},     {3, 32, 32},    {2, 31, 33},   {14, 64, 15},
                         {15, 33, 29},   {29, 70, 65},  {40, 7, 100},   {255, 40, 20}, {256, 33, 33},
                         {257, 65, 14},  {530, 10, 40}, {1030, 40, 33}, {7, 1030, 9},  {9, 20, 700},
                         {20, 40, 1290}, {70, 100, 130}};

TEST(LinearBackward, GivesTheInputsGradientAtEveryShape) {
  Team team(2);
  test::on_every_target([&] {
    for (Shape s : kShapes)
      for (Accumulate accumulate : {Accumulate::kNo, Accumulate::kYes})
        for (Products products : {Products::kFloat32, Products::kBFloat16, Products::kAmx}) {
          Case c(s, products);
          expect_input_gradient(c, accumulate, team);
        }
  });
}

TEST(LinearBackward, AddsTheWeightsGradientAtEveryShape) {
  Team team(2);
  test::on_every_target([&] {
    for (Shape s : kShapes)
      for (Products products : {Products::kFloat32, Products::kBFloat16, Products::kAmx}) {
        Case c(s, products);
        expect_weight_gradient(c, team);
      }
  });
}

TEST(LinearBackward, WithoutABiasAddsToNone) {
  Team team;
  Case c({20, 40, 10});
  Gradient with({20, 40, 10}), without({20, 40, 10});
  without.linear.bias = nullptr;
  std::vector<float> workspace(linear_backward_weights_workspace(with.linear, 20));
  linear_backward_weights(c.xs(), c.dys(), with.linear, workspace.data(), team);
  linear_backward_weights(c.xs(), c.dys(), without.linear, workspace.data(), team);
  EXPECT_TRUE(test::same_bits(with.packed.span(), without.packed.span()));
}

TEST(LinearBackward, IsTheSameBitsForAnyTeam) {
  test::on_every_target([&] {
    for (const Case& given : {Case({600, 100, 70}), Case({300, 200, 1300}), Case({70, 33, 5}),
                              Case({601, 100, 70}, Products::kBFloat16), Case({601, 100, 70}, Products::kAmx),
                              Case({1300, 200, 530}, Products::kAmx)}) {
      Case c = given;
      const Shape s = c.s;
      std::vector<float> dx_alone;
      Gradient alone(s);
      for (int threads : {1, 2, 3}) {
        Team team(threads);
        std::vector<float> dx(s.t * s.k), workspace(linear_backward_input_workspace(c.layer()));
        linear_backward_input(c.dys(), c.layer(), {dx.data(), s.t, s.k}, workspace.data(), team,
                              Accumulate::kNo, c.products);
        Gradient g(s);
        Gradient& to = threads == 1 ? alone : g;
        std::vector<float> more(linear_backward_weights_workspace(to.linear, s.t));
        linear_backward_weights(c.xs(), c.dys(), to.linear, more.data(), team, c.products);
        if (threads == 1) {
          dx_alone = dx;
          continue;
        }
        EXPECT_TRUE(test::same_bits(dx, dx_alone));
        EXPECT_TRUE(test::same_bits(g.packed.span(), alone.packed.span()));
        EXPECT_TRUE(test::same_bits(g.bias.span(), alone.bias.span()));
      }
    }
  });
}

TEST(LinearBackward, SumsOverTokensInOrder) {
  // Two calls with half of the tokens each are one call, bit for bit.
  Team team(2);
  test::on_every_target([&] {
    const Shape s{600, 50, 40};
    Case c(s);
    Gradient once(s), twice(s);
    std::vector<float> workspace(linear_backward_weights_workspace(once.linear, s.t));
    linear_backward_weights(c.xs(), c.dys(), once.linear, workspace.data(), team);
    for (size_t first : {0, 300})
      linear_backward_weights(c.xs().slice_rows(first, 300), c.dys().slice_rows(first, 300), twice.linear,
                              workspace.data(), team);
    EXPECT_TRUE(test::same_bits(once.packed.span(), twice.packed.span()));
    EXPECT_TRUE(test::same_bits(once.bias.span(), twice.bias.span()));
  });
}

}  // namespace
}  // namespace bertie::kernels
