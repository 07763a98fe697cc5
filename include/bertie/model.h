#pragma once
// BERT and its family: token ids in, hidden states, attention weights, the pooled vector and the logits of
// the heads out.
//
//   auto model = bertie::Model::load("all-MiniLM-L6-v2");
//   bertie::Run run(model);
//   const bertie::Output& out = run.forward({.ids = ids, .offsets = offsets});
//
// A Model is constant: any number of threads may share one. A Run belongs to one thread at a time; it keeps
// the memory of the largest batch it has seen, and a batch that fits allocates nothing.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bertie/config.h"
#include "bertie/export.h"
#include "bertie/files.h"
#include "bertie/view.h"
#include "bertie/weight_format.h"

namespace bertie {

struct Weights;
struct Batch;
struct KeyValues;
class Transformer;

// What may sit on top of the layers. A checkpoint has any number of them.
enum class Head {
  kMaskedLm,      // what stands at [MASK]: a logit for each token of the vocabulary
  kNextSentence,  // BERT: 0 the second text follows the first, 1 it does not; ALBERT: 1 they were swapped
  kClassify,      // a text or a pair: a logit for each of Config::labels
  kTag,           // each token: a logit for each of Config::labels
  kAnswer,        // each token: how well an answer starts here, and ends here
  kCausalLm,      // what comes next
};

// How numbers are stored in a file. How they are held in memory is WeightFormat (weight_format.h).
enum class Precision { kFloat32, kFloat16, kBFloat16 };

// A head of a layer's attention, both counted from 0.
struct WhichHead {
  size_t layer = 0, head = 0;

  auto operator<=>(const WhichHead&) const = default;
};

struct WeightsOptions {
  // What to make of a checkpoint that has tensors for which the model has no use:
  bool strict = false;  // throw Error
  // Otherwise told, once, which they are.
  std::function<void(std::string_view)> warning = {};
  // Of the layers and the language model's last product. kInt8 quantizes what is not in integers, on a sample
  // of tokens from all over the vocabulary; load() of a text model takes a sample of text. A file of integers
  // is held as such, whatever is asked for.
  WeightFormat format = WeightFormat::kFloat32;
};

class BERTIE_API Model {
 public:
  // config.json and model.safetensors (or its shards). Throws Error where a tensor is missing or of another
  // shape. The word embeddings stay in the mapped file: do not overwrite it in place while the Model lives
  // (replacing it is fine). The numbers are not looked through for NaN; results are (text_model.h).
  static Model load(const ModelFiles& files, const WeightsOptions& options = {});
  // A model of this shape with random weights, the same for the same seed. For benchmarks and tests.
  static Model random(const Config& config, uint64_t seed = 1, const std::vector<Head>& heads = {},
                      WeightFormat format = WeightFormat::kFloat32);

  // Writes config.json and model.safetensors, under the names that transformers knows, into a directory
  // that is made if need be. Each file is written whole or not at all. Weights in bf16 are saved as rounded.
  void save(const std::filesystem::path& directory, Precision precision = Precision::kFloat32) const;

  // The same model without these heads of attention, smaller and faster: it computes what a Run with them
  // switched off does. Error where a layer would have none left, and where layers share their weights.
  Model pruned(std::span<const WhichHead> heads) const;

  // The same model with its layers' weights, and its word embeddings, in 8-bit integers: a quarter of the
  // memory, and faster. `sample` is text as the model will read it, some hundred tokens: on it is measured
  // which of each layer's inputs have to stay exact. A model that is in integers stays as it is.
  Model quantized(const Batch& sample) const;

  WeightFormat format() const;  // of the layers' weights
  const Config& config() const;
  bool has_pooler() const;
  bool has(Head head) const;
  // Numbers in the model, its heads included; what is tied counts once.
  size_t parameters() const;
  size_t bytes() const;  // that these take in memory, packed, and in mapped tables

 private:
  friend class Run;
  friend struct WeightsAccess;  // the library's own: src/model/access.h
  const Weights& weights() const { return *weights_; }
  explicit Model(std::shared_ptr<const Weights> weights) : weights_(std::move(weights)) {}
  std::shared_ptr<const Weights> weights_;  // copies of a Model share it
};

// Sequences without padding, one after the other: sequence s is ids[offsets[s]] .. ids[offsets[s+1]-1].
struct Batch {
  std::span<const int32_t> ids;
  std::span<const int32_t> types = {};  // one for each id; empty means all 0; not looked at if there are < 2
  std::span<const int32_t> offsets;     // B + 1 of them, from 0 to ids.size()

  size_t size() const { return offsets.empty() ? 0 : offsets.size() - 1; }
};

// What to keep besides the last hidden states. Layers whose weights are not asked for run the faster kernel.
struct Capture {
  // False, where logits are all that is wanted: then the last layer computes what its head reads, which is
  // [CLS] or a few tokens, and Output::last_hidden may be empty. The logits are the same bits.
  bool last_hidden = true;
  bool hidden_states = false;
  bool pooled = false;
  bool all_attention = false;
  std::vector<size_t> attention = {};  // these layers' weights, 0-based
  std::optional<Head> head = {};       // its logits
  // For heads with logits for each token: the tokens (rows of the batch) they are wanted for; empty: all.
  std::span<const int32_t> rows = {};

  bool wants_attention(size_t layer) const {
    return all_attention || std::find(attention.begin(), attention.end(), layer) != attention.end();
  }
};

// How much each query of a sequence looks at each of its keys, in the layers that were kept.
class BERTIE_API AttentionWeights {
 public:
  // (n, m) for n queries and m keys; rows sum to 1, but for Linformer's and Nyström's, which approximate it.
  // Error if the layer was not kept, or the head was pruned.
  Matrix<const float> operator()(size_t layer, size_t sequence, size_t head) const;

 private:
  friend class Run;
  friend class TransformerRun;
  void set(size_t heads, std::span<const int32_t> queries, std::span<const int32_t> keys,
           std::span<const float* const> layers, std::span<const std::vector<size_t>> pruned = {});

  size_t heads_ = 0;
  std::span<const std::vector<size_t>> pruned_;  // Config::pruned_heads
  std::span<const int32_t> queries_, keys_;      // offsets
  std::vector<const float*> layers_;             // sequence after sequence, each (H, n, m); null if not kept
};

// Views into the Run's memory, valid until its next forward.
class BERTIE_API Output {
 public:
  Matrix<const float> last_hidden;                 // (T, C), unless it was not wanted
  std::vector<Matrix<const float>> hidden_states;  // [0] embeddings, [l] after layer l; if captured
  Matrix<const float> pooled;                      // (B, C): tanh(W·[CLS] + b); if captured
  // If a head was asked for: (B, 2) for kNextSentence, (B, labels) for kClassify; else a row for each token
  // or each of Capture::rows: labels for kTag, start and end for kAnswer, the vocabulary for the others.
  Matrix<const float> logits;

  // How much each token of sequence s looks at each other one: (n, n), rows as in AttentionWeights. If
  // captured.
  Matrix<const float> attention(size_t layer, size_t sequence, size_t head) const;

 private:
  friend class Run;
  AttentionWeights weights_;
};

// The keys and values of what a causal model has read, so that it need not read it again for the next token.
// It belongs to one thread at a time and grows as it is used.
class BERTIE_API Cache {
 public:
  explicit Cache(const Model& model, size_t sequences = 1);        // Error if the model is not causal
  explicit Cache(const Transformer& model, size_t sequences = 1);  // its decoder; see transformer.h
  Cache(Cache&&) noexcept;
  Cache& operator=(Cache&&) noexcept;
  ~Cache();

  size_t sequences() const;
  size_t length(size_t sequence) const;       // tokens read so far
  void keep(size_t sequence, size_t tokens);  // forgets all but the first
  size_t memory() const;                      // bytes

 private:
  friend class Run;
  friend class TransformerRun;
  std::unique_ptr<KeyValues> state_;
};

class BERTIE_API Run {
 public:
  // threads 0: one for every core. bf16: linear layers' products in bf16, where the machine has them; much
  // faster, and a few digits less.
  explicit Run(const Model& model, int threads = 0, bool bf16 = false);
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();

  // From now on what these heads of attention give is zero, and no others' is (transformers' head_mask of 0).
  // Their weights are what they would be. Error if there is no such head.
  void switch_off(std::span<const WhichHead> heads);

  // Throws Error if the batch does not fit the model.
  const Output& forward(const Batch& batch, const Capture& capture = {});
  // Each sequence of the batch goes on where the cache's one ended, and is added to it. The same numbers as
  // reading all of it at once, but for rounding. Attention weights cannot be captured.
  const Output& forward(const Batch& batch, const Capture& capture, Cache& cache);

  int threads() const;
  size_t memory() const;  // bytes held for activations
  // What activations take for each token of a batch, where nothing is captured. A Run holds up to a quarter
  // more, and scratch memory for each thread.
  static size_t bytes_per_token(const Model& model);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
