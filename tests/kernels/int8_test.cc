#include "kernels/int8.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

// A layer of integers, made from random weights or from given ones, between guards.
struct Int8 {
  Int8(size_t outputs, size_t inputs, uint64_t seed) : Int8(outputs, inputs) {
    const auto w = test::random_floats(outputs * inputs, seed);
    for (size_t e = 0; e < columns.size(); ++e) columns[e] = uint32_t(e * inputs / columns.size());
    for (size_t n = 0; n < outputs; ++n) {
      const std::span row(w.data() + n * inputs, inputs);
      scales[n] = quantize_row_of_weights(row, columns, std::span(q).subspan(n * inputs, inputs));
      for (size_t e = 0; e < columns.size(); ++e) exact[n * columns.size() + e] = row[columns[e]];
    }
    const auto b = test::random_floats(outputs, seed + 1);
    std::copy(b.begin(), b.end(), bias.data());
    pack();
  }
  Int8(size_t outputs, size_t inputs)
      : q(outputs * inputs),
        scales(outputs, 1.0f),
        exact(outputs * exact_columns_for(inputs)),
        columns(exact_columns_for(inputs)),
        linear{.inputs = inputs, .outputs = outputs, .format = WeightFormat::kInt8},
        memory(linear.packed_bytes() / sizeof(float)),
        bias(panels_for(outputs) * kPanel) {
    std::fill(memory.span().begin(), memory.span().end(), 0.0f);
    std::fill(bias.span().begin(), bias.span().end(), 0.0f);
    linear.packed = memory.data(), linear.bias = bias.data();
  }
  void pack() {
    const Int8Layer layer(linear);
    pack_rows({q.data(), linear.outputs, linear.inputs}, 0, linear);
    std::copy(columns.begin(), columns.end(), layer.columns().begin());
    for (size_t n = 0; n < linear.outputs; ++n) {
      layer.scale(n) = scales[n];
      for (size_t e = 0; e < columns.size(); ++e) layer.exact_weight(n, e) = exact[n * columns.size() + e];
    }
  }
  reference::Int8Weights weights() const {
    return {{q.data(), linear.outputs, linear.inputs},
            scales,
            columns,
            {exact.data(), linear.outputs, columns.size()}};
  }

  std::vector<float> q, scales, exact;
  std::vector<uint32_t> columns;
  Linear linear;
  test::Guarded memory, bias;
};

// y without and with VNNI, where the machine has it.
std::vector<std::vector<float>> products(const Int8& layer, Matrix<const float> x) {
  std::vector<std::vector<float>> all;
  std::vector<float> rows(x.rows() * int8_row_floats(x.cols()));
  const Matrix<float> quantized(rows.data(), x.rows(), int8_row_floats(x.cols()));
  quantize_rows(x, layer.linear, quantized);
  for (bool may_dot : {false, true}) {
    all.emplace_back(x.rows() * layer.linear.outputs);
    int8_panels(quantized, layer.linear, 0, panels_for(layer.linear.outputs), 0,
                {.y = {all.back().data(), x.rows(), layer.linear.outputs}}, may_dot);
  }
  return all;
}

TEST(Int8, EqualsTheSpecificationAtEveryShapeAroundTheTileEdges) {
  double worst = 0;
  test::on_every_target([&] {
    for (size_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 29})
      for (size_t n : {1, 31, 32, 33, 70})
        for (size_t k : {1, 3, 7, 8, 9, 15, 95, 96, 100, 200, 768, 770}) {
          const Int8 layer(n, k, 7 * n + k);
          const auto x = test::random_floats(m * k, m + 100);
          for (const auto& y : products(layer, {x.data(), m, k}))
            for (size_t t = 0; t < m; ++t) {
              std::vector<double> exact(n);
              reference::int8_linear(std::span(x).subspan(t * k, k), layer.weights(), exact);
              double size = 0;
              for (size_t i = 0; i < n; ++i) size = std::max(size, std::abs(exact[i]));
              for (size_t i = 0; i < n; ++i) {
                const double error = std::abs(y[t * n + i] - exact[i] - layer.linear.bias[i]) / (size + 1);
                ASSERT_LE(error, 1e-6) << m << " × " << n << " × " << k;
                worst = std::max(worst, error);
              }
            }
          EXPECT_TRUE(layer.memory.intact() && layer.bias.intact());
        }
  });
  std::printf("int8: worst error %.2g of the largest output\n", worst);
}

// Four weights of which any may be extreme, in both groups of an eight, times activations that are: the sums
// are whole numbers, so they must be exact. 255·127·2 would not fit into 16 bits; no group allowed here does
// it.
TEST(Int8, NothingSaturatesAtTheExtremes) {
  std::vector<std::array<int, 4>> groups;
  const int values[] = {-127, -126, -65, -64, -63, -32, -1, 0, 1, 32, 63, 64, 65, 126, 127};
  for (int a : values)
    for (int b : values)
      for (int c : values)
        for (int d : values)
          if (std::abs(a) + std::abs(b) + std::abs(c) + std::abs(d) <= kMostOfGroup)
            groups.push_back({a, b, c, d});
  ASSERT_GT(groups.size(), 3000u);
  Int8 layer(groups.size(), 8);
  for (size_t n = 0; n < groups.size(); ++n) {
    const auto& [a, b, c, d] = groups[n];
    const int row[8] = {a, b, -a, -b, c, d, -c, -d};  // both groups of the eight
    for (size_t k = 0; k < 8; ++k) layer.q[n * 8 + k] = float(row[k]);
    ASSERT_TRUE(are_int8_weights(std::span(layer.q).subspan(n * 8, 8)));
  }
  layer.pack();
  std::vector<float> x;
  for (int bits = 1; bits < 256; ++bits)  // every mixture of 0 and 255
    for (int k = 0; k < 8; ++k) x.push_back(bits >> k & 1 ? 255.0f : 0.0f);
  test::on_every_target([&] {
    for (const auto& y : products(layer, {x.data(), x.size() / 8, 8}))
      for (size_t t = 0; t < x.size() / 8; ++t)
        for (size_t n = 0; n < groups.size(); ++n) {
          float sum = 0;
          for (size_t k = 0; k < 8; ++k) sum += x[t * 8 + k] * layer.q[n * 8 + k];
          ASSERT_EQ(y[t * groups.size() + n], sum) << "token " << t << ", output " << n;
        }
  });
}

TEST(Int8, LongestSumsFitInto32Bits) {
  Int8 layer(1, kMostInt8Inputs);
  std::fill(layer.q.begin(), layer.q.end(), 32.0f);
  for (size_t e = 0; e < layer.columns.size(); ++e) layer.columns[e] = uint32_t(e), layer.q[e] = 0;
  layer.pack();
  std::vector<float> x(kMostInt8Inputs, 255.0f);
  const auto sum = float(255.0 * 32 * double(kMostInt8Inputs - layer.columns.size()));
  test::on_every_target([&] {
    for (const auto& y : products(layer, {x.data(), 1, x.size()})) EXPECT_EQ(y[0], sum);
  });
}

TEST(Int8, WeightsAreScaledUntilNoGroupIsTooLarge) {
  for (size_t k : {1, 4, 5, 8, 11, 64, 384, 768}) {
    const auto w = test::random_floats(k, k);
    std::vector<float> q(k);
    const std::vector<uint32_t> columns = k > 8 ? std::vector<uint32_t>{3, 7} : std::vector<uint32_t>{};
    const float scale = quantize_row_of_weights(w, columns, q);
    EXPECT_TRUE(are_int8_weights(q));
    for (size_t i = 0; i < k; ++i) {
      const bool exact = std::find(columns.begin(), columns.end(), i) != columns.end();
      EXPECT_NEAR(q[i] * scale, exact ? 0 : w[i], 0.5001f * scale) << i;
    }
  }
  std::vector<float> none(16), q(16, 1.0f);
  EXPECT_EQ(quantize_row_of_weights(none, {}, q), 0);
  EXPECT_EQ(q, none);
  // 127 and 1 in a group, not 127 and 2; 128 nowhere.
  std::vector<float> row(8);
  row[0] = 127, row[5] = -1;
  EXPECT_TRUE(are_int8_weights(row));
  row[5] = -2;
  EXPECT_FALSE(are_int8_weights(row));
  row[5] = 0, row[2] = 127, row[7] = 1;
  EXPECT_TRUE(are_int8_weights(row));
  row[0] = -128;
  EXPECT_FALSE(are_int8_weights(row));
}

TEST(Int8, EveryInstructionSetMakesTheSameIntegersOfATokenAlone) {
  const Int8 layer(40, 771, 5);
  auto x = test::random_floats(9 * 771, 6);
  for (size_t k = 0; k < 771; ++k) x[771 + k] = 0.25f;  // constant
  for (size_t k = 0; k < 771; ++k) x[2 * 771 + k] = 0;
  for (uint32_t column : layer.columns) x[3 * 771 + column] = 1e6f;  // exact columns do not widen the range
  std::set<std::vector<uint32_t>> all;  // as bits: some places are no numbers
  const size_t width = int8_row_floats(771);
  test::on_every_target([&] {
    std::vector<float> rows(9 * width), one(width);
    quantize_rows({x.data(), 9, 771}, layer.linear, {rows.data(), 9, width});
    const auto* bits = reinterpret_cast<const uint32_t*>(rows.data());
    all.insert({bits, bits + rows.size()});
    EXPECT_LT(rows[3 * width], 2.0f / 255 * 1.1f);
    for (size_t t = 0; t < 9; ++t) {
      quantize_rows({x.data() + t * 771, 1, 771}, layer.linear, {one.data(), 1, width});
      EXPECT_TRUE(test::same_bits(
          one, std::vector<float>(rows.begin() + long(t * width), rows.begin() + long((t + 1) * width))));
    }
  });
  EXPECT_EQ(all.size(), 1u);
}

TEST(Int8, WhatIsNotFiniteMakesTheWholeTokenNaN) {
  const Int8 layer(33, 100, 5);
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    auto x = test::random_floats(3 * 100, 6);
    x[100 + 57] = bad;
    test::on_every_target([&] {
      for (const auto& y : products(layer, {x.data(), 3, 100}))
        for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 33 == 1) << i;
    });
  }
}

// The call that models make: the same bits for a row in any batch and with any team.
TEST(Int8, ARowDependsOnItselfAlone) {
  const Int8 layer(100, 768, 5);
  const size_t m = 300;
  const auto x = test::random_floats(m * 768, 6);
  test::on_every_target([&] {
    std::vector<float> alone(m * 100), all(m * 100), some(m * 100);
    Team one(1), three(3);
    linear_forward({x.data(), m, 768}, layer.linear, Activation::kGelu, {all.data(), m, 100}, three);
    linear_forward({x.data(), m, 768}, layer.linear, Activation::kGelu, {some.data(), m, 100}, one);
    for (size_t t = 0; t < m; ++t)
      linear_forward({x.data() + t * 768, 1, 768}, layer.linear, Activation::kGelu,
                     {alone.data() + t * 100, 1, 100}, one);
    EXPECT_TRUE(test::same_bits(all, alone));
    EXPECT_TRUE(test::same_bits(all, some));
  });
}

TEST(Int8, ResidualAndNormComeBehindTheProduct) {
  const Int8 layer(96, 384, 5);
  for (size_t m : {3, 700}) {
    const auto x = test::random_floats(m * 384, 6), residual = test::random_floats(m * 96, 7);
    std::vector<float> gamma(96, 1.5f), beta(96, 0.25f), y(m * 96), product(m * 96), expected(m * 96);
    const LayerNorm norm{gamma.data(), beta.data(), 1e-12f};
    Team team(2);
    linear_residual_layer_norm_forward({x.data(), m, 384}, layer.linear, {residual.data(), m, 96}, norm,
                                       {y.data(), m, 96}, team);
    linear_forward({x.data(), m, 384}, layer.linear, Activation::kNone, {product.data(), m, 96}, team);
    residual_layer_norm_forward({product.data(), m, 96}, {residual.data(), m, 96}, norm,
                                {expected.data(), m, 96}, team);
    EXPECT_TRUE(test::same_bits(y, expected)) << m;
  }
}

}  // namespace
}  // namespace bertie::kernels
