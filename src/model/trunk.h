#pragma once
// The trunk of a network: embeddings and the stack of layers. BERT and GPT-2 are one trunk with heads on top;
// the encoder-decoder is two. Inference, generation with a cache and learning all go through TrunkPass: what
// differs is what is kept.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bertie/model.h"
#include "io/safetensors.h"
#include "model/cache.h"
#include "model/layer.h"
#include "model/pass.h"

namespace bertie {

// y = LayerNorm(word·scale + position + type), then ALBERT's projection to the layers' width. Where norms
// come first the sum goes on beside it, and the norm is the first layer's.
struct EmbeddingWeights {
  const io::TensorInfo* word =
      nullptr;  // (V, E), left as the file stores it: rows are converted when looked up
  float word_scale = 1;
  float* position = nullptr;  // (positions, E)
  float* type = nullptr;      // (types, E); null: none
  size_t width = 0, positions = 0, types = 0;
  kernels::LayerNorm norm;     // without gamma: none
  kernels::Linear projection;  // without outputs: none
  // RoBERTa: positions begin after this id, and a padding token in the text stands there and does not count.
  std::optional<int32_t> positions_after = {};
  bool learns_positions = true;
  std::optional<int32_t> constant_word = {};  // is looked up, but does not learn
};

struct TrunkWeights {
  EmbeddingWeights embeddings;
  LayerShape shape;
  std::vector<LayerWeights> layers;  // those with weights of their own
  std::vector<size_t> order;         // the layers that a token goes through; ALBERT's come more than once
  std::vector<float> scales;         // of their scores
  size_t first_place = 0, embedding_place = 0;  // tell dropout masks of two trunks apart

  size_t depth() const { return order.size(); }
  const LayerWeights& layer(size_t l) const { return layers[order[l]]; }
};

// Error if offsets, ids or types are wrong, or a sequence (with what the cache holds of it) is too long.
void check_batch(const Batch& batch, const EmbeddingWeights& w, size_t max_tokens, const KeyValues* cache);
// Error if the model has no such head.
void check_heads_exist(std::span<const WhichHead> heads, const Config& config);
// For each layer, where these heads are among those that the layer still has; empty where there are none.
std::vector<std::vector<size_t>> places_of_heads(std::span<const WhichHead> heads, const Config& config);
// Error if a row that logits are wanted for is not there.
void check_rows(std::span<const int32_t> rows, size_t tokens);

// One trunk's way through one batch.
class TrunkPass {
 public:
  TrunkPass(const TrunkWeights& w, Pass& pass) : w_(w), pass_(pass) {}

  // What to do besides the last states.
  struct Options {
    KeyValues* cache = nullptr;
    std::function<bool(size_t layer)> wants_attention = {};  // whose weights to give out
    bool hidden_states = false;
    CrossInput source = {};  // of a decoder
    // Or, where there is no backward pass, what each layer's keys and values of it are.
    std::span<const Matrix<const float>> source_key_values = {};
    bool keep = false, recompute = false;  // for backward
    // Backward ends above these layers; nothing: it goes on to the embeddings.
    std::optional<size_t> frozen_layers = {};
    std::optional<uint64_t> dropout_seed = {};
    uint32_t first_sequence = 0;
    std::span<const int32_t> wanted = {};  // rows of the last states, ascending; empty: all
    // For each layer the heads whose output is zero, counted among those it has; empty: none.
    std::span<const std::vector<size_t>> off = {};
    // Told on the way back, layer by layer, of the gradient of what its heads gave (T, its width), and of
    // what the layer had kept.
    std::function<void(size_t layer, Matrix<const float> d_context, const KeptAttention& kept)> on_context =
        {};
  };
  // Before the pass: looks at the batch, which must live until the pass is over. The options' views too.
  void start(const Batch& batch, const Options& options);

  // What a decoder looks at, where it was not known at the start.
  void set_source(const CrossInput& source) { options_.source = source; }

  // Within Arena::run, in this order. The last hidden states, those that are wanted.
  Matrix<const float> forward();
  // d: the gradient of the last states, in its first rows, is used up; (T, C), taken with take_gradient.
  // `layer_done` is told when a layer's gradients are final.
  Matrix<float> take_gradient();
  void backward(const TrunkWeights& gradient, Matrix<float> d, Matrix<float> d_source,
                const std::function<void(const LayerWeights& gradient)>& layer_done);

  // What forward left: views into the pass's memory.
  std::vector<Matrix<const float>> hidden_states;
  // By layer, sequence after sequence, (H, n, m); null where it was not wanted.
  std::vector<const float*> attention, cross_attention;

  std::span<const int32_t> offsets() const { return offsets_; }
  DropoutSeed dropout() const;

 private:
  Layer layer(size_t l) const;
  bool keeps(size_t l) const;
  DropoutSeed layer_dropout(size_t l) const;
  RowDropout embedding_mask() const;
  void find_positions();
  void embed(Matrix<float> y);
  void embeddings_forward();
  void embeddings_output(Matrix<float> x);
  void embeddings_backward(const EmbeddingWeights& gradient, Matrix<float> d, Matrix<float> carry);
  void take_states();
  void take_kept();
  std::span<float> take_weights(size_t l, size_t heads, std::span<const int32_t> keys);

  const TrunkWeights& w_;
  Pass& pass_;
  Batch batch_;
  Options options_;
  std::vector<int32_t> offsets_, positions_, types_;
  std::vector<uint64_t> row_numbers_, wanted_numbers_;
  std::vector<KeptLayer> kept_;
  kernels::Normalized embedded_;
  Matrix<float> narrow_;  // (T, E), where embeddings are not as wide as the layers
  LayerStates states_;
};

}  // namespace bertie
