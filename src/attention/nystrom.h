#pragma once
// Nyström attention (Xiong et al. 2021). For every sequence and head, with L = min(landmarks, n, m):
//
//   Q̃, K̃ (L, D)  means of L segments of the queries and keys: segment l is rows l·n/L .. (l+1)·n/L − 1
//   A = softmax(scale·Q·K̃ᵀ) (n, L)    B = softmax(scale·Q̃·K̃ᵀ) (L, L)    C = softmax(scale·Q̃·Kᵀ) (L, m)
//   Y = C·V,  X = Z·Y,  out = A·X;   Z ≈ B⁺ by iteration (pseudo_inverse.h)
//
//   backward: dQ, dK̃, dX from dout as in scaled_dot_product.h (queries Q, keys K̃, values X)
//             dZ = dX·Yᵀ,  dY = Zᵀ·dX,  dB from dZ
//             dQ̃, dK, dV from dY as in scaled_dot_product.h (queries Q̃, keys K, values V)
//             dS = B∘(dB − rowsum(dB∘B)),  dQ̃ += scale·dS·K̃,  dK̃ += scale·dSᵀ·Q̃
//             every row of Q gets its share of dQ̃, 1/(rows of its segment); likewise K
//   saved: nothing; all is computed again.
#include "attention/batch.h"
#include "attention/workspace.h"
#include "bertie/view.h"

namespace bertie::nystrom {

// batch.look is full, and there is no dropout.
void forward(const AttentionBatch& batch, const Compute& compute, Matrix<float> out, Workspace::Parts& parts);

void backward(const AttentionBatch& batch, const Compute& compute, Matrix<const float> out,
              Matrix<const float> d_out, const AttentionGradients& gradients, Workspace::Parts& parts);

}  // namespace bertie::nystrom
