#pragma once
// What an optimiser does to a run of parameters p with gradients g and moments m, v, all the same length.
//
//   g' = g·scale                                   (scale: the clip of the global norm, 1 where there is
//   none) m = β₁·m + (1 − β₁)·g',   v = β₂·v + (1 − β₂)·g'² u = (m·c₁)/(√(v·c₂) + eps) + decay·p           c₁
//   = 1/(1 − β₁ᵗ), c₂ = 1/(1 − β₂ᵗ), or 1 without correction Adam:  p −= rate·u          LAMB:  p −=
//   rate·|p|/|u|·u, norms over the tensor (1 where either is 0)
//
// With PyTorch's AdamW the decay is taken off first, p·(1 − rate·decay), which is the same sum in another
// order: this does it as PyTorch does.
#include <cstddef>
#include <span>

#include "core/parallel.h"

namespace bertie::kernels {

struct AdamStep {
  float rate = 0, beta1 = 0.9f, beta2 = 0.999f, eps = 1e-6f, decay = 0;
  float correction1 = 1, correction2 = 1;  // c₁, c₂
  float scale = 1;                         // of the gradients
};

void adam_update(const AdamStep& step, std::span<float> p, std::span<const float> g, std::span<float> m,
                 std::span<float> v, Team& team);
// One tensor.
void lamb_update(const AdamStep& step, std::span<float> p, std::span<const float> g, std::span<float> m,
                 std::span<float> v, Team& team);

// Σ x², in double, in an order that does not depend on the team; NaN or Inf where x has one.
double sum_of_squares(std::span<const float> x, Team& team);

}  // namespace bertie::kernels
