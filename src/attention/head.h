#pragma once
// One head of one sequence: what a kernel of dot-product attention is given.
#include <cmath>
#include <span>

#include "attention/batch.h"
#include "attention/dropout.h"
#include "attention/look.h"
#include "core/arena.h"
#include "kernels/gemm.h"

namespace bertie::dot_product {

using kernels::kPanel;
inline constexpr float kLog2e = 1.44269504f;

struct AttentionHead {
  Matrix<const float> q, k, v;  // (n, D), (m, D), (m, Dv)
  std::span<const float> additive;
  float scale;
  Dropout dropout;
  uint32_t drop_below;  // 0: no dropout
  float growth;         // of the weights that are kept
  size_t sequence, head;

  // What k is multiplied with when it is packed: scores come out in powers of two.
  float packed_scale() const { return additive.empty() ? scale * kLog2e : 1.0f; }

  // Times a key's norm in PackedHead, it bounds the scores of a query of this norm.
  float score_bound(float query_norm) const {
    if (additive.empty()) return query_norm;
    float bound = 0;
    for (float u : additive) bound += std::abs(u) * kLog2e;
    return bound;
  }
};

inline AttentionHead head_of(const AttentionBatch& b, size_t s, size_t h) {
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
          .sequence = b.first_sequence + s,
          .head = h};
}

inline Pattern pattern_of(const AttentionBatch& b, size_t s, size_t h) {
  return {b.look, h, size_t(b.q_offsets[s]), b.queries(s), b.keys(s)};
}

// A head's keys and values as the products take them.
struct PackedHead {
  float* k;          // panels of 32 keys, each (D, 32): Kᵀ, scaled
  float* v;          // panels of 32 columns, each (rows, 32)
  float* norms;      // (rows): |k|, scaled, Inf if it is NaN: |q|·|k| bounds a score; additive scores: 1
  float* top_norms;  // for each panel of keys: the largest
  uint8_t* state;    // for each panel of keys
  size_t rows;       // keys rounded up to whole panels

  enum State : uint8_t {
    kNotPacked,
    kPacked,
    kNotFinite,  // packed, but not all values are finite
  };
};

// Lays parts out one after the other, each on its own cache line; with no memory it only counts.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  void take(T*& part, size_t count) {
    part = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += Arena::bytes_for<T>(count);
  }
  size_t used() const { return used_; }

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

}  // namespace bertie::dot_product
