#pragma once
// A network from before BERT: word vectors, an LSTM in each direction, and additive attention (Bahdanau et
// al. 2015) over its states, which says what a text's words are worth (Zhou et al. 2016).
//
//   x = table[word]                       (T, E)
//   s = [→h, ←h]                          (T, 2·H)     lstm.h
//   u = Σₜ aₜ·sₜ,  a = softmax(vᵀ·tanh(W₁ + W₂·s))     bertie/attention.h: the query is the number 1
//   logits = W·y + b                      y = s for each word; u for a text; [u, v, |u − v|, u∘v] for a pair,
//                                         whose texts go through the same weights
//
// backward: each of these in turn, the other way round. x and y are dropped out in learning.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bertie/attention.h"
#include "bertie/view.h"
#include "core/parallel.h"
#include "train/baselines/lstm.h"
#include "train/baselines/word_batch.h"

namespace bertie::baseline {

enum class Reads { kWords, kTexts, kPairs };  // what gets a row of logits

struct BiLstmShape {
  Reads reads = Reads::kTexts;
  size_t words = 0, outputs = 0;                   // of the vocabulary; logits of a row
  size_t width = 96, hidden = 96, attention = 96;  // E; H; of tanh(W₁ + W₂·s)
};

class BiLstm {
 public:
  BiLstm(const BiLstmShape& shape, uint64_t seed, int threads);

  // A row for each word in the order of the batch's `offsets`, for each sequence, or for each pair: sequence
  // i of the first half of the batch and i of the second. Valid until the next call.
  Matrix<float> forward(const WordBatch& batch, const Dropout& dropout = {});
  // Adds to the gradients; after forward with the same batch and dropout.
  void backward(const WordBatch& batch, Matrix<const float> d_logits, const Dropout& dropout = {});

  struct Tensor {
    std::string name;
    Matrix<float> values, gradient;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }  // [0]: a row for each word
  std::span<float> values() { return values_; }                    // of all tensors, one after the other
  std::span<float> gradients() { return gradients_; }
  Team& team() { return team_; }

 private:
  size_t features() const { return (shape_.reads == Reads::kPairs ? 8 : 2) * shape_.hidden; }
  Matrix<const float> tensor(size_t i) const { return tensors_[i].values; }
  Lstm direction(size_t d) const;
  AttentionOptions attention_options(const WordBatch& batch);
  void make_features(const WordBatch& batch);
  void features_backward(const WordBatch& batch);

  BiLstmShape shape_;
  std::vector<float> values_, gradients_;
  std::vector<Tensor> tensors_;
  Team team_;
  Workspace workspace_;

  // The last batch's, each grown to the largest seen.
  struct Numbers {
    std::vector<float> memory = {};
    Matrix<float> m = {};
    void shape(size_t rows, size_t cols);
  };
  LstmMemory memory_[2];
  Numbers x_, states_by_step_, states_, pooled_, y_, logits_;
  Numbers dx_[2], d_by_step_, d_states_, d_keys_, d_pooled_, dy_, d_ones_;
  std::vector<float> ones_, panels_;
  std::vector<int32_t> one_each_;
  std::vector<uint64_t> row_numbers_;
  AttentionSaved saved_;
};

}  // namespace bertie::baseline
