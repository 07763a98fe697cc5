#pragma once
// Scaled dot-product attention on packed batches. For every sequence and head
//
//   S = scale·Q·Kᵀ,   W = softmax(S) by rows,   O = W·V
//   backward:  dV = Wᵀ·dO,  dW = dO·Vᵀ,  dS = W∘(dW − rowsum(dW∘W)),  dQ = scale·dS·K,  dK = scale·dSᵀ·Q
//   saved: the logarithm of each row's sum, of which W is computed again; rowsum(dW∘W) = rowsum(dO∘O).
//
// One kernel, two ways to compute:
//   exact   whole rows of S; the weights are returned.
//   tiled   blocks of 512 keys with a running maximum and sum (online softmax). Beside inputs and output a
//           worker needs a packed copy of one head's keys and values.
//
// An output row depends on its own query and its sequence's keys and values alone, bit for bit.
#include <cstdint>
#include <span>

#include "attention/batch.h"
#include "bertie/view.h"
#include "core/arena.h"
#include "core/parallel.h"

namespace bertie::dot_product {

// Floats that the weights of all sequences take: Σₛ H·n·m. Those of sequence s begin at the sum before it,
// as (H, n, m).
size_t weights_size(const AttentionBatch& batch);

// Scratch memory that a call needs, for all of the team.
size_t workspace_bytes(const AttentionBatch& batch, bool exact, int threads);

// weights.size() == weights_size(batch). workspace has workspace_bytes.
void exact(const AttentionBatch& batch, Matrix<float> out, std::span<float> weights, std::byte* workspace,
           Team& team);

// log_sums is (Tq, H) for the backward pass, or empty.
void tiled(const AttentionBatch& batch, Matrix<float> out, std::span<float> log_sums, std::byte* workspace,
           Team& team);

// Where gradients go. q, k, v are assigned; the others are added to, or empty.
struct Gradients {
  Matrix<float> q, k, v;
  Matrix<float> additive = {};
  std::span<float> spans = {};
};

size_t backward_workspace_bytes(const AttentionBatch& batch, int threads);
void backward(const AttentionBatch& batch, Matrix<const float> out, std::span<const float> log_sums,
              Matrix<const float> d_out, const Gradients& gradients, std::byte* workspace, Team& team);

}  // namespace bertie::dot_product
