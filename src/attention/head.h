#pragma once
// One head of one sequence: what a kernel of dot-product attention is given.
#include <span>

#include "attention/batch.h"
#include "attention/dropout.h"
#include "attention/look.h"
#include "kernels/gemm.h"

namespace bertie::dot_product {

using kernels::kPanel;
inline constexpr float kLog2e = 1.44269504f;

struct Head {
  Matrix<const float> q, k, v;  // (n, D), (m, D), (m, Dv)
  std::span<const float> additive;
  float scale;
  Dropout dropout;
  uint32_t drop_below;  // 0: no dropout
  float growth;         // of the weights that are kept
  size_t sequence, head;

  // What q is multiplied with when it is packed: scores come out in powers of two.
  float packed_scale() const { return additive.empty() ? scale * kLog2e : 1.0f; }
};

inline Head head_of(const AttentionBatch& b, size_t s, size_t h) {
  const size_t d = b.head_size(), dv = b.value_size(), n = b.queries(s), m = b.keys(s);
  const size_t q0 = size_t(b.q_offsets[s]), k0 = size_t(b.k_offsets[s]);
  const uint32_t drop_below = dropout_threshold(b.dropout.rate);
  return {.q = b.q.slice_rows(q0, n).slice_cols(h * d, d),
          .k = b.k.slice_rows(k0, m).slice_cols(h * d, d),
          .v = b.v.slice_rows(k0, m).slice_cols(h * dv, dv),
          .additive = b.additive.empty() ? std::span<const float>() : b.additive[h],
          .scale = b.scale,
          .dropout = b.dropout,
          .drop_below = drop_below,
          .growth = float(dropout_growth(drop_below)),
          .sequence = s,
          .head = h};
}

inline Pattern pattern_of(const AttentionBatch& b, size_t s, size_t h) {
  return {b.look, h, size_t(b.q_offsets[s]), b.queries(s), b.keys(s)};
}

}  // namespace bertie::dot_product
