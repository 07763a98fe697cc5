#pragma once
// One layer in training, in two halves: attention, and the feed-forward network. Each goes forward and keeps
// what the way back needs, and back, where gradients of parameters are added and the state's gradient is
// replaced.
//
//   BERT's order                               norms first (GPT-2), where x = LayerNorm(s)
//     qkv = x·Wqkv + b,  c = attention(qkv)      the same
//     h = LayerNorm₁(x + drop(c·Wo + b))         m = s + drop(c·Wo + b),                  h = LayerNorm₁(m)
//     u = h·Wup + b                              the same
//     y = LayerNorm₂(h + drop(f(u)·Wdown + b))   s' = m + drop(f(u)·Wdown + b),           y = LayerNorm₂(s')
//
// Kept: qkv, c, the logarithms of attention's sums, x̂ and ρ of both norms, u. Not kept: h, f(u) and y, which
// are an elementwise step away from x̂ and u, and masks, which are drawn again.
//
// On the way back, in BERT's order, the gradient of a state x is that of its product plus that of the sum it
// goes into; with norms first the sum's gradient is carried beside: `carry`.
#include <cstdint>
#include <span>
#include <vector>

#include "attention/scaled_dot_product.h"
#include "core/arena.h"
#include "core/parallel.h"
#include "kernels/bf16.h"
#include "kernels/layer_norm.h"
#include "model/weights.h"

namespace bertie {

// What all layers of a pass share.
struct PassShape {
  std::span<const int32_t> offsets;  // of the batch
  size_t hidden, heads, inner;       // inner: the feed-forward network's width
  Look look = {};
  kernels::Activation activation = kernels::Activation::gelu;
  bool norm_first = false;
  // For dropout; without rows there is none.
  std::span<const uint64_t> rows = {};  // each token's number
  uint32_t first_sequence = 0;
  float attention_rate = 0, attention_out_rate = 0, activation_rate = 0, feed_forward_rate = 0;

  size_t tokens() const { return size_t(offsets.back()); }
};

// Each token's number: its sequence's, counted from first_sequence on, and its place there.
void number_rows(std::span<const int32_t> offsets, uint32_t first_sequence, std::vector<uint64_t>& rows);

// The masks of one layer; made from the step's seed and the layer's number.
struct LayerMasks {
  Dropout attention;
  kernels::RowDropout attention_out, activation, feed_forward;
};
LayerMasks masks_for(const PassShape& shape, uint64_t seed, size_t layer);
// The mask of something that is no layer's: embeddings, heads.
kernels::RowDropout mask_for(const PassShape& shape, float rate, uint64_t seed, size_t place);

// What a half of a layer keeps.
struct KeptAttention {
  Matrix<float> qkv, context;  // (T, 3C), (T, C)
  std::span<float> log_sums;   // (T, H)
  kernels::Normalised norm;    // of h
};
struct KeptFeedForward {
  Matrix<float> up;          // u (T, inner)
  kernels::Normalised norm;  // of y
};

// Memory that layers use one after the other.
struct PassScratch {
  Matrix<float> product, more;  // (T, C) each
  Matrix<float> wide;           // (T, max(3C, inner))
  std::byte* attention;         // attention's workspace
  float* backward;              // workspace of products and norms on the way back
  float* rounded = nullptr;     // what products in bf16 round; null: products in fp32
};

size_t attention_workspace(const PassShape& shape, int threads, bool backward);
// The floats that the way back through a layer needs beside that.
size_t backward_workspace(const LayerWeights& layer, size_t tokens);
// Floats for what products in bf16 round.
size_t bf16_workspace(const LayerWeights& layer, size_t tokens);

kernels::Normalised take_normalised(Arena& arena, size_t tokens, size_t width);
KeptAttention take_attention(Arena& arena, const PassShape& shape);
KeptFeedForward take_feed_forward(Arena& arena, const PassShape& shape);
size_t kept_bytes(const PassShape& shape);  // of both halves together

// Back through the norm at a half's end. d, the norm's output's gradient, becomes the sum's; with norms first
// it is `carry` that does. Gives what goes into the half's last product: the sum's gradient, masked.
Matrix<const float> norm_backward(const kernels::Normalised& kept, const kernels::LayerNorm& norm,
                                  const kernels::LayerNorm& gradient, const kernels::RowDropout& mask,
                                  Matrix<float> d, Matrix<float> carry, const PassScratch& scratch,
                                  Team& team);

// One layer of a pass.
struct LayerPass {
  const PassShape& shape;
  const LayerWeights& w;
  const LayerWeights& gradient;  // added to on the way back
  float scale;                   // of attention's scores
  LayerMasks masks;
  const PassScratch& scratch;
  Team& team;

  // h from x. `sum` is what attention's output is added to: x, or with norms first the stream of sums, which
  // becomes m. h may be x in neither case.
  void attend(Matrix<const float> x, Matrix<float> sum, const KeptAttention& kept, Matrix<float> h) const;
  // y from h; `sum` as before. y may be h's or x's memory.
  void feed_forward(Matrix<const float> h, Matrix<float> sum, const KeptFeedForward& kept,
                    Matrix<float> y) const;

  // d: the gradient of y, becomes that of h. carry: with norms first the gradient of s' and then of m, else
  // empty. kept.up is used up. h may be scratch.more.
  void feed_back(Matrix<const float> h, const KeptFeedForward& kept, Matrix<float> d,
                 Matrix<float> carry) const;
  // d: the gradient of h, becomes that of x. carry: of m, then of s.
  void attend_back(Matrix<const float> x, const KeptAttention& kept, Matrix<float> d,
                   Matrix<float> carry) const;
};

}  // namespace bertie
