#pragma once
// Scaled dot-product attention on packed batches. For every sequence and head
//
//   S = scale·Q·Kᵀ,   W = softmax(S) by rows,   O = W·V
//   backward, from saved W:  dV = Wᵀ·dO,  dW = dO·Vᵀ,  dS = W∘(dW − rowsum(dW∘W)),  dQ = scale·dS·K,
//   dK = scale·dSᵀ·Q;  from saved (O, m, l) the rows of W are computed again: W = e^(S − m)/l and
//   rowsum(dW∘W) = dO·O.
//
// One kernel, two ways to compute:
//   exact   whole rows of S; the weights are returned.
//   tiled   blocks of 512 keys with a running maximum m and sum l (online softmax): memory O(n).
//
// An output row depends on its own query and its sequence's keys and values alone, bit for bit.
#include <cstdint>
#include <span>

#include "bertie/view.h"
#include "core/arena.h"
#include "core/parallel.h"

namespace bertie::dot_product {

// Sequence s owns rows q_offsets[s] .. q_offsets[s+1]-1 of q and out, and k_offsets[s].. of k and v.
struct Batch {
  Matrix<const float> q = {}, k = {}, v = {};  // (Tq, H·D), (Tk, H·D), (Tk, H·Dv)
  std::span<const int32_t> q_offsets, k_offsets;
  size_t heads = 1;
  float scale = 1;

  size_t sequences() const { return q_offsets.size() - 1; }
  size_t queries(size_t s) const { return size_t(q_offsets[s + 1] - q_offsets[s]); }
  size_t keys(size_t s) const { return size_t(k_offsets[s + 1] - k_offsets[s]); }
  size_t head_size() const { return q.cols() / heads; }
  size_t value_size() const { return v.cols() / heads; }
};

// Floats that the weights of all sequences take: Σₛ H·n·m. Those of sequence s begin at the sum before it,
// as (H, n, m).
size_t weights_size(const Batch& batch);

// Scratch memory that a call needs, for all of the team.
size_t workspace_bytes(const Batch& batch, bool exact, int threads);

// weights.size() == weights_size(batch). workspace has workspace_bytes.
void exact(const Batch& batch, Matrix<float> out, std::span<float> weights, std::byte* workspace, Team& team);
void tiled(const Batch& batch, Matrix<float> out, std::byte* workspace, Team& team);

}  // namespace bertie::dot_product
