#pragma once
// The original Transformer (Vaswani et al. 2017): an encoder reads a text, a decoder writes another one token
// by token, looking at what it wrote and at what the encoder read. docs/transformer.md has the whole network
// on one page.
//
//   auto model = bertie::Transformer::load("opus-mt-en-de");
//   bertie::TransformerRun run(model);
//   auto written = run.generate({.ids = ids, .offsets = offsets}, 100);    // greedily
//
// Checkpoints are those of transformers' MarianMTModel, which is this network: what is saved here loads
// there, and the other way round.
//
// A Transformer is constant: any number of threads may share one. A TransformerRun belongs to one thread at
// a time; it keeps the memory of the largest batches it has seen, and batches that fit allocate nothing.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bertie/export.h"
#include "bertie/model.h"
#include "bertie/view.h"

namespace bertie {

struct TransformerWeights;

// The shape of an encoder-decoder, as config.json gives it; what is set here is the paper's base model.
struct BERTIE_API TransformerConfig {
  size_t encoder_layers = 6, decoder_layers = 6;
  size_t hidden = 512;                            // d_model
  size_t encoder_heads = 8, decoder_heads = 8;    // encoder_attention_heads, …
  size_t encoder_ffn = 2048, decoder_ffn = 2048;  // encoder_ffn_dim, …: the feed-forward networks' width
  size_t vocabulary = 37000;                      // vocab_size, shared by both sides and the output
  size_t positions = 512;                         // max_position_embeddings
  std::string activation = "relu";                // activation_function
  bool scale_embedding = true;                    // word embeddings times √hidden
  int32_t pad_id = 1;                             // pad_token_id, which is never written; -1: none
  int32_t eos_id = 0;                             // eos_token_id, which ends what is written; -1: none
  int32_t start_id = 1;                           // decoder_start_token_id: what the decoder reads first
  double dropout = 0.1, attention_dropout = 0, activation_dropout = 0;  // for training

  static TransformerConfig base() { return {}; }
  static TransformerConfig big();

  // Reads config.json. Throws Error naming the key that is wrong.
  static TransformerConfig load(const ModelFiles& files);
  // Whether config.json is that of an encoder-decoder, whatever else it says.
  static bool describes(const ModelFiles& files);
  // What config.json would say, for transformers to read.
  std::string to_json() const;
  // Throws Error if the numbers do not make a model.
  void check(const std::string& name) const;
  // Numbers in such a model; those of the positions, which are computed, do not count.
  size_t parameters() const;
};

class BERTIE_API Transformer {
 public:
  // config.json and model.safetensors (or its shards); as Model::load.
  static Transformer load(const ModelFiles& files, const WeightsOptions& options = {});
  // A model of this shape with random weights, the same for the same seed.
  static Transformer random(const TransformerConfig& config, uint64_t seed = 1);

  // Writes config.json and model.safetensors; as Model::save.
  void save(const std::filesystem::path& directory, Precision precision = Precision::kFloat32) const;

  const TransformerConfig& config() const;
  size_t parameters() const;  // numbers in the model; the word embeddings, which are the output too, once

 private:
  friend class TransformerRun;
  friend struct WeightsAccess;
  const TransformerWeights& weights() const { return *weights_; }
  explicit Transformer(std::shared_ptr<const TransformerWeights> weights) : weights_(std::move(weights)) {}
  std::shared_ptr<const TransformerWeights> weights_;  // copies of a Transformer share it
};

// What to keep besides the last hidden states. Without attention weights a faster kernel runs.
struct TransformerCapture {
  bool hidden_states = false;
  bool attention = false;  // every layer's; decode: its cross-attention too
  bool logits = true;      // decode only
  // decode: the target's tokens (rows of the batch) whose logits are wanted; empty: all.
  std::span<const int32_t> rows = {};
};

// What one side computed: views into the run's memory, an encoder's valid until the next encode, a
// decoder's until the next decode. T tokens of the batch, C = hidden.
struct TransformerOutput {
  Matrix<const float> last_hidden;                 // (T, C)
  std::vector<Matrix<const float>> hidden_states;  // [0] embeddings, [l] after layer l; if captured
  AttentionWeights attention;                      // of a side over itself; if captured
  AttentionWeights cross;                          // decode: over the source, rows are the target's
  Matrix<const float> logits;                      // decode: (T or rows, V): what comes after each token
};

class BERTIE_API TransformerRun {
 public:
  explicit TransformerRun(const Transformer& model, int threads = 0);  // 0: one for every core
  TransformerRun(TransformerRun&&) noexcept;
  TransformerRun& operator=(TransformerRun&&) noexcept;
  ~TransformerRun();

  // Reads the sources, and keeps of them what the decoder will look at. Batch::types are not looked at.
  // Throws Error if the batch does not fit the model.
  const TransformerOutput& encode(const Batch& sources, const TransformerCapture& capture = {});

  // Reads targets, which begin with start_id, for the sources of the last encode: as many sequences, in the
  // same order. Row t of the logits says what comes after token t.
  const TransformerOutput& decode(const Batch& targets, const TransformerCapture& capture = {});
  // Each target goes on where the cache's sequence ended, and is added to it. The same numbers as reading
  // all of it at once, but for rounding. Attention weights cannot be captured. A cache belongs to one
  // encode: keep(s, 0) before it is used for other sources.
  const TransformerOutput& decode(const Batch& targets, const TransformerCapture& capture, Cache& cache);

  // encode, and then for each source what the decoder writes when the likeliest token is taken each time: up
  // to eos_id, which is kept, or max_new_tokens.
  std::vector<std::vector<int32_t>> generate(const Batch& sources, size_t max_new_tokens);

  int threads() const;
  size_t memory() const;  // bytes held for activations

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
