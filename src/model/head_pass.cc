#include "model/head_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/checked.h"
#include "kernels/embedding.h"
#include "model/heads.h"

namespace bertie {

using kernels::Accumulate, kernels::Activation;

void check_targets(const Goal& goal, size_t wanted, size_t classes, size_t tokens) {
  const std::string_view name = name_of(goal.head).name;
  if (goal.targets.size() != wanted)
    throw Error(fmt::format("{}: {} targets where the batch asks for {}", name, goal.targets.size(), wanted));
  for (int32_t target : goal.targets)
    if (target >= 0 && size_t(target) >= classes)
      throw Error(fmt::format("{}: target {} is outside its {} outputs", name, target, classes));
  for (int32_t row : goal.rows)
    if (row < 0 || size_t(row) >= tokens)
      throw Error(fmt::format("{}: row {} is not in the batch of {} tokens", name, row, tokens));
}

void HeadPass::check(const Batch& batch, const Goal& goal) const {
  const std::string_view name = name_of(goal.head).name;
  if (!w.has(goal.head)) throw Error(fmt::format("the model has no {} head to learn with", name));
  size_t classes = w.config.labels.size();
  if (goal.head == Head::kMaskedLm || goal.head == Head::kCausalLm) classes = w.config.vocabulary;
  if (goal.head == Head::kNextSentence) classes = 2;
  size_t wanted = batch.size();
  if (goal.head == Head::kAnswer) {
    wanted = 2 * batch.size(), classes = SIZE_MAX;
  } else if (for_each_token(goal.head)) {
    wanted = goal.rows.empty() ? batch.ids.size() : goal.rows.size();
  }
  if (!goal.values.empty()) {
    const size_t numbers = goal.head == Head::kClassify ? batch.size() * classes : 0;
    if (goal.values.size() != numbers)
      throw Error(fmt::format("{}: {} values for {} outputs", name, goal.values.size(), numbers));
    return;
  }
  check_targets(goal, wanted, classes, batch.ids.size());
}

void HeadPass::backward(Matrix<const float> x, Matrix<const float> dy, const kernels::Linear& layer,
                        const kernels::Linear& to, Matrix<float> dx, float* workspace) const {
  kernels::linear_backward_weights(x, dy, to, workspace, team);
  kernels::linear_backward_input(dy, layer, dx, workspace, team);
}

namespace {

size_t workspace_for(const kernels::Linear& layer, size_t rows) {
  return std::max(kernels::linear_backward_input_workspace(layer),
                  kernels::linear_backward_weights_workspace(layer, rows));
}

}  // namespace

// h → decoder(norm(f(dense(h)))), x being the rows that have targets.
LossSum HeadPass::language_model(Matrix<const float> x, const Goal& goal, Matrix<float> dx) const {
  const LanguageModelWeights& lm = w.language_model;
  const kernels::VocabularyHead head{decoder, lm.bias};
  const size_t rows = x.rows(), width = decoder.cols();
  float* const workspace =
      arena.take<float>(kernels::vocabulary_loss_workspace(rows, decoder.rows(), width, team.threads()));
  const kernels::VocabularyGradient to{dx, decoder_gradient,
                                       gradient ? gradient->language_model.bias : nullptr};
  if (lm.dense.outputs == 0)
    return kernels::vocabulary_loss(x, head, goal.targets, goal.scale, gradient ? &to : nullptr, workspace,
                                    team);

  const Matrix<float> before = arena.take<float>(rows, width), y = arena.take<float>(rows, width);
  const kernels::Normalised norm = take_normalised(arena, rows, width);
  kernels::linear_forward(x, lm.dense, lm.activation, y, team, before);
  kernels::layer_norm_training_forward(y, {}, {}, lm.norm, {}, norm, y, team);
  if (!gradient) return kernels::vocabulary_loss(y, head, goal.targets, goal.scale, nullptr, workspace, team);
  const Matrix<float> d = arena.take<float>(rows, width);
  const kernels::VocabularyGradient through{d, to.d_table, to.d_bias};
  const LossSum sum = kernels::vocabulary_loss(y, head, goal.targets, goal.scale, &through, workspace, team);
  kernels::layer_norm_training_backward(d, norm, lm.norm, {}, {}, d, {}, gradient->language_model.norm,
                                        workspace, team);
  kernels::activation_backward(lm.activation, before, d, {}, team);
  backward(x, d, lm.dense, gradient->language_model.dense, dx, workspace);
  return sum;
}

namespace {

// Regression and several labels: z becomes its gradient.
LossSum value_loss(bool regression, std::span<const float> values, float scale, Matrix<float> z) {
  LossSum sum;
  for (size_t i = 0; i < values.size(); ++i) {
    float& logit = z(i / z.cols(), i % z.cols());
    const double x = logit, v = values[i];
    const double sigmoid = 1 / (1 + std::exp(-x));
    sum.loss +=
        regression ? (x - v) * (x - v) : std::max(x, 0.0) - x * v + std::log1p(std::exp(-std::abs(x)));
    sum.right += !regression && (x > 0) == (v > 0.5);
    logit = float(scale * (regression ? 2 * (x - v) : sigmoid - v));
  }
  sum.count = values.size();
  return sum;
}

}  // namespace

// kNextSentence, kClassify and kTag: x → out(f(dense(x))), or out(x). A classifier's input is dropped out.
LossSum HeadPass::classify(Matrix<const float> x, const Goal& goal, Matrix<float> dx) const {
  const auto pick = [&](const Weights& of) -> std::pair<const kernels::Linear&, const kernels::Linear&> {
    if (goal.head == Head::kTag) return {of.classifier_dense, of.tagger};
    const kernels::Linear& out = goal.head == Head::kNextSentence ? of.next_sentence : of.classifier;
    return {uses_pooled(w, goal.head) ? of.pooler : of.classifier_dense, out};
  };
  const auto [dense, out] = pick(w);
  const bool deep = goal.head != Head::kTag && dense.outputs > 0;
  const Activation f = uses_pooled(w, goal.head) ? Activation::tanh : w.classifier_activation;
  const size_t rows = x.rows();
  float* const workspace =
      arena.take<float>(std::max(workspace_for(out, rows), deep ? workspace_for(dense, rows) : 0));
  const Matrix<float> before = deep ? arena.take<float>(rows, dense.outputs) : Matrix<float>();
  const Matrix<float> in = arena.take<float>(rows, out.inputs), logits = arena.take<float>(rows, out.outputs);
  if (deep)
    kernels::linear_forward(x, dense, f, in, team, before);
  else
    for (size_t r = 0; r < rows; ++r) std::copy_n(x.row(r), x.cols(), in.row(r));
  // A sequence's mask is none of its tokens': their numbers end below the half.
  const bool drops = dropout_seed && goal.head != Head::kNextSentence && w.config.dropout > 0;
  PassShape own = shape;
  kernels::RowDropout mask;
  if (drops) {
    uint64_t* const numbers = arena.take<uint64_t>(rows);
    for (size_t r = 0; r < rows; ++r)
      numbers[r] = goal.head == Head::kTag ? shape.rows[goal.rows.empty() ? r : size_t(goal.rows[r])]
                                           : uint64_t{shape.first_sequence + r} << 32 | 0x80000000u;
    own.rows = {numbers, rows};
    mask = mask_for(own, float(w.config.dropout), *dropout_seed, 1 + size_t(goal.head));
  }
  if (drops) kernels::dropout_rows(in, mask, in, team);
  kernels::linear_forward(in, out, Activation::none, logits, team);
  const LossSum sum =
      goal.values.empty()
          ? kernels::cross_entropy(logits, goal.targets, goal.scale, gradient != nullptr, team)
          : value_loss(w.config.problem == Problem::kRegression || out.outputs == 1, goal.values, goal.scale,
                       logits);
  if (!gradient) return sum;
  const auto [d_dense, d_out] = pick(*gradient);
  const Matrix<float> d_in = deep ? arena.take<float>(rows, out.inputs) : dx;
  backward(in, logits, out, d_out, d_in, workspace);
  if (drops) kernels::dropout_rows(d_in, mask, d_in, team);
  if (!deep) return sum;
  kernels::activation_backward(f, before, d_in, {}, team);
  backward(x, d_in, dense, d_dense, dx, workspace);
  return sum;
}

LossSum HeadPass::answer(const Batch& batch, const Goal& goal, Matrix<const float> hidden,
                         Matrix<float> d_hidden) const {
  const size_t tokens = hidden.rows();
  float* const workspace = arena.take<float>(workspace_for(w.answerer, tokens));
  const Matrix<float> logits = arena.take<float>(tokens, 2);
  kernels::linear_forward(hidden, w.answerer, Activation::none, logits, team);
  float* const column = arena.take<float>(tokens);
  LossSum sum;
  for (size_t s = 0; s < batch.size(); ++s) {
    const auto first = size_t(batch.offsets[s]), n = size_t(batch.offsets[s + 1]) - first;
    size_t right = 0, counted = 0;
    for (size_t end : {size_t{0}, size_t{1}}) {
      for (size_t t = 0; t < n; ++t) column[t] = logits(first + t, end);
      int32_t target = goal.targets[2 * s + end];
      if (target >= 0 && size_t(target) >= n) target = -1;  // not in this window
      const LossSum one =
          kernels::cross_entropy({column, n > 0, n}, {&target, n > 0}, goal.scale / 2, true, team);
      sum.loss += one.loss / 2, right += one.right, counted += one.count;
      for (size_t t = 0; t < n; ++t) logits(first + t, end) = target >= 0 ? column[t] : 0.0f;
    }
    sum.count += counted > 0, sum.right += counted > 0 && right == counted;
  }
  if (!gradient) return sum;
  kernels::linear_backward_weights(hidden, logits, gradient->answerer, workspace, team);
  kernels::linear_backward_input(logits, w.answerer, d_hidden, workspace, team, Accumulate::yes);
  return sum;
}

LossSum HeadPass::run(const Batch& batch, const Goal& goal, Matrix<const float> hidden,
                      Matrix<float> d_hidden) const {
  const bool per_token = for_each_token(goal.head);
  const size_t rows = !per_token ? batch.size() : goal.rows.empty() ? hidden.rows() : goal.rows.size();
  const size_t width = hidden.cols(), wide = std::max(width, w.config.embedding_size());
  const kernels::Linear* const layers[] = {
      &w.language_model.dense, &w.pooler, &w.next_sentence, &w.classifier_dense,
      &w.classifier,           &w.tagger, &w.answerer};
  size_t workspace = kernels::layer_norm_backward_workspace(rows, wide);
  for (const kernels::Linear* l : layers)
    if (l->outputs > 0)
      workspace = std::max(workspace, workspace_for(*l, goal.head == Head::kAnswer ? hidden.rows() : rows));
  if (!decoder.empty())
    workspace = std::max(
        workspace, kernels::vocabulary_loss_workspace(rows, decoder.rows(), decoder.cols(), team.threads()));
  const size_t outputs = std::max<size_t>(2, w.config.labels.size());
  arena.reset((Checked(7) * Arena::bytes_for<float>(rows * wide) + Arena::bytes_for<float>(workspace) +
               Arena::bytes_for<float>(std::max(rows, hidden.rows()) * (outputs + 1)) +
               Checked(4) * Arena::bytes_for<uint64_t>(rows))
                  .value());
  if (goal.head == Head::kAnswer) return answer(batch, goal, hidden, d_hidden);

  // The rows that have something to say, one after the other.
  int32_t* const from = arena.take<int32_t>(rows);
  for (size_t i = 0; i < rows; ++i)
    from[i] = !per_token ? int32_t(speaker(w, batch, i)) : goal.rows.empty() ? int32_t(i) : goal.rows[i];
  const Matrix<float> x = arena.take<float>(rows, width);
  for (size_t i = 0; i < rows; ++i)
    if (from[i] >= 0)
      std::copy_n(hidden.row(size_t(from[i])), width, x.row(i));
    else
      std::fill_n(x.row(i), width, 0.0f), from[i] = 0;  // of an empty sequence, which has no target
  const Matrix<float> dx = gradient ? arena.take<float>(rows, width) : Matrix<float>();
  const bool language = goal.head == Head::kMaskedLm || goal.head == Head::kCausalLm;
  const LossSum sum = language ? language_model(x, goal, dx) : classify(x, goal, dx);
  if (gradient) kernels::embedding_backward({from, rows}, dx, 1, d_hidden, team);
  return sum;
}

}  // namespace bertie
