#pragma once
// What sits on top of the layers: the pooler and the heads, with their losses. A head is the same chain
// forward and back, for inference and learning:
//
//   language model   z = decoder(norm(f(dense(h)))) + bias, or decoder(h)
//   next sentence    z = W·tanh(pooler(first)) + b
//   classify         z = W·tanh(pooler(first)) + b, or out(f(dense(first)))
//   tag, answer      z = W·h + b, for each token
//
// Losses: cross-entropy of a class c, with label smoothing ε and class weights w over K classes
// −w[c]·Σⱼ ((1 − ε)·[j = c] + ε/K)·log softmax(z)[j]; regression (z − v)²; several labels −v·log σ(z) − (1 −
// v)·log(1 − σ(z)), whose slope is σ(z) − v; an answer half the cross-entropy of its first token's place and
// half that of its last's, each over the places of its sequence; a teacher's logits t: T²·KL(softmax(t/T) ‖
// softmax(z/T)); a teacher's hidden states g: 1 − cos(h, g), whose slope is (cos(h, g)·h/|h| − g/|g|)/|h|.
#include "model/learner.h"
#include "model/pass.h"
#include "model/trunk.h"
#include "model/weights.h"

namespace bertie {

// Whether a head says something about each token, or about a sequence.
bool for_each_token(Head head);
// Whether a head begins with the pooler.
bool uses_pooled(const Weights& w, Head head);

// What `capture` asks of this model beyond its layers; Error for what the model does not have.
void check_heads(const Weights& w, const Batch& batch, const Capture& capture);
// Error for a loss term that does not fit the model or the batch.
void check_term(const Weights& w, const Batch& batch, const LossTerm& term);
// Error unless a term has one of targets, values and what a teacher says, and a temperature that makes sense.
void check_kind(const LossTerm& term);
// Error unless a term has `wanted` targets below `classes`, and rows within the batch's tokens.
void check_targets(const LossTerm& term, size_t wanted, size_t classes, size_t tokens);

// Which of the last hidden states heads read: the last layer need not compute others.
struct RowsRead {
  std::vector<int32_t> rows;    // ascending; empty: all
  std::vector<int32_t> places;  // of each row of the batch among `rows`, or -1; empty: all are there

  void find(const Weights& w, const Batch& batch, const Capture& capture);
  void find(const Weights& w, const Batch& batch, std::span<const LossTerm> terms);

 private:
  bool add(const Weights& w, Head head, const Batch& batch, std::span<const int32_t> tokens);  // false: all
  void settle(bool some);
};

// The pooled vectors and the logits that `capture` asks for, within Arena::run. `hidden` has the rows that
// RowsRead found, and `places` is its.
struct HeadOutputs {
  Matrix<const float> pooled, logits;
};
HeadOutputs head_outputs(const Weights& w, const Batch& batch, const Capture& capture,
                         Matrix<const float> hidden, std::span<const int32_t> places, Pass& pass);

// The loss of one term, within Arena::run. With `gradient`, parameters' gradients are added to it and the
// hidden states' to d_hidden.
struct HeadLoss {
  const Weights& w;
  const Weights* gradient = nullptr;
  DropoutSeed dropout = {};
  std::span<const int32_t> places = {};  // RowsRead's
  Pass& pass;

  LossSum run(const Batch& batch, const LossTerm& term, Matrix<const float> hidden,
              Matrix<float> d_hidden) const;

 private:
  // 1 − cos of the hidden states and a teacher's.
  LossSum cosine(const LossTerm& term, Matrix<const float> hidden, Matrix<float> d_hidden) const;
  LossSum answer(const Batch& batch, const LossTerm& term, Matrix<const float> hidden,
                 Matrix<float> d_hidden) const;
  LossSum loss_of(const LossTerm& term, Matrix<float> logits) const;
  RowDropout mask_of(const LossTerm& term, size_t rows, size_t place) const;
};

// A language model's last product and its loss: x (rows, E), table (V, E) the words, bias (V) or null.
struct VocabularyTerm {
  Matrix<const float> x, table;
  const float* bias = nullptr;
  Matrix<float> dx = {}, d_table = {};  // with a way back
  float* d_bias = nullptr;
  // A teacher's last product, and what goes into it, a row for each of x; or none: the term has its logits.
  const kernels::Linear* teacher = nullptr;
  Matrix<const float> teacher_x = {};
};
LossSum vocabulary_loss(const VocabularyTerm& v, const LossTerm& term, Pass& pass);

// The gradients of rows that Pass::gather_rows took, back: to[rows] += d.
void scatter_rows(Matrix<const float> d, std::span<const int32_t> rows, Matrix<float> to, Pass& pass);

}  // namespace bertie
