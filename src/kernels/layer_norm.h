#pragma once
// Layer normalization, alone and with the residual connection in front of it.
//
//   s = x + r,   y = x̂·γ + β,   x̂ = (s − μ)·ρ,   μ = mean(s),  ρ = 1/√(mean((s − μ)²) + eps)      per row
//   backward, with g = dy·γ, saved: x̂, ρ
//     ds = ρ·(g − mean(g) − x̂·mean(g·x̂)),   dγ += Σₜ dy·x̂,   dβ += Σₜ dy
//   for training x may be dropped out first: s = x∘mask + r, and dx = ds∘mask
//
// The sums run in a fixed order that depends on the row's length only.
#include <span>

#include "bertie/view.h"
#include "core/parallel.h"
#include "kernels/dropout.h"

namespace bertie::kernels {

struct LayerNorm {
  float* gamma = nullptr;
  float* beta = nullptr;
  float eps = 1e-12f;
};

// y = LayerNorm(x); y may be x.
void layer_norm_forward(Matrix<const float> x, const LayerNorm& norm, Matrix<float> y, Team& team);
// y = LayerNorm(x + residual); y may be x or residual.
void residual_layer_norm_forward(Matrix<const float> x, Matrix<const float> residual, const LayerNorm& norm,
                                 Matrix<float> y, Team& team);

// What the backward pass needs of a forward pass: x̂ (T, C) and ρ (T).
struct Normalized {
  Matrix<float> x;
  std::span<float> rho;
};

// For training: s = dropout(x) + residual (empty: none), y = LayerNorm(s). `sum`, if not empty, gets s (it
// may be x or residual). y may be x or residual or empty (then normalized_output gives it later).
void layer_norm_training_forward(Matrix<const float> x, const RowDropout& dropout,
                                 Matrix<const float> residual, const LayerNorm& norm, Matrix<float> sum,
                                 const Normalized& saved, Matrix<float> y, Team& team);

// y = x̂·γ + β once more.
void normalized_output(Matrix<const float> normalized, const LayerNorm& norm, Matrix<float> y, Team& team);

// ds = the gradient of s, plus `carry` if that is not empty (what else looked at s); ds may be dy or carry.
// dx = ds∘mask, if not empty; only asked for where dropout.rate > 0. gradient's gamma and beta are added to.
size_t layer_norm_backward_workspace(size_t rows, size_t cols);  // floats
void layer_norm_training_backward(Matrix<const float> dy, const Normalized& saved, const LayerNorm& norm,
                                  Matrix<const float> carry, const RowDropout& dropout, Matrix<float> ds,
                                  Matrix<float> dx, const LayerNorm& gradient, float* workspace, Team& team);

}  // namespace bertie::kernels
