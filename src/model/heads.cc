#include "model/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "kernels/embedding.h"
#include "kernels/matmul.h"
#include "model/access.h"

namespace bertie {
namespace {

bool is_language_model(Head head) { return head == Head::kMaskedLm || head == Head::kCausalLm; }

size_t outputs_of(const Weights& w, Head head) {
  if (is_language_model(head)) return w.config.vocabulary;
  return head == Head::kNextSentence || head == Head::kAnswer ? 2 : w.config.labels.size();
}

// A head's chain: out(norm(f(dense(x)))), where dense and norm may be missing.
struct Chain {
  const kernels::Linear* dense = nullptr;
  Activation activation = Activation::kNone;
  const kernels::LayerNorm* norm = nullptr;
  const kernels::Linear* out = nullptr;  // null: the language model's, which is a table
};

Chain chain_of(const Weights& w, Head head) {
  const auto there = [](const kernels::Linear& l) { return l.outputs > 0 ? &l : nullptr; };
  const LanguageModelWeights& lm = w.language_model;
  switch (head) {
    case Head::kMaskedLm:
    case Head::kCausalLm:
      return {there(lm.dense), lm.activation, lm.dense.outputs > 0 ? &lm.norm : nullptr, nullptr};
    case Head::kNextSentence:
      return {&w.pooler, Activation::kTanh, nullptr, &w.next_sentence};
    case Head::kClassify:
      if (uses_pooled(w, head)) return {&w.pooler, Activation::kTanh, nullptr, &w.classifier};
      return {there(w.classifier_dense), w.classifier_activation, nullptr, &w.classifier};
    case Head::kTag:
      return {.out = &w.tagger};
    case Head::kAnswer:
      return {.out = &w.answerer};
  }
  return {};
}

// What the first part of a chain leaves for its backward pass.
struct KeptChain {
  Matrix<float> before;  // the activation
  kernels::Normalized norm;
};

// norm(f(dense(x))) of a chain that has them.
Matrix<float> chain_forward(const Chain& chain, Matrix<const float> x, Pass& pass,
                            KeptChain* kept = nullptr) {
  const Matrix<float> y = pass.take(x.rows(), chain.dense->outputs);
  if (kept) kept->before = pass.take(y.rows(), y.cols());
  pass.linear(x, *chain.dense, chain.activation, y, kept ? kept->before : Matrix<float>());
  if (chain.norm && !kept) pass.norm(y, *chain.norm, y);
  if (chain.norm && kept) {
    kept->norm = pass.take_normalized(y.rows(), y.cols());
    if (!pass.counting())
      kernels::layer_norm_training_forward(y, {}, {}, *chain.norm, {}, kept->norm, y, pass.team());
  }
  return y;
}

// The token whose state stands for sequence s: its first, or for a causal model the last that is not padding,
// as in transformers. -1: the sequence is empty.
int32_t sequence_token(const Weights& w, const Batch& b, size_t s) {
  const int32_t first = b.offsets[s], end = b.offsets[s + 1];
  if (first == end) return -1;
  if (!w.family->causal) return first;
  for (int32_t t = end; t-- > first;)
    if (b.ids[size_t(t)] != w.config.pad_id) return t;
  return w.config.pad_id < 0 ? end - 1 : first;
}

// The rows of the hidden states that a head reads: `rows` of the tokens (empty: all), or a token for each
// sequence.
std::span<const int32_t> rows_for(const Weights& w, Head head, const Batch& batch,
                                  std::span<const int32_t> rows, Pass& pass) {
  if (for_each_token(head) && !rows.empty()) return rows;
  const size_t count = for_each_token(head) ? size_t(batch.offsets.back()) : batch.size();
  int32_t* const from = pass.arena.take<int32_t>(count);
  for (size_t i = 0; i < count && !pass.counting(); ++i)
    from[i] = for_each_token(head) ? int32_t(i) : sequence_token(w, batch, i);
  return {from, count};
}

// Where these rows are among those that there are.
std::span<const int32_t> places_of(std::span<const int32_t> rows, std::span<const int32_t> places,
                                   Pass& pass) {
  if (places.empty()) return rows;
  int32_t* const at = pass.arena.take<int32_t>(rows.size());
  for (size_t i = 0; i < rows.size() && !pass.counting(); ++i)
    at[i] = rows[i] < 0 ? -1 : places[size_t(rows[i])];
  return {at, rows.size()};
}

}  // namespace

bool RowsRead::add(const Weights& w, Head head, const Batch& batch, std::span<const int32_t> tokens) {
  if (for_each_token(head)) {
    if (tokens.empty() || head == Head::kAnswer) return false;
    for (const int32_t token : tokens) places[size_t(token)] = 0;
    return true;
  }
  for (size_t s = 0; s < batch.size(); ++s)
    if (const int32_t row = sequence_token(w, batch, s); row >= 0) places[size_t(row)] = 0;
  return true;
}

// Where most are read, all are as good.
void RowsRead::settle(bool some) {
  for (size_t row = 0; row < places.size() && some; ++row) {
    if (places[row] < 0) continue;
    places[row] = int32_t(rows.size());
    rows.push_back(int32_t(row));
  }
  if (!some || 2 * rows.size() > places.size()) rows.clear();
  if (rows.empty()) places.clear();
}

void RowsRead::find(const Weights& w, const Batch& batch, const Capture& capture) {
  rows.clear();
  places.assign(batch.ids.size(), -1);
  bool some = capture.head && !capture.last_hidden && !capture.hidden_states;
  if (some && capture.pooled) some = add(w, Head::kNextSentence, batch, {});
  if (some) some = add(w, *capture.head, batch, capture.rows);
  settle(some);
}

void RowsRead::find(const Weights& w, const Batch& batch, std::span<const LossTerm> terms) {
  rows.clear();
  places.assign(batch.ids.size(), -1);
  bool some = true;
  for (const LossTerm& term : terms) {
    const bool cosine = !term.teacher_hidden.empty() && !term.teacher_model;
    some = some && !cosine && add(w, term.head, batch, term.rows);
  }
  settle(some);
}

bool for_each_token(Head head) { return head != Head::kNextSentence && head != Head::kClassify; }

bool uses_pooled(const Weights& w, Head head) {
  return head == Head::kNextSentence ||
         (head == Head::kClassify && w.family->classifier.dense.empty() && !w.family->causal);
}

void check_heads(const Weights& w, const Batch& batch, const Capture& capture) {
  if ((capture.pooled || (capture.head && uses_pooled(w, *capture.head))) && !w.has_pooler)
    throw Error("this checkpoint has no pooler",
                "use the hidden states, or a sentence vector by mean pooling");
  if (capture.head && !w.has(*capture.head)) {
    std::vector<std::string_view> there;
    for (Head head : w.heads) there.push_back(name_of(head).name);
    throw Error(fmt::format("this checkpoint has no {} head", name_of(*capture.head).name),
                there.empty() ? "it has no head at all: take a checkpoint that was fine-tuned for this"
                              : fmt::format("it has: {}", fmt::join(there, ", ")));
  }
  check_rows(capture.rows, batch.ids.size());
}

void check_targets(const LossTerm& term, size_t wanted, size_t classes, size_t tokens) {
  const std::string_view name = name_of(term.head).name;
  for (int32_t row : term.rows)
    if (row < 0 || size_t(row) >= tokens)
      throw Error(fmt::format("{}: row {} is not in the batch of {} tokens", name, row, tokens));
  if (!term.teacher.empty()) {
    if (!term.targets.empty() || term.teacher.rows() != wanted || term.teacher.cols() != classes)
      throw Error(fmt::format("{}: a teacher's logits of shape ({}, {}) where the batch asks for ({}, {})",
                              name, term.teacher.rows(), term.teacher.cols(), wanted, classes));
    return;
  }
  if (term.targets.size() != wanted)
    throw Error(fmt::format("{}: {} targets where the batch asks for {}", name, term.targets.size(), wanted));
  for (int32_t target : term.targets)
    if (target >= 0 && size_t(target) >= classes)
      throw Error(fmt::format("{}: target {} is outside its {} outputs", name, target, classes));
}

void check_kind(const LossTerm& term) {
  const std::string_view name = name_of(term.head).name;
  if (!term.targets.empty() + !term.values.empty() + !term.teacher.empty() + !term.teacher_hidden.empty() > 1)
    throw Error(fmt::format("{}: a term has targets, or values, or a teacher: one of them", name));
  if (term.logits && (term.targets.empty() || term.head == Head::kAnswer))
    throw Error(fmt::format("{}: logits are those of targets that are classes", name));
  if (!(term.temperature > 0))
    throw Error(fmt::format("{}: a temperature of {} is not above 0", name, term.temperature));
}

namespace {

// A teacher's hidden states fit the batch, and its language model this one.
void check_hidden(const Weights& w, const Batch& batch, const LossTerm& term) {
  const auto need = [](bool good, const std::string& what) {
    if (!good) throw Error("a teacher's hidden states: " + what);
  };
  const Matrix<const float> hidden = term.teacher_hidden;
  need(hidden.rows() == batch.ids.size(),
       fmt::format("{} for {} tokens of the batch", hidden.rows(), batch.ids.size()));
  if (!term.teacher_model)
    return need(hidden.cols() == w.config.hidden,
                fmt::format("{} numbers each, but the model's have {}", hidden.cols(), w.config.hidden));
  const Config& teacher = term.teacher_model->config();
  need(is_language_model(term.head) && term.teacher_model->has(term.head),
       "both models need the same head of a language model");
  need(teacher.vocabulary == w.config.vocabulary && teacher.hidden == hidden.cols(),
       "they are not of this teacher, or its vocabulary is another one");
}

}  // namespace

void check_term(const Weights& w, const Batch& batch, const LossTerm& term) {
  const std::string_view name = name_of(term.head).name;
  const bool hidden_alone = !term.teacher_hidden.empty() && !term.teacher_model;
  if (!hidden_alone && !w.has(term.head))
    throw Error(fmt::format("the model has no {} head to learn with", name));
  check_kind(term);
  if (!term.teacher_hidden.empty())
    return check_rows(term.rows, batch.ids.size()), check_hidden(w, batch, term);
  if (!term.class_weights.empty() || term.smoothing != 0) {
    if ((term.head != Head::kClassify && term.head != Head::kTag) || term.targets.empty())
      throw Error(fmt::format("{}: class weights and label smoothing are for classes", name));
    if (!term.class_weights.empty() && term.class_weights.size() != outputs_of(w, term.head))
      throw Error(fmt::format("{}: {} class weights for {} classes", name, term.class_weights.size(),
                              outputs_of(w, term.head)));
    if (!(term.smoothing >= 0 && term.smoothing < 1))
      throw Error(fmt::format("{}: label smoothing of {} is not from 0 to below 1", name, term.smoothing));
  }
  const bool answer = term.head == Head::kAnswer, hard = term.teacher.empty();
  const size_t classes = answer && hard ? SIZE_MAX : outputs_of(w, term.head);
  size_t wanted = batch.size();
  if (answer)
    wanted = hard ? 2 * batch.size() : batch.ids.size();
  else if (for_each_token(term.head))
    wanted = term.rows.empty() ? batch.ids.size() : term.rows.size();
  for (size_t b = 0; b < batch.size() && !for_each_token(term.head); ++b)
    if (batch.offsets[b] == batch.offsets[b + 1] &&
        (!hard || !term.values.empty() || (b < term.targets.size() && term.targets[b] >= 0)))
      throw Error(fmt::format("{}: sequence {} has a target, but no tokens", name, b));
  if (!term.values.empty()) {
    const size_t numbers = term.head == Head::kClassify ? batch.size() * classes : 0;
    if (term.values.size() != numbers)
      throw Error(fmt::format("{}: {} values for {} outputs", name, term.values.size(), numbers));
    return;
  }
  check_targets(term, wanted, classes, batch.ids.size());
  for (size_t i = 0; answer && hard && i < term.targets.size(); ++i)
    if (term.targets[i] >= batch.offsets[i / 2 + 1] - batch.offsets[i / 2])
      throw Error(fmt::format("{}: place {} is not in sequence {}", name, term.targets[i], i / 2));
}

void scatter_rows(Matrix<const float> d, std::span<const int32_t> rows, Matrix<float> to, Pass& pass) {
  if (pass.counting()) return;
  if (std::find_if(rows.begin(), rows.end(), [](int32_t r) { return r < 0; }) == rows.end())
    return kernels::embedding_backward(rows, d, 1, to, pass.team());
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0) kernels::embedding_backward(rows.subspan(i, 1), d.slice_rows(i, 1), 1, to, pass.team());
}

HeadOutputs head_outputs(const Weights& w, const Batch& b, const Capture& capture, Matrix<const float> hidden,
                         std::span<const int32_t> places, Pass& pass) {
  HeadOutputs out;
  const auto linear = [&](Matrix<const float> x, const kernels::Linear& layer, Activation f) {
    const Matrix<float> y = pass.take(x.rows(), layer.outputs);
    pass.linear(x, layer, f, y);
    return y;
  };
  if (capture.pooled) {
    const std::span<const int32_t> rows = rows_for(w, Head::kNextSentence, b, {}, pass);
    out.pooled = linear(pass.gather_rows(hidden, places_of(rows, places, pass)), w.pooler, Activation::kTanh);
  }
  if (!capture.head) return out;
  const Head head = *capture.head;
  const bool all = for_each_token(head) && capture.rows.empty();
  Matrix<const float> x = hidden;
  if (!all) x = pass.gather_rows(hidden, places_of(rows_for(w, head, b, capture.rows, pass), places, pass));
  const Chain chain = chain_of(w, head);
  if (chain.dense) x = chain_forward(chain, x, pass);
  out.logits = linear(x, chain.out ? *chain.out : w.decoder(), Activation::kNone);
  return out;
}

namespace {

// Cross-entropy with class weights and label smoothing: z becomes its gradient.
LossSum weighted_loss(const LossTerm& term, Matrix<float> z) {
  LossSum sum;
  const double even = double(term.smoothing) / double(z.cols());
  for (size_t r = 0; r < z.rows(); ++r) {
    const std::span<float> row = z[r];
    const int32_t target = term.targets[r];
    if (target < 0) {
      std::fill(row.begin(), row.end(), 0.0f);
      continue;
    }
    const double weight = term.class_weights.empty() ? 1 : double(term.class_weights[size_t(target)]);
    const float most = *std::max_element(row.begin(), row.end());
    double total = 0, loss = 0;
    for (const float x : row) total += std::exp(double(x) - double(most));
    sum.right += row[size_t(target)] >= most && !std::isnan(total);
    for (size_t j = 0; j < row.size(); ++j) {
      const double wanted = even + (j == size_t(target) ? 1 - double(term.smoothing) : 0);
      const double log_p = double(row[j]) - double(most) - std::log(total);
      loss -= wanted * log_p;
      row[j] = float(double(term.scale) * weight * (std::exp(log_p) - wanted));
    }
    sum.loss += weight * loss;
    ++sum.count;
  }
  return sum;
}

// The targets' own logits, not a loss: z becomes their gradient.
LossSum logit_sum(const LossTerm& term, Matrix<float> z) {
  LossSum sum;
  for (size_t r = 0; r < z.rows(); ++r) {
    const int32_t target = term.targets[r];
    if (target >= 0) sum.loss += double(z(r, size_t(target))), ++sum.count;
    std::fill_n(z.row(r), z.cols(), 0.0f);
    if (target >= 0) z(r, size_t(target)) = term.scale;
  }
  return sum;
}

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

// The logits become their gradient.
LossSum HeadLoss::loss_of(const LossTerm& term, Matrix<float> logits) const {
  if (pass.counting()) return {};
  if (term.logits) return logit_sum(term, logits);
  if (!term.teacher.empty())
    return kernels::soft_cross_entropy(logits, term.teacher, term.temperature, term.scale, pass.team());
  if (!term.values.empty())
    return value_loss(w.config.problem == Problem::kRegression || logits.cols() == 1, term.values, term.scale,
                      logits);
  if (!term.class_weights.empty() || term.smoothing > 0) return weighted_loss(term, logits);
  return kernels::cross_entropy(logits, term.targets, term.scale, gradient != nullptr, pass.team());
}

// The mask of a classifier's input: a token's, or a sequence's, which is none of its tokens' (their numbers
// end below the half).
RowDropout HeadLoss::mask_of(const LossTerm& term, size_t rows, size_t place) const {
  const double rate = w.config.classifier_dropout >= 0 ? w.config.classifier_dropout : w.config.dropout;
  if (dropout.rows.empty() || rate == 0) return {};
  uint64_t* const numbers = pass.arena.take<uint64_t>(rows);
  for (size_t r = 0; r < rows && !pass.counting(); ++r)
    numbers[r] = term.head == Head::kTag ? dropout.rows[term.rows.empty() ? r : size_t(term.rows[r])]
                                         : uint64_t{dropout.first_sequence + r} << 32 | 0x80000000u;
  return mask_for({dropout.seed, {numbers, rows}, dropout.first_sequence}, float(rate),
                  1 + 2 * size_t(term.head) + place);
}

LossSum vocabulary_loss(const VocabularyTerm& v, const LossTerm& term, Pass& pass) {
  const Arena::Scope scope(pass.arena);
  const size_t rows = v.x.rows(), vocabulary = v.table.rows(), width = v.table.cols();
  const bool back = !v.dx.empty();
  Team& team = pass.team();
  if (term.teacher.empty() && !v.teacher) {
    const size_t floats = kernels::vocabulary_loss_workspace(rows, vocabulary, width, team.threads());
    float* const workspace = pass.arena.take<float>(floats);
    const kernels::VocabularyGradient to{v.dx, v.d_table, v.d_bias};
    if (pass.counting()) return {};
    return kernels::vocabulary_loss(v.x, {v.table, v.bias}, term.targets, term.scale, back ? &to : nullptr,
                                    workspace, team, pass.products);
  }
  // A teacher says something about every word: some rows at a time, with all of their logits.
  constexpr size_t kMostLogits = size_t{1} << 24;
  const size_t block = std::min(rows, std::max<size_t>(kMostLogits / vocabulary, 1));
  const Matrix<float> z = pass.take(block, vocabulary);
  const Matrix<float> taught = v.teacher ? pass.take(block, vocabulary) : Matrix<float>();
  float* const workspace = pass.arena.take<float>(std::max(
      {kernels::matmul_workspace_floats(width, vocabulary),
       kernels::matmul_workspace_floats(vocabulary, width), kernels::matmul_workspace_floats(block, width)}));
  LossSum sum;
  for (size_t first = 0; first < rows && !pass.counting(); first += block) {
    const size_t n = std::min(block, rows - first);
    const Matrix<float> logits = z.slice_rows(0, n);
    const Matrix<const float> x = v.x.slice_rows(first, n);
    Matrix<const float> teacher = term.teacher;
    if (v.teacher) {
      kernels::linear_forward(v.teacher_x.slice_rows(first, n), *v.teacher, Activation::kNone,
                              taught.slice_rows(0, n), team);
      teacher = taught.slice_rows(0, n);
    } else {
      teacher = teacher.slice_rows(first, n);
    }
    kernels::matmul(x, kernels::transposed(v.table), logits, workspace, team);
    for (size_t r = 0; r < n && v.bias; ++r)
      for (size_t c = 0; c < vocabulary; ++c) logits(r, c) += v.bias[c];
    sum += kernels::soft_cross_entropy(logits, teacher, term.temperature, term.scale, team);
    if (!back) continue;
    kernels::matmul(logits, v.table, v.dx.slice_rows(first, n), workspace, team);
    kernels::matmul(kernels::transposed(logits), x, v.d_table, workspace, team, Accumulate::kYes);
    for (size_t r = 0; r < n && v.d_bias; ++r)
      for (size_t c = 0; c < vocabulary; ++c) v.d_bias[c] += logits(r, c);
  }
  return sum;
}

LossSum HeadLoss::run(const Batch& batch, const LossTerm& term, Matrix<const float> hidden,
                      Matrix<float> d_hidden) const {
  const Arena::Scope scope(pass.arena);
  if (!term.teacher_hidden.empty() && !term.teacher_model) return cosine(term, hidden, d_hidden);
  if (term.head == Head::kAnswer) return answer(batch, term, hidden, d_hidden);
  const std::span<const int32_t> tokens = rows_for(w, term.head, batch, term.rows, pass);
  const std::span<const int32_t> from = places_of(tokens, places, pass);
  const size_t rows = from.size();
  const Matrix<float> x = pass.gather_rows(hidden, from);
  const Chain chain = chain_of(w, term.head);

  // Dropout in front of the last product, and RoBERTa's in front of the dense layer too.
  const Family& f = *w.family;
  const bool classifier = term.head == Head::kClassify;
  const bool drops =
      classifier ? f.drops_classifier
                 : term.head == Head::kTag || (term.head == Head::kNextSentence && f.drops_next_sentence);
  const RowDropout mask = drops ? mask_of(term, rows, 0) : RowDropout{};
  const RowDropout input_mask =
      classifier && f.drops_classifier_input ? mask_of(term, rows, 1) : RowDropout{};

  // Forward, keeping what goes into the activation and the norm.
  pass.dropout(input_mask, x);
  KeptChain kept;
  const Matrix<float> in = chain.dense ? chain_forward(chain, x, pass, &kept) : x;
  pass.dropout(mask, in);

  // The loss, and its gradient d of what goes into the last product.
  LossSum sum;
  const Chain to = gradient ? chain_of(*gradient, term.head) : Chain{};
  const Matrix<float> d = gradient ? pass.take(rows, in.cols()) : Matrix<float>();
  // A constant model has its vocabulary packed, a learner's is a table of plain numbers.
  const kernels::Linear* const out = chain.out || pass.parameters_learn ? chain.out : &w.decoder();
  if (out) {
    const Matrix<float> logits = pass.take(rows, out->outputs);
    pass.linear(in, *out, Activation::kNone, logits);
    sum = loss_of(term, logits);
    if (gradient) pass.linear_backward(in, logits, *out, chain.out ? *to.out : *out, d);
  } else {
    VocabularyTerm v{.x = in,
                     .table = w.decoder_table(),
                     .bias = w.language_model.bias,
                     .dx = d,
                     .d_table = gradient ? gradient->decoder_table() : Matrix<float>(),
                     .d_bias = gradient ? gradient->language_model.bias : nullptr};
    if (term.teacher_model) {
      const Weights& teacher = weights_of(*term.teacher_model);
      const Chain its = chain_of(teacher, term.head);
      v.teacher = &teacher.decoder();
      v.teacher_x = pass.gather_rows(term.teacher_hidden, tokens);
      if (its.dense) v.teacher_x = chain_forward(its, v.teacher_x, pass);
    }
    sum = vocabulary_loss(v, term, pass);
  }
  if (!gradient) return sum;

  // And back.
  pass.dropout(mask, d);
  if (!chain.dense) return scatter_rows(d, from, d_hidden, pass), sum;
  if (chain.norm) pass.norm_backward(d, kept.norm, *chain.norm, d, *to.norm);
  if (!pass.counting()) kernels::activation_backward(chain.activation, kept.before, d, {}, pass.team());
  const Matrix<float> dx = pass.take(rows, x.cols());
  pass.linear_backward(x, d, *chain.dense, *to.dense, dx);
  pass.dropout(input_mask, dx);
  scatter_rows(dx, from, d_hidden, pass);
  return sum;
}

LossSum HeadLoss::cosine(const LossTerm& term, Matrix<const float> hidden, Matrix<float> d_hidden) const {
  LossSum sum;
  for (size_t t = 0; t < hidden.rows() && !pass.counting(); ++t) {
    const std::span<const float> h = hidden[t], g = term.teacher_hidden[t];
    double hh = 0, gg = 0, hg = 0;
    for (size_t i = 0; i < h.size(); ++i) {
      hh += double(h[i]) * double(h[i]);
      gg += double(g[i]) * double(g[i]);
      hg += double(h[i]) * double(g[i]);
    }
    ++sum.count;
    if (hh == 0 || gg == 0) {  // no direction: as if at right angles
      ++sum.loss;
      continue;
    }
    const double cos = hg / std::sqrt(hh * gg);
    sum.loss += 1 - cos;
    for (size_t i = 0; i < h.size() && gradient; ++i)
      d_hidden(t, i) +=
          float(double(term.scale) * (cos * double(h[i]) / hh - double(g[i]) / std::sqrt(hh * gg)));
  }
  return sum;
}

LossSum HeadLoss::answer(const Batch& batch, const LossTerm& term, Matrix<const float> hidden,
                         Matrix<float> d_hidden) const {
  const size_t tokens = hidden.rows();
  const Matrix<float> logits = pass.take(tokens, 2);
  pass.linear(hidden, w.answerer, Activation::kNone, logits);
  float *const column = pass.arena.take<float>(tokens), *const teacher = pass.arena.take<float>(tokens);
  LossSum sum;
  for (size_t s = 0; s < batch.size() && !pass.counting(); ++s) {
    const auto first = size_t(batch.offsets[s]), n = size_t(batch.offsets[s + 1]) - first;
    size_t right = 0, counted = 0;
    for (size_t end : {size_t{0}, size_t{1}}) {
      for (size_t t = 0; t < n; ++t) column[t] = logits(first + t, end);
      const Matrix<float> z(column, n > 0, n);
      const int32_t target = term.targets.empty() ? 0 : term.targets[2 * s + end];
      LossSum one;
      if (term.teacher.empty()) {
        one = kernels::cross_entropy(z, {&target, n > 0}, term.scale / 2, true, pass.team());
      } else {
        for (size_t t = 0; t < n; ++t) teacher[t] = term.teacher(first + t, end);
        one = kernels::soft_cross_entropy(z, {teacher, n > 0, n}, term.temperature, term.scale / 2,
                                          pass.team());
      }
      sum.loss += one.loss / 2, right += one.right, counted += one.count;
      for (size_t t = 0; t < n; ++t) logits(first + t, end) = target >= 0 ? column[t] : 0.0f;
    }
    sum.count += counted > 0, sum.right += counted > 0 && right == counted;
  }
  if (gradient)
    pass.linear_backward(hidden, logits, w.answerer, gradient->answerer, d_hidden, Accumulate::kYes);
  return sum;
}

}  // namespace bertie
