#pragma once
// Attention(Q, K, V) = softmax(Q·Kᵀ/√D)·V on your own buffers: one idea with three choices, how to score,
// where to look and how to compute.
//
//   attention(q, k, v, out);                                            the formula
//   attention(q, k, v, out, weights);                                   and who looked at whom
//   attention(q, k, v, out, {.heads = 12, .look = Look::causal()});
//   attention(q, k, v, out, {.score = Score::additive(w1, w2, v_a)});
//   attention(q, k, v, out, {.compute = Compute::performer({.features = 256})});
//
//   q (Tq, H·D)   k (Tk, H·D)   v (Tk, H·Dv)   out (Tq, H·Dv)
//
// Head h takes columns h·D.. of q and k and columns h·Dv.. of v and out. Queries may come from one sequence
// and keys and values from another of a different length (cross-attention). A query with nothing to look
// at gives zeros. Views are not kept: they need to live until the call returns. Outputs and gradients must
// not overlap with inputs or each other.
//
// Every mechanism has its page in docs/attention/.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bertie/dropout.h"
#include "bertie/export.h"
#include "bertie/view.h"

namespace bertie {

// How to score: how well a query and a key agree.
struct Score {
  enum class Kind : uint8_t { kScaledDot, kDot, kGeneral, kAdditive };

  static Score scaled_dot() { return {}; }                                              // q·k/√D
  static Score scaled_by(float scale) { return {.kind = Kind::kDot, .scale = scale}; }  // q·k·scale
  static Score dot() { return {.kind = Kind::kDot}; }                                   // q·k
  // qᵀ·W·k. w (H·D, Dk): head h's W is its rows h·D..; k is then (Tk, H·Dk).
  static Score general(Matrix<const float> w) { return {.kind = Kind::kGeneral, .w = w}; }
  // vᵀ·tanh(W₁·q + W₂·k), Bahdanau's. w1 (H·A, D), w2 (H·A, Dk), v (H, A); k is then (Tk, H·Dk).
  static Score additive(Matrix<const float> w1, Matrix<const float> w2, Matrix<const float> v) {
    return {.kind = Kind::kAdditive, .w1 = w1, .w2 = w2, .v = v};
  }

  Kind kind = Kind::kScaledDot;
  float scale = 1;  // of dot
  Matrix<const float> w = {}, w1 = {}, w2 = {}, v = {};
};

// BigBird: blocks of queries look at blocks of keys. Positions are cut into blocks of `block`; block b sees
// the `window` blocks around it (odd: itself and (window − 1)/2 on each side), the first `global` blocks and
// `random` others, drawn for each head and block from `seed`. The first `global` blocks see everything.
struct BigBird {
  size_t block = 64, window = 3, global = 1, random = 3;
  uint64_t seed = 0;
};

// Where to look: which keys a query sees. Query i stands at position i of the keys, or, with
// queries_at_end, at i + (keys − queries): the last query beside the last key, as in generation. Then, with
// more queries than keys, the first ones stand before the first key and see only what windows and spans
// reach.
struct Look {
  enum class Kind : uint8_t {
    kFull,
    kCausal,
    kWindow,
    kWindowAndGlobal,
    kBigBird,
    kStrided,
    kFixed,
    kMask,
    kAdaptiveSpan
  };

  static Look full() { return {}; }
  static Look causal() { return {.kind = Kind::kCausal}; }  // keys 0..i
  // Keys i−before .. i+after.
  static Look window(size_t before, size_t after) {
    return {.kind = Kind::kWindow, .before = before, .after = after};
  }
  static Look window(size_t around) { return window(around, around); }
  // Longformer: a window, and tokens that see everything and are seen by everyone. `global` holds positions,
  // increasing; to a sequence that is shorter they mean nothing.
  static Look window_and_global(size_t around, std::span<const int32_t> global) {
    return {.kind = Kind::kWindowAndGlobal, .before = around, .after = around, .global = global};
  }
  static Look big_bird(const BigBird& pattern) { return {.kind = Kind::kBigBird, .blocks = pattern}; }
  // Sparse Transformer, strided: the last `stride` keys up to i, and every stride-th key before: i−stride,
  // i−2·stride, …
  static Look strided(size_t stride) { return {.kind = Kind::kStrided, .stride = stride}; }
  // Sparse Transformer, fixed: the keys up to i in i's block of `stride`, and the last `summary` positions
  // of every block before.
  static Look fixed(size_t stride, size_t summary = 1) {
    return {.kind = Kind::kFixed, .stride = stride, .summary = summary};
  }
  // allowed(t, j) ≠ 0: row t of q, counted over the whole batch, sees key j of its own sequence. As many rows
  // as q, and columns for the longest sequence of keys.
  static Look mask(Matrix<const uint8_t> allowed) { return {.kind = Kind::kMask, .allowed = allowed}; }
  // Learnable spans (Sukhbaatar et al. 2019). Head h's weights are multiplied, before they are normalized,
  // by clamp((ramp + spans[h] − distance)/ramp, 0, 1); distance is i − j to keys at or before the query, and
  // with both_sides |i − j|. Keys after the query are seen with both_sides only.
  static Look adaptive_span(std::span<const float> spans, float ramp, bool both_sides = false) {
    return {.kind = Kind::kAdaptiveSpan, .spans = spans, .ramp = ramp, .both_sides = both_sides};
  }

  Kind kind = Kind::kFull;
  bool queries_at_end = false;
  size_t before = 0, after = 0;
  std::span<const int32_t> global = {};
  BigBird blocks = {};
  size_t stride = 0, summary = 1;
  Matrix<const uint8_t> allowed = {};
  std::span<const float> spans = {};
  float ramp = 0;
  bool both_sides = false;
};

// How to compute.
struct Compute {
  enum class Kind : uint8_t { kSoftmax, kLinear, kPerformer, kLinformer, kNystrom };

  // The formula itself. Keys are taken in blocks with a running maximum and sum (online softmax): memory
  // grows with n + m, not with n·m. Asked for the weights, it keeps whole rows.
  static Compute softmax() { return {}; }
  // φ(q)·φ(k) in place of e^(q·k), φ(x) = elu(x) + 1: time and memory grow with n. Looks: full and causal.
  static Compute linear() { return {.kind = Kind::kLinear}; }
  // The softmax approximated by random features, FAVOR+: the more features, the closer. All heads share them.
  // Looks: full and causal. Scores: dot products with a scale above 0.
  struct Performer {
    size_t features = 256;
    uint64_t seed = 0;
  };
  static Compute performer(Performer p) {
    return {.kind = Kind::kPerformer, .features = p.features, .seed = p.seed};
  }
  static Compute performer() { return performer(Performer{}); }
  // softmax(q·(E·k)ᵀ)·(F·v): keys and values projected to R rows. e, f (R, N), learned, shared by the heads;
  // a sequence of m ≤ N keys uses their first m columns. Look: full.
  static Compute linformer(Matrix<const float> e, Matrix<const float> f) {
    return {.kind = Kind::kLinformer, .e = e, .f = f};
  }
  // Nyström: through `landmarks` means of neighboring queries and keys, and a pseudo-inverse by iteration.
  // Look: full.
  struct Nystrom {
    size_t landmarks = 64;
    size_t iterations = 6;
  };
  static Compute nystrom(Nystrom n) {
    return {.kind = Kind::kNystrom, .landmarks = n.landmarks, .iterations = n.iterations};
  }
  static Compute nystrom() { return nystrom(Nystrom{}); }

  Kind kind = Kind::kSoftmax;
  size_t features = 0;
  uint64_t seed = 0;
  Matrix<const float> e = {}, f = {};
  size_t landmarks = 0, iterations = 0;
};

// Threads and memory for many calls: it grows to the largest call and then allocates nothing. One call at a
// time.
class BERTIE_API Workspace {
 public:
  explicit Workspace(int threads = 1);
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;

  size_t memory() const;  // bytes held

  struct Parts;
  Parts& parts() const;  // Error if it has been moved from

 private:
  std::unique_ptr<Parts> parts_;
};

struct AttentionOptions {
  size_t heads = 1;
  Score score = {};
  Look look = {};
  Compute compute = {};
  Dropout dropout = {};
  // A packed batch: sequence s owns rows q_offsets[s] .. q_offsets[s+1]−1 of q and out, and k_offsets[s]..
  // of k and v. Empty q_offsets: one sequence. Empty k_offsets: the same as q_offsets.
  std::span<const int32_t> q_offsets = {}, k_offsets = {};
  Workspace* workspace = nullptr;  // null: one thread, and memory for this call alone
};

// What the backward pass needs of the forward pass beside its inputs and output: a number a row and
// head. Reuse it from call to call.
struct AttentionSaved {
  std::vector<float> log_sums;
};

BERTIE_API void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                          Matrix<float> out, const AttentionOptions& options = {});

// The same, keeping what attention_backward needs.
BERTIE_API void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                          Matrix<float> out, AttentionSaved& saved, const AttentionOptions& options = {});

// The same, and the weights that were used, dropout included: for each sequence (H, n, m), how much query i
// of head h looks at key j. weights.size() is Σₛ H·n·m. An approximation gives the weights that its output
// amounts to; those of Linformer and Nyström may be negative.
BERTIE_API void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                          Matrix<float> out, std::span<float> weights, const AttentionOptions& options = {});

// Where gradients go. q, k and v are assigned and have the shapes of the inputs. The others belong to the
// mechanism's own parameters, have their shapes and are added to; leave empty what you do not want.
struct AttentionGradients {
  Matrix<float> q = {}, k = {}, v = {};
  Matrix<float> w = {};                             // Score::general
  Matrix<float> w1 = {}, w2 = {}, additive_v = {};  // Score::additive
  std::span<float> spans = {};                      // Look::adaptive_span
  Matrix<float> e = {}, f = {};                     // Compute::linformer
};

// From d_out = ∂loss/∂out to the gradients of everything that went into attention(q, k, v, out, saved,
// options). The weights are computed again, block by block: memory stays O(n).
BERTIE_API void attention_backward(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                                   Matrix<const float> out, const AttentionSaved& saved,
                                   Matrix<const float> d_out, const AttentionGradients& gradients,
                                   const AttentionOptions& options = {});

// λ/H·Σ spans[h], the term that makes heads look no further than they need; adds λ/H to each of `gradient`
// unless that is empty.
BERTIE_API float adaptive_span_penalty(std::span<const float> spans, float lambda,
                                       std::span<float> gradient = {});

// MultiHead(X, Y) = Concat(head₁ … head_H)·Wᴼ, headᵢ = Attention(X·Wᵢ^Q, Y·Wᵢ^K, Y·Wᵢ^V).
// Matrices as checkpoints store them, outputs by inputs: wq (H·D, Cx), wk (H·Dk, Cy), wv (H·Dv, Cy),
// wo (C, H·Dv). Biases may be empty.
struct MultiHead {
  Matrix<const float> wq, wk, wv, wo;
  std::span<const float> bq = {}, bk = {}, bv = {}, bo = {};
};

// What a multi-head forward pass leaves for its backward pass. Reuse it from call to call.
struct MultiHeadSaved {
  std::vector<float> q, k, v, context;
  AttentionSaved attention;
};

struct MultiHeadGradients {
  // Assigned. y may be empty: in self-attention x gets the sum, else y's gradient is not wanted.
  Matrix<float> x = {}, y = {};
  Matrix<float> wq = {}, wk = {}, wv = {}, wo = {};  // added to
  std::span<float> bq = {}, bk = {}, bv = {}, bo = {};
  AttentionGradients mechanism = {};  // of score, look and compute; its q, k, v are not used
};

// x (Tq, Cx) asks and y (Tk, Cy) answers; self-attention is y = x. out (Tq, C).
BERTIE_API void multi_head_attention(Matrix<const float> x, Matrix<const float> y, const MultiHead& weights,
                                     Matrix<float> out, MultiHeadSaved& saved,
                                     const AttentionOptions& options = {});
BERTIE_API void multi_head_attention_backward(Matrix<const float> x, Matrix<const float> y,
                                              const MultiHead& weights, const MultiHeadSaved& saved,
                                              Matrix<const float> d_out, const MultiHeadGradients& gradients,
                                              const AttentionOptions& options = {});

}  // namespace bertie
