#pragma once
// A model that learns: its parameters and their gradients, each one flat block, and the pass forward and back
// that adds a batch's gradients. What is done with them (optimizers, data, checkpoints) is the train room's.
//
//   auto learner = make_learner(config, {Head::kMaskedLm, Head::kNextSentence}, seed, {});
//   learner->learn(training, sums, ready);        // gradients() += d(Σ scale·loss)/d(parameters())
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bertie/model.h"
#include "bertie/transformer.h"
#include "kernels/cross_entropy.h"
#include "kernels/muon.h"
#include "model/tensors.h"

namespace bertie {

using kernels::LossSum;

// One term of a batch's loss: what a head should say, as classes, numbers, or what a teacher said. The loss
// is the sum of terms, each times its scale: weight / (how many targets the whole step has, over all
// micro-batches and ranks), so that a step's gradient is that of the mean.
struct LossTerm {
  Head head;                           // an encoder-decoder: kCausalLm, of the targets
  std::span<const int32_t> rows = {};  // kMaskedLm, kCausalLm, kTag: which tokens; empty: all
  // A class for each row, or for each sequence (kNextSentence, kClassify); -1: none. kAnswer: two for each
  // sequence, its first and last token's place.
  std::span<const int32_t> targets = {};
  // Instead: numbers of a regression (B), or one for each of several labels (B, labels); kClassify.
  std::span<const float> values = {};
  // Instead: a teacher's logits, as the head would give them, and the temperature that both are divided by.
  Matrix<const float> teacher = {};
  float temperature = 1;
  // Instead: a teacher's last hidden states, one for each token of the batch. With the teacher, a language
  // model of the same vocabulary, its logits are computed from them as they are needed: all at once they
  // would be far more. Without it, the model's own last hidden states are to point where these do, and `head`
  // is not looked at.
  Matrix<const float> teacher_hidden = {};
  const Model* teacher_model = nullptr;
  // With targets of kClassify and kTag: what a class counts for in the loss (empty: 1 each), and the share of
  // a target that goes to all classes alike (label smoothing).
  std::span<const float> class_weights = {};
  float smoothing = 0;
  // With targets: the sum of their logits instead of a loss, to see what moves a prediction.
  bool logits = false;
  float scale = 1;
};

struct TrainingBatch {
  Batch batch;
  Batch target = {};  // encoder-decoder: what the decoder reads
  std::span<const LossTerm> terms;
  // What decides the dropout masks: a seed (none: no dropout), and the number of the batch's first sequence
  // in its step, so that masks do not depend on how a step is cut into micro-batches and ranks.
  std::optional<uint64_t> dropout_seed = {};
  uint32_t first_sequence = 0;
};

struct LearnerOptions {
  int threads = 0;  // 0: one for every core
  // Keep only what goes into a layer, and compute the rest again in the backward pass.
  bool recompute = false;
  bool bf16 = false;  // linear layers' products while it learns, where the machine has them
  // Fresh weights' heads look at words nearby (model/nearby.h); not for an encoder-decoder.
  bool nearby = false;
  // Embeddings and this many of the first layers stay as they are, and nothing goes back through them; heads
  // always learn. Nothing: all learn. Not for an encoder-decoder, nor where layers share weights.
  std::optional<size_t> frozen_layers = {};
  // Each layer learns with this times the rate of the one above it, the last with this times the heads' rate,
  // embeddings as a layer below the first.
  double layer_decay = 1;
};

// How a learner takes its parameters from a folder.
struct LearnerLoad {
  bool fresh_heads = false;  // the folder's heads are not looked at
  // Of the folder's model, the layers that become this one's, in order: a student of fewer than its teacher.
  // Empty: all. Where layers share weights it says nothing.
  std::vector<size_t> layers = {};
};

// A part of the flat blocks: a tensor, or several that are one product (queries, keys, values).
struct Segment {
  std::string name;
  size_t first = 0, count = 0;
  bool decays = true;                    // weight decay: not biases, not norms
  double rate = 1;                       // times the learning rate; 0: frozen
  kernels::StackedMatrices hidden = {};  // what a layer's product is made of; else without matrices
};

class Learner {
 public:
  virtual ~Learner() = default;

  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // Tensors by their names in checkpoints; read_back gives their numbers.
  virtual const std::vector<TensorSpec>& tensors() const = 0;
  virtual const std::vector<TensorSpec>& gradient_tensors() const = 0;
  virtual size_t memory() const = 0;  // bytes for activations so far
  virtual Team& team() = 0;           // not while a pass runs
  // Memory for batches of up to so many sequences of up to so many tokens with so many targets in all, so
  // that none is taken later.
  virtual void reserve(size_t sequences, size_t length, size_t targets) = 0;

  // Forward and back. sums[i] += the loss of term i, not scaled. Gradients are added to. `ready`, if there,
  // is told as the pass goes back: from this place of gradients() on to the end, all is final.
  using Ready = std::function<void(size_t first)>;
  virtual void learn(const TrainingBatch& training, std::span<LossSum> sums, const Ready& ready = {}) = 0;
  // Forward alone, without dropout.
  virtual void evaluate(const TrainingBatch& training, std::span<LossSum> sums) = 0;

  // config.json and model.safetensors, for transformers and Model::load.
  virtual void save(const std::filesystem::path& directory,
                    Precision precision = Precision::kFloat32) const = 0;
  // Reads parameters from such files. Heads that they do not have keep what they are, and are returned by
  // name; anything else that is missing or of another shape is an Error.
  virtual std::vector<std::string> load(const ModelFiles& files, const LearnerLoad& how = {}) = 0;

  // The parameters as a model for inference: it sees each step's. It must not be used after the learner is
  // gone, nor while it learns. Error for what is no Model: an encoder-decoder.
  virtual Model view() const;

 protected:
  std::span<float> parameters_, gradients_;
  std::vector<Segment> segments_;
};

// Error that names the first tensor with a NaN or an infinity: no step would ever be taken. `from` is where
// the parameters were read from, `field` the option that says so.
void check_finite(Learner& learner, const std::string& from, const std::string& field);

// Fresh parameters as BERT's authors drew them: normal with standard deviation 0.02 cut off at two of them,
// biases 0, LayerNorm's gamma 1 (GPT-2: what adds to the residual stream, less by √(2·layers)).
std::unique_ptr<Learner> make_learner(const Config& config, const std::vector<Head>& heads, uint64_t seed,
                                      const LearnerOptions& options);
std::unique_ptr<Learner> make_learner(const TransformerConfig& config, uint64_t seed,
                                      const LearnerOptions& options);

}  // namespace bertie
