#pragma once
// Layer normalisation, alone and with the residual connection in front of it.
//
//   s = x + r,   y = (s − μ)·ρ·γ + β,   μ = mean(s),  ρ = 1/√(mean((s − μ)²) + eps)        per row
//   backward, with x̂ = (s − μ)·ρ and g = dy·γ, saved: s, μ, ρ
//     ds = ρ·(g − mean(g) − x̂·mean(g·x̂)),   dγ += Σₜ dy·x̂,   dβ += Σₜ dy
//
// The sums run in a fixed order that depends on the row's length only.
#include <span>

#include "bertie/view.h"
#include "core/parallel.h"

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

}  // namespace bertie::kernels
