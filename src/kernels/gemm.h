#pragma once
// Linear layers: y = f(x·Wᵀ + b), with W packed once at load.
//
//   x (T,K)   W (N,K) as checkpoints store it   b (N)   y (T,N)          K ≥ 1
//   backward: dx = dy'·W,  dW += dy'ᵀ·x,  db += Σₜ dy',  where dy' = dy·f'(x·Wᵀ + b)
//
// Packing: columns of y in panels of 32. Panel p holds W[32p..32p+31, :] transposed, K rows of 32 floats,
// so the inner loop (tile-inl.h) reads it from front to back. Missing columns of the last panel are 0.
#include <cstddef>
#include <cstdint>
#include <span>

#include "bertie/view.h"
#include "bertie/weight_format.h"
#include "core/bfloat16.h"
#include "core/parallel.h"
#include "kernels/activation.h"
#include "kernels/layer_norm.h"

namespace bertie::kernels {

inline constexpr size_t kPanel = 32;
inline constexpr size_t kSlice = 1024;        // inputs that are summed up in one go
inline constexpr size_t kTileRowsLimit = 14;  // rows that any instruction set's inner loop takes at once

// How products are computed. bf16 rounds both sides to bf16 and sums in fp32, for learning, where that
// precision is enough: twice as many a cycle with AVX512_BF16 (kBFloat16), sixteen times with AMX (kAmx). The
// two sum in different orders.
enum class Products : uint8_t { kFloat32, kBFloat16, kAmx };
// What this machine makes of it: itself, or the next that it has.
Products products_here(Products wanted);
inline bool has_bf16_products() { return products_here(Products::kBFloat16) != Products::kFloat32; }
inline constexpr bool are_bf16(Products products) { return products != Products::kFloat32; }

// Steps of the inner loop for a sum of so many products: of bf16 it adds two at once.
inline constexpr size_t steps_of(size_t inner, Products products) {
  return are_bf16(products) ? (inner + 1) / 2 : inner;
}

inline constexpr size_t panels_for(size_t outputs) { return (outputs + kPanel - 1) / kPanel; }
inline constexpr size_t packed_floats(size_t outputs, size_t inputs) {
  return panels_for(outputs) * kPanel * inputs;
}

// A packed linear layer that somebody else owns. bias has panels·32 values. What kInt8 packs is in int8.h.
struct Linear {
  void* packed = nullptr;  // packed_bytes() of them
  float* bias = nullptr;
  size_t inputs = 0, outputs = 0;
  WeightFormat format = WeightFormat::kFloat32;

  float* floats() const { return static_cast<float*>(packed); }  // of kFloat32
  bool is_int8() const { return format == WeightFormat::kInt8; }
  // Calls use(pointer to the packed numbers), of the type that the format stores: fp32, or bf16, which is
  // widened when a panel comes into the cache.
  decltype(auto) with_numbers(const auto& use) const {
    if (format == WeightFormat::kBFloat16) return use(static_cast<BFloat16*>(packed));
    return use(floats());
  }
  size_t packed_bytes() const;
};

// Packs the rows of w, which are W[first_row.., :], into `packed`, which must start as zeros. For kInt8 w,
// like what comes back, is the integers (int8.h).
void pack_rows(Matrix<const float> w, size_t first_row, const Linear& into);
// The way back: w = W[first_row.., :].
void unpack_rows(const Linear& from, size_t first_row, Matrix<float> w);

// W[row, column].
float weight_at(const Linear& layer, size_t row, size_t column);

// Every row of y depends on the same row of x alone, bit for bit: not on T and not on the team.
// `before`, if not empty, gets x·Wᵀ + b, of which y is f: what the backward pass wants.
void linear_forward(Matrix<const float> x, const Linear& layer, Activation f, Matrix<float> y, Team& team,
                    Matrix<float> before = {}, Products products = Products::kFloat32);

// y = LayerNorm(x·Wᵀ + b + residual): the end of both halves of a transformer layer. Rows are normalized
// while they are still in the cache. y is neither x nor residual. `sum`, if not empty, gets what was
// normalized, x·Wᵀ + b + residual, for models that go on adding to it; it is none of the others.
void linear_residual_layer_norm_forward(Matrix<const float> x, const Linear& layer,
                                        Matrix<const float> residual, const LayerNorm& norm, Matrix<float> y,
                                        Team& team, Matrix<float> sum = {},
                                        Products products = Products::kFloat32);

// The backward pass, for weights in kFloat32, which is what learns; without the activation
// (activation_backward comes before it). Workspaces are floats in somebody else's memory. Sums over tokens
// run in order, so gradients are the same bits for any team.
enum class Accumulate : bool { kNo, kYes };

// dx = dy·W, or dx += dy·W. W is packed anew for it, the other way round.
size_t linear_backward_input_workspace(const Linear& layer);
void linear_backward_input(Matrix<const float> dy, const Linear& layer, Matrix<float> dx, float* workspace,
                           Team& team, Accumulate accumulate = Accumulate::kNo,
                           Products products = Products::kFloat32);

// dW += dyᵀ·x and db += Σₜ dy; `gradient` has the layer's shape and packing.
size_t linear_backward_weights_workspace(const Linear& layer, size_t rows);
void linear_backward_weights(Matrix<const float> x, Matrix<const float> dy, const Linear& gradient,
                             float* workspace, Team& team, Products products = Products::kFloat32);

}  // namespace bertie::kernels
