#pragma once
// Self-attention step by step, with every number kept: from X to the output of a head, and of all heads.
//
//   bertie::AttentionSteps steps = bertie::explain_you_found_me();      the example to check by hand
//   steps = bertie::explain(model, "You found me", {.layer = 2, .head = 5});
//   float w = steps.weights(from, to);
//
// Each matrix follows from the ones before it:
//
//   Q = X·W^Q + b^Q    K = X·W^K + b^K    V = X·W^V + b^V
//   scores = Q·Kᵀ    scaled = scores/√D    weights = softmax of each row    output = weights·V
//   concatenated = the outputs of all heads beside each other    result = concatenated·W^O + b^O
//
// Q, K, V, weights, output and result come from the kernels that run the model, so they are what it computes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/attention.h"
#include "bertie/export.h"
#include "bertie/text_model.h"
#include "bertie/view.h"

namespace bertie {

// A matrix with memory of its own, row by row.
struct Grid {
  Grid() = default;
  Grid(size_t row_count, size_t col_count)
      : rows(row_count), cols(col_count), values(row_count * col_count) {}

  size_t rows = 0, cols = 0;
  std::vector<float> values;

  float& operator()(size_t r, size_t c) { return values[r * cols + c]; }
  float operator()(size_t r, size_t c) const { return values[r * cols + c]; }
  operator Matrix<float>() { return {values.data(), rows, cols}; }
  operator Matrix<const float>() const { return {values.data(), rows, cols}; }
};

// n tokens of C numbers, H heads, queries and keys of size D, values of size Dv (in BERT D = Dv = C/H).
struct AttentionSteps {
  std::vector<std::string> tokens;  // n, or none where only numbers were given
  std::vector<int32_t> ids;         // n, where a tokenizer gave them
  size_t layer = 0, layers = 1;     // from 0, of how many
  size_t head = 0, heads = 1;       // by its number, and how many the layer has: fewer where some were pruned
  size_t place = 0;                 // of the head among these
  std::vector<size_t> numbers;      // of the layer's heads, from 0; some are missing where some were pruned
  bool causal = false;              // a token sees itself and those before it only (GPT-2)
  double scale = 1;                 // what scores are multiplied by: 1/√D, but for some GPT-2s

  Grid x;                            // (n, C): what comes into the layer (GPT-2: through its first norm)
  Grid w_q, w_k, w_v;                // (C, D), (C, D), (C, Dv): this head's part, as the formula writes it
  std::vector<float> b_q, b_k, b_v;  // D, D, Dv; zeros where there are no biases
  Grid q, k, v;                      // (n, D), (n, D), (n, Dv)
  Grid scores, scaled, weights;      // (n, n): rows look at columns; what is not seen is scaled to -inf
  Grid output;                       // (n, Dv)
  Grid concatenated;                 // (n, H·Dv)
  Grid w_o;                          // (H·Dv, C)
  std::vector<float> b_o;            // C
  Grid result;                       // (n, C), before the layer adds x and normalizes

  size_t n() const { return x.rows; }
};

// The steps of one head for a text, or for a pair of texts. Throws Error where there is no such layer or
// head, where the text is too long for the model, and where numbers come out as NaN or infinity. Any number
// of threads may call it at the same time.
BERTIE_API AttentionSteps explain(const TextModel& model, std::string_view text, WhichHead which = {});
BERTIE_API AttentionSteps explain(const TextModel& model, std::string_view a, std::string_view b,
                                  WhichHead which = {});

// How much of each token is in each other one after a layer, as far as attention alone says: the product of
// ½(A + I) over the layers up to it, A being the mean over heads, its rows scaled to a sum of 1 (Abnar and
// Zuidema 2020). Rows are tokens after the layer, columns what went into the first; each row sums to 1.
// `attention` must have kept all layers up to it. layers: how many, the first ones; 0: all.
BERTIE_API Grid rollout(const Attention& attention, size_t layers = 0);

// Something that a model predicts: the token at a mask, or a label of the text.
struct Prediction {
  Head head = Head::kMaskedLm;  // or kClassify
  std::string name = {};        // the token (of several pieces the first), or the label; empty: the likeliest
  size_t mask = 0;              // which of the text's masks, from 0
};

struct GradientOptions {
  std::vector<size_t> layers = {};  // from 0; empty: all
  bool times_weight = true;         // false: the gradient alone
};

// What each weight of attention does to a prediction.
struct AttentionGradient {
  // weights are A∘∂z/∂A, z being the prediction's logit: about how much z would fall were the weight 0 and
  // nothing else changed. Signed; rows do not sum to 1.
  Attention attention;
  std::string name;  // of what was predicted
  double logit = 0;  // z
};

// For a text, or for a pair. Error where the model does not make such predictions, has not BERT's own
// attention or weights in bf16, and where the text is too long.
BERTIE_API AttentionGradient attention_gradient(const TextModel& model, std::string_view text,
                                                const Prediction& prediction,
                                                const GradientOptions& options = {});
BERTIE_API AttentionGradient attention_gradient(const TextModel& model, const TextPair& pair,
                                                const Prediction& prediction,
                                                const GradientOptions& options = {});

// The steps on your own numbers: x (n, C), and weights of `heads` heads as checkpoints store them.
BERTIE_API AttentionSteps explain(Matrix<const float> x, const MultiHead& weights, size_t heads,
                                  size_t head = 0);

// "You found me": three words of four numbers through two heads of size 2. Its first head (0) is worked by
// hand in docs/attention/worked-example.md.
BERTIE_API AttentionSteps explain_you_found_me(size_t head = 0);

}  // namespace bertie
