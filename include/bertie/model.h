#pragma once
// BERT itself: token ids in, hidden states, attention weights and the pooled vector out.
//
//   auto model = bertie::Model::load("all-MiniLM-L6-v2");
//   bertie::Run run(model);
//   const bertie::Output& out = run.forward({.ids = ids, .offsets = offsets});
//
// A Model is constant: any number of threads may share one. A Run belongs to one thread at a time; it keeps
// the memory of the largest batch it has seen, and a batch that fits allocates nothing.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "bertie/config.h"
#include "bertie/export.h"
#include "bertie/view.h"

namespace bertie {

struct Weights;

class BERTIE_API Model {
 public:
  // A directory with config.json and model.safetensors (or its shards). Throws Error. The word embeddings
  // stay in the mapped file: do not overwrite it in place while the Model lives (replacing it is fine).
  static Model load(const std::filesystem::path& directory);
  // A model of this shape with random weights, the same for the same seed. For benchmarks and tests.
  static Model random(const Config& config, uint64_t seed = 1);

  const Config& config() const;
  bool has_pooler() const;
  size_t parameters() const { return config().parameters(has_pooler()); }
  // For the library itself; the type is not part of the API.
  const Weights& weights() const { return *weights_; }

 private:
  explicit Model(std::shared_ptr<const Weights> weights) : weights_(std::move(weights)) {}
  std::shared_ptr<const Weights> weights_;  // copies of a Model share it
};

// Sequences without padding, one after the other: sequence s is ids[offsets[s]] .. ids[offsets[s+1]-1].
struct Batch {
  std::span<const int32_t> ids;
  std::span<const int32_t> types = {};  // one for each id; empty means all 0
  std::span<const int32_t> offsets;     // B + 1 of them, from 0 to ids.size()

  size_t size() const { return offsets.empty() ? 0 : offsets.size() - 1; }
};

// What to keep besides the last hidden states. Layers whose weights nobody asked for run the faster kernel.
struct Capture {
  bool hidden_states = false;
  bool pooled = false;
  bool all_attention = false;
  std::vector<size_t> attention = {};  // these layers' weights, 0-based

  bool wants_attention(size_t layer) const {
    return all_attention || std::find(attention.begin(), attention.end(), layer) != attention.end();
  }
};

// Views into the Run's memory, valid until its next forward.
class BERTIE_API Output {
 public:
  Matrix<const float> last_hidden;                 // (T, C)
  std::vector<Matrix<const float>> hidden_states;  // [0] embeddings, [l] after layer l; if captured
  Matrix<const float> pooled;                      // (B, C): tanh(W·[CLS] + b); if captured

  // How much each token of sequence s looks at each other one: (n, n), rows sum to 1. If captured.
  Matrix<const float> attention(size_t layer, size_t sequence, size_t head) const;

 private:
  friend class Run;
  size_t heads_ = 0;
  std::span<const int32_t> offsets_;
  std::vector<const float*>
      attention_;  // per layer: sequence after sequence, each (H, n, n); null if not kept
};

class BERTIE_API Run {
 public:
  explicit Run(const Model& model, int threads = 0);  // 0: one for every core
  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();

  // Throws Error if the batch does not fit the model.
  const Output& forward(const Batch& batch, const Capture& capture = {});

  int threads() const;
  size_t memory() const;  // bytes held for activations

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
