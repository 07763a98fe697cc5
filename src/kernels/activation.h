#pragma once
// The feed-forward network's nonlinearities, by the names that config.json uses.
//
//   gelu       x·Φ(x) = x/2·(1 + erf(x/√2))                      BERT's own
//   gelu_tanh  x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))          "gelu_new", "gelu_pytorch_tanh"
//   relu       max(x, 0)
//   silu       x/(1 + e⁻ˣ)                                       "swish"
//   tanh       the pooler's
//
// Backward: dx = dy·f'(x), from the saved input x.
#include <cstddef>
#include <string_view>

#include "bertie/view.h"
#include "core/parallel.h"

namespace bertie::kernels {

enum class Activation { kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh };

// y = f(x), elementwise and in place. NaN stays NaN; ±Inf gives the limit to within 1e-6.
void activation_forward(Activation f, std::span<float> x);

// dy becomes dx = dy·f'(x). `y`, if not empty, gets f(x) once more, for the layer after, whose input was
// not kept; it may be x itself.
void activation_backward(Activation f, Matrix<const float> x, Matrix<float> dy, Matrix<float> y, Team& team);

}  // namespace bertie::kernels
