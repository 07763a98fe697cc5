#pragma once
// One layer of a Transformer, forward and back: attention, in a decoder attention over the encoder's states,
// and the feed-forward network.
//
//   BERT's order                               norms first (GPT-2), where x = LayerNorm(s)
//     qkv = x·Wqkv + b,  c = attention(qkv)      the same
//     h = LayerNorm₁(x + drop(c·Wo + b))         m = s + drop(c·Wo + b),          h = LayerNorm₁(m)
//     in a decoder, M being the encoder's states:
//       q = h·Wq + b,  k, v = M·Wkv + b,  c = attention(q, k, v),  h ← LayerNorm(h + drop(c·Wo + b))
//     u = h·Wup + b                              the same
//     y = LayerNorm₂(h + drop(f(u)·Wdown + b))   s' = m + drop(f(u)·Wdown + b),   y = LayerNorm₂(s')
//
// The backward pass needs qkv, c, the logarithms of attention's sums, x̂ and ρ of the norms, and u. It does
// not need h, f(u) and y, which are an elementwise step away from x̂ and u, nor masks, which are drawn again.
//
// Of the last layer only some rows may be wanted, those that heads read: [CLS], or masked tokens. Attention
// still goes over all; behind it, states are (W, C), one row for each that is wanted.
//
// Backward, in BERT's order: the gradient of a state x is that of its product plus that of the sum it goes
// into. With norms first the sum's gradient is carried beside it: `carry`.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bertie/config.h"
#include "kernels/dropout.h"
#include "kernels/gemm.h"
#include "model/cache.h"
#include "model/pass.h"

namespace bertie {

// A decoder's attention over the encoder's states.
struct CrossWeights {
  kernels::Linear query;      // of the decoder's states
  kernels::Linear key_value;  // of the encoder's, as one product: 2·C outputs
  kernels::Linear out;
  kernels::LayerNorm norm;
};

// What a mechanism of attention learns besides the projections; null where it has none.
struct MechanismWeights {
  float* spans = nullptr;                            // Look::adaptive_span: (H), shares of the largest span
  float* w = nullptr;                                // Score::general: (H·D, D)
  float *w1 = nullptr, *w2 = nullptr, *v = nullptr;  // Score::additive: (H·A, D), (H·A, D), (H, A)
  float *e = nullptr, *f = nullptr;                  // Compute::linformer: (R, positions)
};

struct LayerWeights {
  kernels::Linear qkv;            // queries, keys and values as one product: 3·A outputs
  kernels::Linear attention_out;  // W^O
  kernels::LayerNorm attention_norm;
  MechanismWeights mechanism;
  CrossWeights cross;        // of a decoder's layer; else without outputs
  kernels::Linear up, down;  // the feed-forward network: C → inner → C
  kernels::LayerNorm output_norm;

  bool has_cross() const { return cross.query.outputs > 0; }
};

struct DropoutRates {
  float attention = 0, attention_out = 0, activation = 0, feed_forward = 0, embedding = 0;
};

inline constexpr size_t kMostHeads = 4096;

// What all layers of a stack have in common.
struct LayerShape {
  size_t hidden = 0, heads = 0, inner = 0;  // inner: the feed-forward network's width
  size_t positions = 0;                     // the longest sequence
  kernels::Activation activation = kernels::Activation::kGelu;
  bool norm_first = false;
  AttentionConfig attention = {};
  DropoutRates dropout = {};
};

// Which numbers are dropped out: decided by a seed and each token's number, so that masks do not depend on
// how a step is cut into micro-batches and ranks. Empty rows: nothing is dropped.
struct DropoutSeed {
  uint64_t seed = 0;
  std::span<const uint64_t> rows = {};  // each token's number: its sequence's, and its place there
  uint32_t first_sequence = 0;
};
// Each token's number, sequences counted from first_sequence on.
void number_rows(std::span<const int32_t> offsets, uint32_t first_sequence, std::vector<uint64_t>& rows);
// The mask of something that is no layer's: embeddings (place 0, a decoder's 1), heads.
kernels::RowDropout mask_for(const DropoutSeed& dropout, float rate, size_t place);

// What a layer keeps for its backward pass.
struct KeptAttention {
  // Of cross-attention (T, C), (Ts, 2C), (T, C). Of self-attention, A being its width, C where no head was
  // pruned, query holds keys and values too: (T, 3A), -, (T, A).
  Matrix<float> query, key_value, context;
  std::span<float> log_sums;  // (T, H)
  kernels::Normalized norm;
};
struct KeptLayer {
  KeptAttention attention, cross;
  Matrix<float> up;          // u (T, inner)
  kernels::Normalized norm;  // of y
  Matrix<float> sum;         // norms first, recomputing: s as it comes into the layer
};

// The states of a layer, (T, C) each: it reads x and leaves y, which may be x; h is behind its attention, c
// behind its cross-attention (without one, c is h). Where norms come first, layers add to something else:
// sum, between a layer's halves middle, and at its end next_sum, which may be sum.
struct LayerStates {
  Matrix<float> x, y, h, c, sum = {}, middle = {}, next_sum = {};
};

// What a decoder's layer looks at: the encoder's states, or their keys and values where they were computed
// before.
struct CrossInput {
  Matrix<const float> states = {};                    // (Ts, C)
  std::optional<Matrix<const float>> key_value = {};  // (Ts, 2C)
  std::span<const int32_t> offsets = {};              // of the sources
};

// Where attention's weights go if they are wanted: (H, n, m) for each sequence; else empty.
struct AttentionRoom {
  std::span<float> self = {}, cross = {};
};

// One layer of a pass.
struct Layer {
  const LayerShape& shape;
  const LayerWeights& w;
  size_t number;                     // of the layer, from 0
  float scale;                       // of attention's scores
  std::span<const int32_t> offsets;  // of the batch
  CrossInput source = {};
  DropoutSeed dropout = {};              // rows: those that are wanted
  std::span<const int32_t> wanted = {};  // rows of the batch, ascending; empty: all
  std::span<const size_t> off = {};      // heads of its self-attention whose output is zero
  size_t place = 0, cross_place = 0;     // tell the masks of layers apart
  KeyValues* cache = nullptr;
  Pass& pass;

  // What its heads give, all of them together, and how many it has: fewer than others where some were pruned.
  size_t width() const { return w.attention_out.inputs; }
  size_t heads() const { return width() / (shape.hidden / shape.heads); }

  // Memory for what a layer keeps.
  KeptLayer take_kept() const;
  // States as they are behind attention: the rows that are wanted come first.
  Matrix<float> narrowed(Matrix<float> states) const;
  LayerStates narrowed(const LayerStates& states) const;
  KeptLayer narrowed(KeptLayer kept) const;

  // y from x. Without `kept` nothing is kept for a way back. Weights of attention go to `weights`, where
  // there is room for them.
  void forward(const LayerStates& states, const KeptLayer* kept, const AttentionRoom& weights) const;

  // d: the gradient of y, becomes that of x. carry: with norms first the gradient of s', becomes that of s;
  // else empty. d_source: the gradient of the encoder's states, is added to. states.x is what the layer had
  // read; kept.up is used up. `recompute`: of `kept` only norm and sum are there, the rest is computed again.
  // Where only some rows are wanted, the gradients of y and s' are the first W rows.
  struct Gradients {
    const LayerWeights& w;  // added to
    Matrix<float> d, carry = {}, d_source = {};
    // Told of the gradient of what the heads gave, if there.
    std::function<void(Matrix<const float> d_context)> on_context = {};
  };
  void backward(const LayerStates& states, const KeptLayer& kept, const Gradients& to, bool recompute) const;

 private:
  size_t rows_behind() const { return wanted.empty() ? size_t(offsets.back()) : wanted.size(); }
  Matrix<const float> behind(Matrix<const float> all) const;
  void widen(Matrix<float> gradient) const;
  struct Masks {
    Dropout attention;
    kernels::RowDropout attention_out, activation, feed_forward;
  };
  Masks masks(size_t at) const;
  Pass::Attention self_attention(Matrix<const float> qkv, std::span<const float> spans) const;
  Pass::Attention cross_attention(Matrix<const float> query, Matrix<const float> key_value) const;
  std::span<float> take_spans() const;
  void clear_heads_off(Matrix<float> context) const;
  Pass::ResidualNorm self_output(const LayerStates& states, Matrix<const float> context,
                                 Matrix<const float> residual) const;
  Pass::ResidualNorm cross_output(const LayerStates& states, Matrix<const float> context) const;
  Pass::ResidualNorm output(const LayerStates& states, Matrix<const float> inner) const;
  void self_forward(const LayerStates& states, const KeptAttention* kept, std::span<float> weights) const;
  void cross_forward(const LayerStates& states, const KeptAttention* kept, std::span<float> weights) const;
  void feed_forward(const LayerStates& states, const KeptLayer* kept) const;
  void cached_attention(const Pass::Attention& all, Matrix<float> context) const;
  void feed_forward_backward(const LayerStates& states, const KeptLayer& kept, const Gradients& to) const;
  void cross_backward(const LayerStates& states, const KeptAttention& kept, const Gradients& to) const;
  void self_backward(const LayerStates& states, const KeptAttention& kept, const Gradients& to) const;
};

// What a layer's scores q·k are multiplied by: 1/√D, unless the config says otherwise.
float score_scale(const Config& config, size_t layer);

}  // namespace bertie
