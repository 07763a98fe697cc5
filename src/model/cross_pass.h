#pragma once
// A decoder's look across in training, forward and back; beside layer_pass.h, whose two halves stand before
// and after it.
//
//   q = a·Wq + b,  k, v = M·Wkv + b,  o = attention(q, k, v)       M: what the encoder made of the source
//   c = LayerNorm(a + drop(o·Wo + b))
//
// On the way back a's gradient takes the place of c's, and M's is added to: every layer looks at M.
#include <cstdint>
#include <span>

#include "model/layer_pass.h"
#include "model/transformer_weights.h"

namespace bertie {

struct KeptCross {
  Matrix<float> query, key_value, context;  // (T, C), (Ts, 2C), (T, C)
  std::span<float> log_sums;                // (T, H)
  kernels::Normalised norm;                 // of c
};

// The decoder's shape, whose own look does not matter here, and the sources' offsets.
struct CrossShape {
  const PassShape& target;
  std::span<const int32_t> source_offsets;
  size_t source_tokens() const { return size_t(source_offsets.back()); }
};

KeptCross take_cross(Arena& arena, const CrossShape& shape);
size_t kept_bytes(const CrossShape& shape);
size_t attention_workspace(const CrossShape& shape, int threads, bool backward);
size_t backward_workspace(const CrossWeights& w, const CrossShape& shape);
size_t bf16_workspace(const CrossWeights& w, const CrossShape& shape);

// What goes back: d, the gradient of c, becomes a's; d_memory is added to; d_key_value (Ts, 2C) is scratch.
struct CrossGradients {
  Matrix<float> d, d_memory, d_key_value;
};

// One layer's look across. Of the masks those of attention and attention_out are looked at.
struct CrossPass {
  CrossShape shape;
  const CrossWeights& w;
  const CrossWeights& gradient;
  LayerMasks masks;
  const PassScratch& scratch;
  Team& team;

  // c from a and M.
  void attend(Matrix<const float> a, Matrix<const float> memory, const KeptCross& kept,
              Matrix<float> c) const;
  void attend_back(Matrix<const float> a, Matrix<const float> memory, const KeptCross& kept,
                   const CrossGradients& to) const;
};

}  // namespace bertie
