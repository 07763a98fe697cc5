#include "model/heads.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "core/checked.h"
#include "model/batch.h"

namespace bertie {

bool for_each_token(Head head) { return head != Head::kNextSentence && head != Head::kClassify; }

bool uses_pooled(const Weights& w, Head head) {
  return head == Head::kNextSentence ||
         (head == Head::kClassify && w.family->classifier.dense.empty() && !w.family->causal);
}

namespace {

size_t outputs_of(const Weights& w, Head head) {
  if (head == Head::kMaskedLm || head == Head::kCausalLm) return w.config.vocabulary;
  return head == Head::kNextSentence || head == Head::kAnswer ? 2 : w.config.labels.size();
}

size_t rows_of(const Batch& batch, const Capture& capture) {
  if (!for_each_token(*capture.head)) return batch.size();
  return capture.rows.empty() ? batch.ids.size() : capture.rows.size();
}

bool wants_pooled(const Weights& w, const Capture& capture) {
  return capture.pooled || (capture.head && uses_pooled(w, *capture.head));
}

}  // namespace

ptrdiff_t speaker(const Weights& w, const Batch& b, size_t s) {
  const ptrdiff_t first = b.offsets[s], end = b.offsets[s + 1];
  if (first == end) return -1;
  if (!w.family->causal) return first;
  for (ptrdiff_t t = end; t-- > first;)
    if (b.ids[size_t(t)] != w.config.pad_id) return t;
  return w.config.pad_id < 0 ? end - 1 : first;
}

void check_heads(const Weights& w, const Batch& batch, const Capture& capture) {
  if (wants_pooled(w, capture) && !w.has_pooler)
    throw Error("this checkpoint has no pooler",
                "use the hidden states, or mean pooling as `bertie embed` does");
  if (capture.head && !w.has(*capture.head)) {
    std::vector<std::string_view> there;
    for (Head head : w.heads) there.push_back(name_of(head).name);
    throw Error(fmt::format("this checkpoint has no {} head", name_of(*capture.head).name),
                there.empty() ? "it has no head at all: take a checkpoint that was fine-tuned for this"
                              : fmt::format("it has: {}", fmt::join(there, ", ")));
  }
  check_rows(capture.rows, batch.ids.size());
}

size_t finish_bytes(const Weights& w, const Batch& batch, const Capture& capture) {
  const size_t hidden = w.config.hidden;
  Checked bytes = Checked(2) * Arena::bytes_for<float>(batch.size() * hidden);
  if (capture.head) {
    const size_t rows = rows_of(batch, capture);
    bytes = bytes + Checked(3) * Arena::bytes_for<float>(rows * std::max(hidden, w.config.embedding_size())) +
            Arena::bytes_for<float>((Checked(rows) * outputs_of(w, *capture.head)).value());
  }
  return bytes.value();
}

Finished finish(const Weights& w, const Batch& b, const Capture& capture, Matrix<const float> hidden,
                Arena& arena, Team& team) {
  using kernels::Activation;
  const size_t width = w.config.hidden;
  const auto linear = [&](Matrix<const float> x, const kernels::Linear& layer, Activation f) {
    const Matrix<float> y = arena.take<float>(x.rows(), layer.outputs);
    kernels::linear_forward(x, layer, f, y, team);
    return y;
  };
  // Rows of `hidden`, one after the other; zeros for -1.
  const auto gather = [&](size_t count, const auto& row) {
    const Matrix<float> rows = arena.take<float>(count, width);
    for (size_t i = 0; i < count; ++i)
      if (const ptrdiff_t t = row(i); t >= 0)
        std::copy_n(hidden.row(size_t(t)), width, rows.row(i));
      else
        std::fill_n(rows.row(i), width, 0.0f);
    return rows;
  };
  const auto speakers = [&] { return gather(b.size(), [&](size_t s) { return speaker(w, b, s); }); };

  Finished out;
  if (wants_pooled(w, capture)) out.pooled = linear(speakers(), w.pooler, Activation::tanh);
  if (!capture.head) return out;

  Matrix<const float> x = hidden;
  if (!for_each_token(*capture.head)) {
    if (uses_pooled(w, *capture.head))
      x = out.pooled;
    else
      x = speakers();
  } else if (!capture.rows.empty()) {
    x = gather(capture.rows.size(), [&](size_t i) { return ptrdiff_t(capture.rows[i]); });
  }
  switch (*capture.head) {
    case Head::kMaskedLm:
    case Head::kCausalLm: {
      const LanguageModelWeights& lm = w.language_model;
      if (lm.dense.outputs > 0) {
        const Matrix<float> y = linear(x, lm.dense, lm.activation);
        kernels::layer_norm_forward(y, lm.norm, y, team);
        x = y;
      }
      out.logits = linear(x, w.decoder(), Activation::none);
      break;
    }
    case Head::kNextSentence:
      out.logits = linear(x, w.next_sentence, Activation::none);
      break;
    case Head::kClassify:
      if (w.classifier_dense.outputs > 0) x = linear(x, w.classifier_dense, w.classifier_activation);
      out.logits = linear(x, w.classifier, Activation::none);
      break;
    case Head::kTag:
      out.logits = linear(x, w.tagger, Activation::none);
      break;
    case Head::kAnswer:
      out.logits = linear(x, w.answerer, Activation::none);
      break;
  }
  if (!capture.pooled) out.pooled = {};
  return out;
}

}  // namespace bertie
