#pragma once
// Linear layers: y = f(x·Wᵀ + b), with W packed once at load.
//
//   x (T,K)   W (N,K) as checkpoints store it   b (N)   y (T,N)          K ≥ 1
//   backward: dx = dy'·W,  dW += dy'ᵀ·x,  db += Σₜ dy',  where dy' = dy·f'(x·Wᵀ + b)
//
// Packing: columns of y in panels of 32. Panel p holds W[32p..32p+31, :] transposed, K rows of 32 floats,
// so the inner loop (tile-inl.h) reads it from front to back. Missing columns of the last panel are 0.
#include <cstddef>
#include <span>

#include "bertie/view.h"
#include "core/parallel.h"
#include "kernels/activation.h"
#include "kernels/layer_norm.h"

namespace bertie::kernels {

inline constexpr size_t kPanel = 32;
inline constexpr size_t kSlice = 1024;        // inputs that are summed up in one go
inline constexpr size_t kTileRowsLimit = 14;  // rows that any instruction set's inner loop takes at once

inline constexpr size_t panels_for(size_t outputs) { return (outputs + kPanel - 1) / kPanel; }
inline constexpr size_t packed_floats(size_t outputs, size_t inputs) {
  return panels_for(outputs) * kPanel * inputs;
}

// A packed linear layer that somebody else owns. bias has panels·32 values.
struct Linear {
  float* packed = nullptr;
  float* bias = nullptr;
  size_t inputs = 0, outputs = 0;
};

// Packs the rows of w, which are W[first_row.., :], into `packed`, which must start as zeros.
void pack_rows(Matrix<const float> w, size_t first_row, const Linear& into);
// The way back: w = W[first_row.., :].
void unpack_rows(const Linear& from, size_t first_row, Matrix<float> w);

// Every row of y depends on the same row of x alone, bit for bit: not on T and not on the team.
void linear_forward(Matrix<const float> x, const Linear& layer, Activation f, Matrix<float> y, Team& team);

// y = LayerNorm(x·Wᵀ + b + residual): the end of both halves of a transformer layer. Rows are normalised
// while they are still in the cache. y is neither x nor residual. `sum`, if not empty, gets what was
// normalised, x·Wᵀ + b + residual, for models that go on adding to it; it is none of the others.
void linear_residual_layer_norm_forward(Matrix<const float> x, const Linear& layer,
                                        Matrix<const float> residual, const LayerNorm& norm, Matrix<float> y,
                                        Team& team, Matrix<float> sum = {});

}  // namespace bertie::kernels
