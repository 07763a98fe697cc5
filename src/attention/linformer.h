#pragma once
// Linformer (Wang et al. 2020): every sequence's keys and values are projected to R rows. E, F (R, N) are
// shared by the heads; a sequence of m ≤ N keys uses their first m columns:
//
//   K' = E·K (R, H·D),  V' = F·V (R, H·Dv),  out = softmax(scale·Q·K'ᵀ)·V'    by heads
//   backward: dQ, dK', dV' as in scaled_dot_product.h;  dK = Eᵀ·dK',  dE += dK'·Kᵀ,  dV and dF likewise
//   saved: nothing; K', V' and the softmax's sums are computed again.
#include "attention/batch.h"
#include "attention/workspace.h"
#include "bertie/view.h"

namespace bertie::linformer {

// compute.e, compute.f: E and F. batch.look is full, and there is no dropout.
void forward(const AttentionBatch& batch, const Compute& compute, Matrix<float> out, Workspace::Parts& parts);

void backward(const AttentionBatch& batch, const Compute& compute, Matrix<const float> out,
              Matrix<const float> d_out, const AttentionGradients& gradients, Workspace::Parts& parts);

}  // namespace bertie::linformer
