#include "kernels/muon.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/reference_optimize.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

// A stack as it is packed, and each of its matrices row by row in double.
struct Stack {
  Stack(StackedMatrices of, uint64_t seed) : shape(of), packed(of.packed_floats()) {
    const std::vector<float> numbers = test::random_floats(of.count * of.rows * of.cols, seed);
    pack_rows({numbers.data(), of.count * of.rows, of.cols}, 0, linear());
    for (size_t k = 0; k < of.count; ++k)
      matrices.emplace_back(numbers.begin() + ptrdiff_t(k * of.rows * of.cols),
                            numbers.begin() + ptrdiff_t((k + 1) * of.rows * of.cols));
  }
  Linear linear() {
    return {.packed = packed.data(), .inputs = shape.cols, .outputs = shape.count * shape.rows};
  }
  std::vector<float> unpacked() {
    std::vector<float> all(shape.count * shape.rows * shape.cols);
    unpack_rows(linear(), 0, {all.data(), shape.count * shape.rows, shape.cols});
    return all;
  }
  double worst() {
    const std::vector<float> all = unpacked();
    test::Worst w;
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t each = shape.rows * shape.cols;
      w.see(std::abs(double(all[i]) - matrices[i / each][i % each]));
    }
    return w.error;
  }

  StackedMatrices shape;
  std::vector<float> packed;
  std::vector<std::vector<double>> matrices;
};

void step(const MuonStep& s, Stack& p, std::vector<float>& g, Stack& m) {
  std::vector<float> workspace(muon_workspace_floats(p.shape));
  for (size_t which = 0; which < p.shape.count; ++which) {
    test::Guarded room(workspace, 1);
    muon_update(s, p.shape, which, p.packed, g, m.packed, room.data());
    ASSERT_TRUE(room.intact());
  }
}

const StackedMatrices kShapes[] = {{1, 1, 1},   {1, 1, 9},   {1, 9, 1},   {2, 3, 5},   {3, 5, 3},
                                   {3, 16, 16}, {1, 33, 40}, {1, 40, 33}, {2, 48, 20}, {3, 20, 64}};

TEST(Muon, IsTheReference) {
  test::on_every_target([&] {
    for (const StackedMatrices& shape : kShapes) {
      Stack p(shape, 1), m(shape, 2);
      for (int t = 1; t <= 3; ++t) {
        Stack g(shape, uint64_t(10 + t));
        const MuonStep s{.rate = 0.02, .decay = 0.1, .scale = 0.7};
        step(s, p, g.packed, m);
        for (size_t k = 0; k < shape.count; ++k)
          reference::muon(s, shape.rows, shape.cols, p.matrices[k], g.matrices[k], m.matrices[k]);
        ASSERT_LT(m.worst(), 1e-6) << shape.rows << " × " << shape.cols;
        // The least singular values grow by 3.44 in each of five steps, and their rounding with them: 500
        // roundings of 6e-8, in a step of 0.02·0.2·√64.
        ASSERT_LT(p.worst(), 2e-6) << shape.rows << " × " << shape.cols << ", step " << t;
      }
    }
  });
}

// What numpy gives for the same formula, worked out apart from this program: W = [[0.5, -1, 2], [1, 0.25,
// -0.5]], gradients [[0.1t, -0.3, 2/t], [0.4, 0.2t, -1]] in steps t = 1 to 3, rate 0.1, momentum 0.95, decay
// 0.01.
TEST(Muon, IsTheFormula) {
  Stack p({1, 2, 3}, 1), m({1, 2, 3}, 1);
  const std::vector<float> start{0.5f, -1, 2, 1, 0.25f, -0.5f};
  pack_rows({start.data(), 2, 3}, 0, p.linear());
  std::fill(m.packed.begin(), m.packed.end(), 0.0f);
  for (int t = 1; t <= 3; ++t) {
    const float x = float(t);
    const std::vector<float> g{0.1f * x, -0.3f, 2 / x, 0.4f, 0.2f * x, -1};
    Stack packed({1, 2, 3}, 1);
    pack_rows({g.data(), 2, 3}, 0, packed.linear());
    step({.rate = 0.1, .decay = 0.01}, p, packed.packed, m);
  }
  const double expected[] = {0.4489681997675552, -0.9913780258703218, 1.9299016614835853,
                             0.9225231340734815, 0.2255951120736539,  -0.4620405825434141};
  const std::vector<float> got = p.unpacked();
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

TEST(Muon, AStepHasSingularValuesNearOne) {
  const StackedMatrices shape{1, 16, 64};
  Stack p(shape, 1), g(shape, 2), m(shape, 3);
  std::fill(p.packed.begin(), p.packed.end(), 0.0f), std::fill(m.packed.begin(), m.packed.end(), 0.0f);
  step({.rate = 5 / std::sqrt(64.0)}, p, g.packed, m);  // 0.2·√64 of it: p = −O
  const std::vector<float> o = p.unpacked();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> v = test::random_floats(16, seed);  // |vᵀO| / |v| lies between them
    double of_v = 0, of_product = 0;
    for (float x : v) of_v += double(x) * double(x);
    for (size_t j = 0; j < 64; ++j) {
      double sum = 0;
      for (size_t i = 0; i < 16; ++i) sum += double(v[i]) * double(o[i * 64 + j]);
      of_product += sum * sum;
    }
    EXPECT_GT(std::sqrt(of_product / of_v), 0.65);
    EXPECT_LT(std::sqrt(of_product / of_v), 1.25);
  }
}

// Products of bf16 are off by 2⁻⁹ of their terms, and so is the step; the singular values stay where they
// are.
TEST(Muon, ProductsOfBf16AreNearlyTheSame) {
  const StackedMatrices shape{2, 40, 64};
  Stack p(shape, 1), g(shape, 2), m(shape, 3);
  const MuonStep s{.rate = 1 / (0.2 * std::sqrt(64.0)), .products = Products::kAmx};  // p −= O
  step(s, p, g.packed, m);
  for (size_t k = 0; k < shape.count; ++k)
    reference::muon(s, shape.rows, shape.cols, p.matrices[k], g.matrices[k], m.matrices[k]);
  EXPECT_LT(m.worst(), 1e-6);
  EXPECT_LT(p.worst(), has_bf16_products() ? 0.02 : 1e-4);  // elements of O are some 1/√64
  EXPECT_EQ(p.worst() > 1e-4, has_bf16_products());
}

TEST(Muon, WithoutGradientThereIsOnlyDecay) {
  const StackedMatrices shape{1, 20, 30};
  Stack p(shape, 1), m(shape, 2);
  const std::vector<float> before = p.packed;
  std::vector<float> g(p.packed.size());
  std::fill(m.packed.begin(), m.packed.end(), 0.0f);
  step({.rate = 0.1, .decay = 0.5}, p, g, m);
  for (size_t i = 0; i < before.size(); ++i) ASSERT_FLOAT_EQ(p.packed[i], before[i] * 0.95f);
}

}  // namespace
}  // namespace bertie::kernels
