#pragma once
// Attention in linear time (Katharopoulos et al. 2020; Performer, Choromanski et al. 2021): a feature map φ
// (features.h) in place of the softmax. For every sequence and head, row i sees keys j < visible(i):
//
//   P_ij = φ(q_i)·φ(k_j),   d_i = Σ_j P_ij,   out_i = Σ_j P_ij·v_j / d_i          d_i = 0: out_i = 0
//
// Sums over keys go first: with v'_j = [v_j, 1] and the state W = Σ_j v'_jᵀ·φ(k_j), one row for every column
// of v', [out_i·d_i, d_i] = φ(q_i)·Wᵀ. Time and memory grow with n + m.
//
//   backward: dN_i = dout_i/d_i,  dd_i = −(dout_i·out_i)/d_i,  n'_i = [dN_i, dd_i]  (0 where d_i = 0)
//             dP_ij = n'_i·v'_j,  dφ(q_i) = Σ_j dP_ij·φ(k_j) = n'_i·W
//             with T = Σ_i n'_iᵀ·φ(q_i):  dφ(k_j) = v'_j·T,  dv_j = φ(k_j)·Tᵀ without its last column
//   saved: nothing; d is computed again.
//
// Full attention: visible(i) = m, one state for all. Causal: visible(i) = i + 1, or i + 1 + m − n with
// queries_at_end. Then queries go in blocks: W holds the keys that all of a block's queries see; what is
// left are fewer keys than the block is long, and for those P itself is computed. The other way, T holds the
// queries of all later blocks.
//
// A sum over a sequence is the sum, in order, of sums over segments of 4096: so segments can go to different
// threads, and the bits do not depend on it. A row depends on its query and the keys it sees alone, bit for
// bit, also when other keys hold NaN.
#include "attention/batch.h"
#include "attention/features.h"
#include "attention/workspace.h"
#include "bertie/view.h"

namespace bertie::linear_attention {

// compute is Compute::linear or Compute::performer; batch.look is full or causal.
void forward(const AttentionBatch& batch, const Compute& compute, Matrix<float> out, Workspace::Parts& parts);

// out is forward's.
void backward(const AttentionBatch& batch, const Compute& compute, Matrix<const float> out,
              Matrix<const float> d_out, const AttentionGradients& gradients, Workspace::Parts& parts);

}  // namespace bertie::linear_attention
