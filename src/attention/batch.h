#pragma once
// What every mechanism computes on: a packed batch whose shapes have been checked.
#include <cstdint>
#include <span>

#include "bertie/attention.h"
#include "bertie/view.h"

namespace bertie {

// Sequence s owns rows q_offsets[s] .. q_offsets[s+1]-1 of q and out, and k_offsets[s].. of k and v.
struct AttentionBatch {
  Matrix<const float> q = {}, k = {}, v = {};  // (Tq, H·D), (Tk, H·D), (Tk, H·Dv)
  std::span<const int32_t> q_offsets, k_offsets;
  size_t heads = 1;
  float scale = 1;
  Look look = {};
  Dropout dropout = {};
  uint32_t first_sequence = 0;  // the first sequence's number, as dropout counts them
  Matrix<const float> additive =
      {};  // (H, A): the score is Σₐ additive[a]·tanh(q[a] + k[a]); empty: q·k·scale

  size_t sequences() const { return q_offsets.size() - 1; }
  size_t queries(size_t s) const { return size_t(q_offsets[s + 1] - q_offsets[s]); }
  size_t keys(size_t s) const { return size_t(k_offsets[s + 1] - k_offsets[s]); }
  size_t head_size() const { return q.cols() / heads; }
  size_t value_size() const { return v.cols() / heads; }
};

}  // namespace bertie
