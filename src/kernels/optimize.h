#pragma once
// What an optimizer does to a run of parameters p with gradients g and moments m, v, all of one length.
//
//   g' = g·scale                  scale: the clip of the global norm, 1 where there is none
//   m  = β₁·m + (1 − β₁)·g'
//   v  = β₂·v + (1 − β₂)·g'²
//   a  = (m·c₁) / (√(v·c₂) + eps)        c₁ = 1/(1 − β₁ᵗ), c₂ = 1/(1 − β₂ᵗ), or 1 without correction
//
//   Adam:  p = p·(1 − rate·decay) − rate·a
//   LAMB:  p = p − rate·(|p|/|u|)·u,     u = a + decay·p,  norms over the tensor (ratio 1 where either is 0)
//
// Rounding follows PyTorch's AdamW: what does not depend on the element is computed in double and rounded
// once, and m is moved by (1 − β₁)·(g' − m).
//
// Memory is what an update waits for, so everything happens in one pass, and the gradients are 0 after it:
// the next step adds to them. Results are the same bits for any team.
#include <cstddef>
#include <span>

#include "core/parallel.h"

namespace bertie::kernels {

struct AdamStep {
  double rate = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, decay = 0;
  double correction1 = 1, correction2 = 1;  // c₁, c₂
  double scale = 1;                         // of the gradients
};

void adam_update(const AdamStep& step, std::span<float> p, std::span<float> g, std::span<float> m,
                 std::span<float> v, Team& team);
// One tensor.
void lamb_update(const AdamStep& step, std::span<float> p, std::span<float> g, std::span<float> m,
                 std::span<float> v, Team& team);

// mean += share·(p − mean): a running mean of the parameters.
void move_mean(float share, std::span<const float> p, std::span<float> mean, Team& team);

// Σ x², in double, in an order that does not depend on the team; NaN or Inf where x has one.
double sum_of_squares(std::span<const float> x, Team& team);

void clear(std::span<float> x, Team& team);  // to 0

}  // namespace bertie::kernels
