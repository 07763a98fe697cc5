#include "train/baselines/bilstm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"

namespace bertie::baseline {
namespace {

using kernels::Accumulate, kernels::matmul, kernels::transposed;

// Places of the tensors.
enum : size_t {
  kTable,
  kForwardX,
  kForwardH,
  kForwardBias,
  kBackwardX,
  kBackwardH,
  kBackwardBias,
  kOutput,
  kOutputBias,
  kScoreQuery,
  kScoreKey,
  kScoreV
};

// Masks of x and of y are not the same.
Dropout of_features(Dropout dropout) {
  dropout.seed = ~dropout.seed;
  return dropout;
}

}  // namespace

void BiLstm::Numbers::shape(size_t rows, size_t cols) {
  if (memory.size() < rows * cols) memory.resize(rows * cols);
  m = {memory.data(), rows, cols};
}

BiLstm::BiLstm(const BiLstmShape& shape, uint64_t seed, int threads)
    : shape_(shape), team_(threads), workspace_(threads) {
  const size_t h = shape.hidden;
  struct Place {
    const char* name;
    size_t rows, cols;
  };
  std::vector<Place> places = {{"table", shape.words, shape.width},
                               {"forward.wx", 4 * h, shape.width},
                               {"forward.wh", 4 * h, h},
                               {"forward.bias", 1, 4 * h},
                               {"backward.wx", 4 * h, shape.width},
                               {"backward.wh", 4 * h, h},
                               {"backward.bias", 1, 4 * h},
                               {"output", shape.outputs, features()},
                               {"output.bias", 1, shape.outputs}};
  if (shape.reads != Reads::kWords) {
    places.push_back({"attention.w1", shape.attention, 1});
    places.push_back({"attention.w2", shape.attention, 2 * h});
    places.push_back({"attention.v", 1, shape.attention});
  }
  size_t all = 0;
  for (const Place& p : places) all += p.rows * p.cols;
  values_.resize(all), gradients_.resize(all);
  float *value = values_.data(), *gradient = gradients_.data();
  for (const Place& p : places) {
    tensors_.push_back({p.name, {value, p.rows, p.cols}, {gradient, p.rows, p.cols}});
    value += p.rows * p.cols, gradient += p.rows * p.cols;
  }
  // Biases are 0, but that of the forget gate 1: at first everything is remembered (Jozefowicz et al. 2015).
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Random random(seed, i);
    const Matrix<float> m = tensors_[i].values;
    const bool bias = tensors_[i].name.ends_with("bias") || i == kScoreQuery;
    const float scale = i == kTable ? 0.1f : 1 / std::sqrt(float(m.cols()));
    for (size_t r = 0; r < m.rows() && !bias; ++r)
      for (float& v : m[r]) v = scale * random.normal();
  }
  for (const size_t i : {size_t(kForwardBias), size_t(kBackwardBias)})
    std::fill_n(tensors_[i].values.data() + h, h, 1.0f);
}

Lstm BiLstm::direction(size_t d) const {
  const size_t first = d == 0 ? kForwardX : kBackwardX;
  return {tensor(first), tensor(first + 1), tensor(first + 2)[0]};
}

AttentionOptions BiLstm::attention_options(const WordBatch& batch) {
  return {.score = Score::additive(tensor(kScoreQuery), tensor(kScoreKey), tensor(kScoreV)),
          .q_offsets = one_each_,
          .k_offsets = batch.offsets,
          .workspace = &workspace_};
}

// y from the states.
void BiLstm::make_features(const WordBatch& batch) {
  const size_t width = 2 * shape_.hidden, sequences = batch.sequences();
  if (shape_.reads == Reads::kWords) {
    y_.shape(states_.m.rows(), width);
    std::copy_n(states_.m.data(), states_.m.rows() * width, y_.m.data());
    return;
  }
  ones_.assign(sequences, 1);
  one_each_.resize(sequences + 1);
  std::iota(one_each_.begin(), one_each_.end(), 0);
  pooled_.shape(sequences, width);
  attention(Matrix<const float>(ones_.data(), sequences, 1), states_.m, states_.m, pooled_.m, saved_,
            attention_options(batch));
  const bool pairs = shape_.reads == Reads::kPairs;
  const size_t rows = pairs ? sequences / 2 : sequences;
  y_.shape(rows, features());
  for (size_t r = 0; r < rows; ++r) {
    const float* u = pooled_.m.row(r);
    float* y = y_.m.row(r);
    std::copy_n(u, width, y);
    if (!pairs) continue;
    const float* v = pooled_.m.row(rows + r);
    for (size_t j = 0; j < width; ++j) {
      y[width + j] = v[j];
      y[2 * width + j] = std::abs(u[j] - v[j]);
      y[3 * width + j] = u[j] * v[j];
    }
  }
}

// From dy to d_states.
void BiLstm::features_backward(const WordBatch& batch) {
  const size_t width = 2 * shape_.hidden, rows = dy_.m.rows();
  d_states_.shape(states_.m.rows(), width);
  if (shape_.reads == Reads::kWords) {
    std::copy_n(dy_.m.data(), rows * width, d_states_.m.data());
    return;
  }
  d_pooled_.shape(batch.sequences(), width);
  const bool pairs = shape_.reads == Reads::kPairs;
  for (size_t r = 0; r < rows; ++r) {
    const float* dy = dy_.m.row(r);
    float* du = d_pooled_.m.row(r);
    std::copy_n(dy, width, du);
    if (!pairs) continue;
    const float *u = pooled_.m.row(r), *v = pooled_.m.row(rows + r);
    float* dv = d_pooled_.m.row(rows + r);
    for (size_t j = 0; j < width; ++j) {
      const float apart = u[j] > v[j] ? dy[2 * width + j] : u[j] < v[j] ? -dy[2 * width + j] : 0;
      du[j] += apart + v[j] * dy[3 * width + j];
      dv[j] = dy[width + j] - apart + u[j] * dy[3 * width + j];
    }
  }
  d_ones_.shape(batch.sequences(), 1), d_keys_.shape(states_.m.rows(), width);
  attention_backward(Matrix<const float>(ones_.data(), batch.sequences(), 1), states_.m, states_.m, pooled_.m,
                     saved_, d_pooled_.m,
                     {.q = d_ones_.m,
                      .k = d_keys_.m,
                      .v = d_states_.m,
                      .w1 = tensors_[kScoreQuery].gradient,
                      .w2 = tensors_[kScoreKey].gradient,
                      .additive_v = tensors_[kScoreV].gradient},
                     attention_options(batch));
  for (size_t i = 0; i < states_.m.rows() * width; ++i) d_states_.m.data()[i] += d_keys_.m.data()[i];
}

Matrix<float> BiLstm::forward(const WordBatch& batch, const Dropout& dropout) {
  const size_t words = batch.words.size(), hidden = shape_.hidden;
  x_.shape(words, shape_.width), states_by_step_.shape(words, 2 * hidden), states_.shape(words, 2 * hidden);
  for (size_t r = 0; r < words; ++r) std::ranges::copy(tensor(kTable)[size_t(batch.words[r])], x_.m.row(r));
  row_numbers_.resize(std::max(words, batch.sequences()));
  std::iota(row_numbers_.begin(), row_numbers_.end(), uint64_t{0});
  const auto numbers = [&](size_t rows) { return std::span<const uint64_t>(row_numbers_).first(rows); };
  kernels::dropout_rows(x_.m, {dropout, numbers(words)}, x_.m, team_);
  team_.parallel_for(2, [&](size_t d) {
    lstm_forward(x_.m, batch.steps, Direction(d), direction(d),
                 states_by_step_.m.slice_cols(d * hidden, hidden), memory_[d]);
  });
  for (size_t i = 0; i < words; ++i)
    std::ranges::copy(states_by_step_.m[size_t(batch.rows[i])], states_.m.row(i));
  make_features(batch);
  kernels::dropout_rows(y_.m, {of_features(dropout), numbers(y_.m.rows())}, y_.m, team_);

  logits_.shape(y_.m.rows(), shape_.outputs);
  for (size_t r = 0; r < y_.m.rows(); ++r) std::ranges::copy(tensor(kOutputBias)[0], logits_.m.row(r));
  panels_.resize(std::max(panels_.size(), kernels::matmul_workspace_floats(features(), shape_.outputs)));
  matmul(y_.m, transposed(tensor(kOutput)), logits_.m, panels_.data(), team_, Accumulate::kYes);
  return logits_.m;
}

void BiLstm::backward(const WordBatch& batch, Matrix<const float> d_logits, const Dropout& dropout) {
  const size_t words = batch.words.size(), hidden = shape_.hidden, rows = d_logits.rows();
  const auto numbers = [&](size_t count) { return std::span<const uint64_t>(row_numbers_).first(count); };
  panels_.resize(std::max({panels_.size(), kernels::matmul_workspace_floats(rows, features()),
                           kernels::matmul_workspace_floats(shape_.outputs, features())}));
  dy_.shape(rows, features());
  matmul(d_logits, tensor(kOutput), dy_.m, panels_.data(), team_);
  matmul(transposed(d_logits), y_.m, tensors_[kOutput].gradient, panels_.data(), team_, Accumulate::kYes);
  for (size_t r = 0; r < rows; ++r)
    for (size_t k = 0; k < shape_.outputs; ++k) tensors_[kOutputBias].gradient(0, k) += d_logits(r, k);
  kernels::dropout_rows(dy_.m, {of_features(dropout), numbers(rows)}, dy_.m, team_);
  features_backward(batch);

  d_by_step_.shape(words, 2 * hidden);
  for (size_t i = 0; i < words; ++i)
    std::ranges::copy(d_states_.m[i], d_by_step_.m.row(size_t(batch.rows[i])));
  for (Numbers& dx : dx_) dx.shape(words, shape_.width);
  team_.parallel_for(2, [&](size_t d) {
    const size_t first = d == 0 ? kForwardX : kBackwardX;
    lstm_backward(x_.m, batch.steps, Direction(d), direction(d), memory_[d],
                  d_by_step_.m.slice_cols(d * hidden, hidden), dx_[d].m,
                  {tensors_[first].gradient, tensors_[first + 1].gradient, tensors_[first + 2].gradient[0]});
  });
  for (size_t i = 0; i < words * shape_.width; ++i) dx_[0].m.data()[i] += dx_[1].m.data()[i];
  kernels::dropout_rows(dx_[0].m, {dropout, numbers(words)}, dx_[0].m, team_);
  kernels::embedding_backward(batch.words, dx_[0].m, 1, tensors_[kTable].gradient, team_);
}

}  // namespace bertie::baseline
