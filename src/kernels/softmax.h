#pragma once
// y[j] = e^(x[j] − m)/Σᵢ e^(x[i] − m),  m = max x                      in place
// backward, from the saved y: dx[j] = y[j]·(dy[j] − Σᵢ dy[i]·y[i])
//
// An empty row stays empty. Any NaN, or a +Inf, makes the whole row NaN; −Inf has weight 0, and a row
// of nothing but −Inf is NaN.
#include <span>

namespace bertie::kernels {

void softmax_forward(std::span<float> x);

}  // namespace bertie::kernels
