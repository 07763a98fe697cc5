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

void check_targets(const LossTerm& term, size_t wanted, size_t classes, size_t tokens) {
  const std::string_view name = name_of(term.head).name;
  if (term.targets.size() != wanted)
    throw Error(fmt::format("{}: {} targets where the batch asks for {}", name, term.targets.size(), wanted));
  for (int32_t target : term.targets)
    if (target >= 0 && size_t(target) >= classes)
      throw Error(fmt::format("{}: target {} is outside its {} outputs", name, target, classes));
  for (int32_t row : term.rows)
    if (row < 0 || size_t(row) >= tokens)
      throw Error(fmt::format("{}: row {} is not in the batch of {} tokens", name, row, tokens));
}

void HeadPass::check(const Batch& batch, const LossTerm& term) const {
  const std::string_view name = name_of(term.head).name;
  if (!w.has(term.head)) throw Error(fmt::format("the model has no {} head to learn with", name));
  size_t classes = w.config.labels.size();
  if (term.head == Head::kMaskedLm || term.head == Head::kCausalLm) classes = w.config.vocabulary;
  if (term.head == Head::kNextSentence) classes = 2;
  size_t wanted = batch.size();
  if (term.head == Head::kAnswer) {
    wanted = 2 * batch.size(), classes = SIZE_MAX;
  } else if (for_each_token(term.head)) {
    wanted = term.rows.empty() ? batch.ids.size() : term.rows.size();
  }
  for (size_t b = 0; b < batch.size() && !for_each_token(term.head); ++b)
    if (batch.offsets[b] == batch.offsets[b + 1] &&
        (!term.values.empty() || (b < term.targets.size() && term.targets[b] >= 0)))
      throw Error(fmt::format("{}: sequence {} has a target, but no tokens", name, b));
  if (!term.values.empty()) {
    const size_t numbers = term.head == Head::kClassify ? batch.size() * classes : 0;
    if (term.values.size() != numbers)
      throw Error(fmt::format("{}: {} values for {} outputs", name, term.values.size(), numbers));
    return;
  }
  check_targets(term, wanted, classes, batch.ids.size());
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
LossSum HeadPass::language_model(Matrix<const float> x, const LossTerm& term, Matrix<float> dx,
                                 float* workspace) const {
  const LanguageModelWeights& lm = w.language_model;
  const kernels::VocabularyHead head{decoder, lm.bias};
  const size_t rows = x.rows(), width = decoder.cols();
  const kernels::VocabularyGradient to{dx, decoder_gradient,
                                       gradient ? gradient->language_model.bias : nullptr};
  if (lm.dense.outputs == 0)
    return kernels::vocabulary_loss(x, head, term.targets, term.scale, gradient ? &to : nullptr, workspace,
                                    team);

  const Matrix<float> before = arena.take<float>(rows, width), y = arena.take<float>(rows, width);
  const kernels::Normalised norm = take_normalised(arena, rows, width);
  kernels::linear_forward(x, lm.dense, lm.activation, y, team, before);
  kernels::layer_norm_training_forward(y, {}, {}, lm.norm, {}, norm, y, team);
  if (!gradient) return kernels::vocabulary_loss(y, head, term.targets, term.scale, nullptr, workspace, team);
  const Matrix<float> d = arena.take<float>(rows, width);
  const kernels::VocabularyGradient through{d, to.d_table, to.d_bias};
  const LossSum sum = kernels::vocabulary_loss(y, head, term.targets, term.scale, &through, workspace, team);
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

// The mask of a classifier's input: a token's, or a sequence's, which is none of its tokens' (their numbers
// end below the half).
kernels::RowDropout HeadPass::mask_of(const LossTerm& term, size_t rows, size_t place) const {
  const double rate = w.config.classifier_dropout >= 0 ? w.config.classifier_dropout : w.config.dropout;
  if (!dropout_seed || rate == 0) return {};
  uint64_t* const numbers = arena.take<uint64_t>(rows);
  for (size_t r = 0; r < rows; ++r)
    numbers[r] = term.head == Head::kTag ? shape.rows[term.rows.empty() ? r : size_t(term.rows[r])]
                                         : uint64_t{shape.first_sequence + r} << 32 | 0x80000000u;
  PassShape own = shape;
  own.rows = {numbers, rows};
  return mask_for(own, float(rate), *dropout_seed, 1 + 2 * size_t(term.head) + place);
}

// kNextSentence, kClassify and kTag: x → out(f(dense(x))), or out(x), with what goes into them dropped out.
LossSum HeadPass::classify(Matrix<float> x, const LossTerm& term, Matrix<float> dx, float* workspace) const {
  const auto pick = [&](const Weights& of) -> std::pair<const kernels::Linear&, const kernels::Linear&> {
    if (term.head == Head::kTag) return {of.classifier_dense, of.tagger};
    const kernels::Linear& out = term.head == Head::kNextSentence ? of.next_sentence : of.classifier;
    return {uses_pooled(w, term.head) ? of.pooler : of.classifier_dense, out};
  };
  const auto [dense, out] = pick(w);
  const bool deep = term.head != Head::kTag && dense.outputs > 0;
  const Activation activation = uses_pooled(w, term.head) ? Activation::tanh : w.classifier_activation;
  const size_t rows = x.rows();
  const Matrix<float> before = deep ? arena.take<float>(rows, dense.outputs) : Matrix<float>();
  const Matrix<float> in = deep ? arena.take<float>(rows, out.inputs) : x,
                      logits = arena.take<float>(rows, out.outputs);
  const Family& f = *w.family;
  const bool classifier = term.head == Head::kClassify;
  const bool drops = classifier ? f.drops_classifier : term.head == Head::kTag || f.drops_next_sentence;
  const kernels::RowDropout mask = drops ? mask_of(term, rows, 0) : kernels::RowDropout{};
  const kernels::RowDropout input_mask =
      classifier && f.drops_classifier_input ? mask_of(term, rows, 1) : kernels::RowDropout{};
  if (input_mask.dropout.rate > 0) kernels::dropout_rows(x, input_mask, x, team);
  if (deep) kernels::linear_forward(x, dense, activation, in, team, before);
  if (mask.dropout.rate > 0) kernels::dropout_rows(in, mask, in, team);
  kernels::linear_forward(in, out, Activation::none, logits, team);
  const LossSum sum =
      term.values.empty()
          ? kernels::cross_entropy(logits, term.targets, term.scale, gradient != nullptr, team)
          : value_loss(w.config.problem == Problem::kRegression || out.outputs == 1, term.values, term.scale,
                       logits);
  if (!gradient) return sum;
  const auto [d_dense, d_out] = pick(*gradient);
  const Matrix<float> d_in = deep ? arena.take<float>(rows, out.inputs) : dx;
  backward(in, logits, out, d_out, d_in, workspace);
  if (mask.dropout.rate > 0) kernels::dropout_rows(d_in, mask, d_in, team);
  if (!deep) return sum;
  kernels::activation_backward(activation, before, d_in, {}, team);
  backward(x, d_in, dense, d_dense, dx, workspace);
  if (input_mask.dropout.rate > 0) kernels::dropout_rows(dx, input_mask, dx, team);
  return sum;
}

LossSum HeadPass::answer(const Batch& batch, const LossTerm& term, Matrix<const float> hidden,
                         Matrix<float> d_hidden, float* workspace) const {
  const size_t tokens = hidden.rows();
  const Matrix<float> logits = arena.take<float>(tokens, 2);
  kernels::linear_forward(hidden, w.answerer, Activation::none, logits, team);
  float* const column = arena.take<float>(tokens);
  LossSum sum;
  for (size_t s = 0; s < batch.size(); ++s) {
    const auto first = size_t(batch.offsets[s]), n = size_t(batch.offsets[s + 1]) - first;
    size_t right = 0, counted = 0;
    for (size_t end : {size_t{0}, size_t{1}}) {
      for (size_t t = 0; t < n; ++t) column[t] = logits(first + t, end);
      int32_t target = term.targets[2 * s + end];
      if (target >= 0 && size_t(target) >= n) target = -1;  // not in this window
      const LossSum one =
          kernels::cross_entropy({column, n > 0, n}, {&target, n > 0}, term.scale / 2, true, team);
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

HeadPass::Memory HeadPass::memory_for(size_t rows, size_t tokens) const {
  const size_t wide = std::max(w.config.hidden, w.config.embedding_size());
  const kernels::Linear* const layers[] = {
      &w.language_model.dense, &w.pooler, &w.next_sentence, &w.classifier_dense,
      &w.classifier,           &w.tagger, &w.answerer};
  size_t floats = kernels::layer_norm_backward_workspace(rows, wide);
  for (const kernels::Linear* l : layers)
    if (l->outputs > 0) floats = std::max(floats, workspace_for(*l, l == &w.answerer ? tokens : rows));
  if (!decoder.empty())
    floats = std::max(
        floats, kernels::vocabulary_loss_workspace(rows, decoder.rows(), decoder.cols(), team.threads()));
  const size_t outputs = std::max<size_t>(2, w.config.labels.size());
  const Checked bytes = Checked(7) * Arena::bytes_for<float>(rows * wide) + Arena::bytes_for<float>(floats) +
                        Arena::bytes_for<float>(std::max(rows, tokens) * (outputs + 1)) +
                        Checked(4) * Arena::bytes_for<uint64_t>(std::max(rows, tokens));
  return {floats, bytes.value()};
}

void HeadPass::reserve(size_t rows, size_t tokens) const { arena.reset(memory_for(rows, tokens).bytes); }

LossSum HeadPass::run(const Batch& batch, const LossTerm& term, Matrix<const float> hidden,
                      Matrix<float> d_hidden) const {
  const bool per_token = for_each_token(term.head);
  const size_t rows = !per_token ? batch.size() : term.rows.empty() ? hidden.rows() : term.rows.size();
  const size_t width = hidden.cols();
  const Memory memory = memory_for(rows, hidden.rows());
  arena.reset(memory.bytes);
  float* const workspace = arena.take<float>(memory.workspace);
  if (term.head == Head::kAnswer) return answer(batch, term, hidden, d_hidden, workspace);

  // The rows that have something to say, one after the other; of an empty sequence (which has no target, see
  // check) zeros, that teach nobody.
  int32_t* const from = arena.take<int32_t>(rows);
  const Matrix<float> x = arena.take<float>(rows, width);
  for (size_t i = 0; i < rows; ++i) {
    const ptrdiff_t row = !per_token ? speaker(w, batch, i) : term.rows.empty() ? ptrdiff_t(i) : term.rows[i];
    from[i] = int32_t(std::max<ptrdiff_t>(row, 0));
    if (row >= 0)
      std::copy_n(hidden.row(size_t(row)), width, x.row(i));
    else
      std::fill_n(x.row(i), width, 0.0f);
  }
  const Matrix<float> dx = gradient ? arena.take<float>(rows, width) : Matrix<float>();
  const bool language = term.head == Head::kMaskedLm || term.head == Head::kCausalLm;
  const LossSum sum = language ? language_model(x, term, dx, workspace) : classify(x, term, dx, workspace);
  if (gradient) kernels::embedding_backward({from, rows}, dx, 1, d_hidden, team);
  return sum;
}

}  // namespace bertie
