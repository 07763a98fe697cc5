#pragma once
// The heads in training: a term's loss, and its gradient back to the hidden states. Each head's forward is
// that of heads.cc with what the way back needs kept; rows that nobody has a target for are not computed.
//
//   language model   z = decoder(norm(f(dense(h)))) + bias, or decoder(h); cross-entropy over the vocabulary
//   next sentence    z = W·tanh(pooler(first)) + b; cross-entropy
//   classify         cross-entropy; regression: (z − v)²;
//                    several labels: −v·log σ(z) − (1 − v)·log(1 − σ(z)), whose slope is σ(z) − v
//   tag              cross-entropy of each token
//   answer           half the cross-entropy of the first token's place and half that of the last's,
//                    each over the places of its sequence
#include "core/arena.h"
#include "core/parallel.h"
#include "model/layer_pass.h"
#include "model/learner.h"
#include "model/weights.h"

namespace bertie {

// Error unless a term has `wanted` targets below `classes`, and rows within the batch's tokens.
void check_targets(const LossTerm& term, size_t wanted, size_t classes, size_t tokens);

struct HeadPass {
  const Weights& w;
  const Weights* gradient = nullptr;  // null: the loss alone
  Matrix<const float> decoder = {};   // the language model's table, (V, E)
  Matrix<float> decoder_gradient = {};
  const PassShape& shape;
  std::optional<uint64_t> dropout_seed = {};
  Arena& arena;  // the pass resets it
  Team& team;

  // Room for terms with so many rows, in a batch of so many tokens.
  void reserve(size_t rows, size_t tokens) const;
  // Error for a term that does not fit the model or the batch.
  void check(const Batch& batch, const LossTerm& term) const;
  // d_hidden is added to.
  LossSum run(const Batch& batch, const LossTerm& term, Matrix<const float> hidden, Matrix<float> d_hidden) const;

 private:
  struct Memory {
    size_t workspace, bytes;  // floats that kernels share; all of what a run takes
  };
  Memory memory_for(size_t rows, size_t tokens) const;
  LossSum language_model(Matrix<const float> x, const LossTerm& term, Matrix<float> dx, float* workspace) const;
  LossSum classify(Matrix<float> x, const LossTerm& term, Matrix<float> dx, float* workspace) const;
  LossSum answer(const Batch& batch, const LossTerm& term, Matrix<const float> hidden, Matrix<float> d_hidden,
                 float* workspace) const;
  kernels::RowDropout mask_of(const LossTerm& term, size_t rows, size_t place) const;
  void backward(Matrix<const float> x, Matrix<const float> dy, const kernels::Linear& layer,
                const kernels::Linear& gradient, Matrix<float> dx, float* workspace) const;
};

}  // namespace bertie
