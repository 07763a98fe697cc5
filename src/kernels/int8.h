#pragma once
// Linear layers of 8-bit integers: weights per output, activations per token.
//
//   W[n, k] ≈ c[n]·q[n, k]            q whole, −127..127, made once (quantize_row_of_weights)
//   x[t, k] ≈ l[t] + s[t]·u[t, k]     u whole, 0..255; l and s from the least and the largest of the token's
//                                     inputs that are not exact, and 0
//   y[t, n] = c[n]·(s[t]·Σₖ u·q + l[t]·Σₖ q[n, k]) + Σ_e x[t, e]·W[n, e] + b[n]
//
// Exact columns e: BERT has a few inputs that are a hundred times as large as the others, always the same
// ones. One scale could not serve both, so those inputs, and the weights that meet them, stay fp32, and their
// q is 0. How many there are depends on K alone; which they are is measured (model/quantize.h).
//
// No sum ever saturates. The inner loop of AVX2 adds four products u·q in 16 bits (of k, k + 1, k + 4 and
// k + 5, or of k + 2, k + 3, k + 6 and k + 7), so weights are scaled until Σ|q| ≤ 128 in each such group of
// four: 255·128 = 32,640 < 2¹⁵. In 32 bits K may be 65,536: 255·32·K < 2³¹. So every instruction set gives
// the same integers.
//
// Packing: as in fp32, panels of 32 columns; a panel is rows of 32 places of 4 bytes. First K/4 rows of
// quads, four weights of a column, k to k + 3, in a place; then a row of c, a row of Σ q, and a row of W[:,
// e] for each exact column, in fp32. Behind the last panel the numbers of the exact columns.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/gemm.h"

namespace bertie::kernels {

inline constexpr size_t kMostInt8Inputs = 65536;
inline constexpr size_t kMostExactColumns = 8;
inline constexpr int kMostOfGroup = 128;

inline constexpr size_t exact_columns_for(size_t inputs) {
  return inputs >= 768 ? kMostExactColumns : inputs / 96;
}
// Rows of quads in a panel: whole eights of inputs, the missing ones 0.
inline constexpr size_t int8_steps(size_t inputs) { return (inputs + 7) / 8 * 2; }

// The parts of a packed int8 layer.
struct Int8Layer {
  explicit Int8Layer(const Linear& l)
      : layer(l), steps(int8_steps(l.inputs)), exact(exact_columns_for(l.inputs)) {}

  size_t panel_floats() const { return (steps + 2 + exact) * kPanel; }
  float* panel(size_t p) const { return layer.floats() + p * panel_floats(); }
  // Of panel p, 32 of each.
  int8_t* quads(size_t p) const { return reinterpret_cast<int8_t*>(panel(p)); }
  float* scales(size_t p) const { return panel(p) + steps * kPanel; }
  float* sums(size_t p) const { return scales(p) + kPanel; }
  float* exact_weights(size_t p, size_t e) const { return scales(p) + (2 + e) * kPanel; }
  // Of the layer.
  float& scale(size_t row) const { return scales(row / kPanel)[row % kPanel]; }
  float& exact_weight(size_t row, size_t e) const { return exact_weights(row / kPanel, e)[row % kPanel]; }
  int8_t& weight(size_t row, size_t k) const {
    return quads(row / kPanel)[(k / 4 * kPanel + row % kPanel) * 4 + k % 4];
  }
  std::span<uint32_t> columns() const {
    return {reinterpret_cast<uint32_t*>(panel(panels_for(layer.outputs))), exact};
  }
  size_t bytes() const {
    return panels_for(layer.outputs) * panel_floats() * sizeof(float) + exact * sizeof(uint32_t);
  }

  const Linear& layer;
  size_t steps, exact;
};

// q of one row of weights, and its scale c: the smallest with which no group is too large. Exact columns, in
// ascending order, become 0.
float quantize_row_of_weights(std::span<const float> w, std::span<const uint32_t> columns,
                              std::span<float> q);

// Whether the integers of a row may be multiplied: −127..127, and no group too large.
bool are_int8_weights(std::span<const float> q);

// A token's row for the product: a head of 16 floats (s, l, and the exact inputs), then u, in the places of
// floats.
inline constexpr size_t kInt8Head = 16;
inline constexpr size_t int8_row_floats(size_t inputs) {
  return kInt8Head + (int8_steps(inputs) + 3) / 4 * 4;  // it is written 16 places at a time
}
// x(t, :) as that, into rows of `to`, which are int8_row_floats wide. NaN and Inf make s NaN, unless they are
// in an exact column, from which they come into y by themselves.
void quantize_rows(Matrix<const float> x, const Linear& layer, Matrix<float> to);

// Panels [first, last) of y = f(x·Wᵀ + b) for rows that quantize_rows made. `then`: the panel to fetch after
// them. may_dot: with VNNI where the machine has it; the integers are the same without.
struct Int8Output {
  Matrix<float> y;
  Activation f = Activation::kNone;
};
void int8_panels(Matrix<const float> rows, const Linear& layer, size_t first, size_t last, size_t then,
                 const Int8Output& to, bool may_dot = true);

// Products of bytes on registers and their sums, so many rounds of them, and nothing else: how many
// operations that was. For measuring what a machine can do.
double int8_burst(size_t rounds);

// Whether this machine adds four products in one instruction (VNNI); else it takes five for eight.
bool has_int8_dot_products();

}  // namespace bertie::kernels
