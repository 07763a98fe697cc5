#pragma once
// Questions and their contexts through a model, in windows, and the span that BERT's script for SQuAD takes
// for the answer. `answer` goes by transformers' pipeline instead, on the same windows.
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bertie/results.h"
#include "bertie/text_model.h"
#include "bertie/view.h"

namespace bertie {

// One window: its tokens, which of them are the context's, and the logits of start and end.
struct AnswerWindow {
  std::span<const int32_t> ids, words;
  std::span<const int8_t> texts;  // 1: of the context
  std::span<const Offset> offsets;
  Matrix<const float> logits;  // (n, 2)
  size_t context_before = 0;   // tokens of the context before those in the window
};

struct AnswerWindowOptions {
  size_t max_length, max_question_tokens;
  std::optional<size_t> stride;      // none: 128, or half of a short window
  bool stride_at_most_half = false;  // of what a window has of the context, also where one is given
  const ProgressCallback& progress;
};

// The windows of one question. Views, gone when the call that shows them returns.
struct QuestionWindows {
  std::span<const AnswerWindow> windows;
  bool question_truncated = false;
};

// Calls use(i, windows) for every question, in order. Error where max_length is more than the model takes.
void run_answer_windows(const TextModel& model, std::span<const Question> questions,
                        const AnswerWindowOptions& options,
                        const std::function<void(size_t question, const QuestionWindows& windows)>& use);

// The best span of a context by the sum of its logits.
struct BestSpan {
  bool found = false;
  Offset offset = {};      // of the context
  float score = 0;         // sum of the logits of its start and its end
  float null_score = 0;    // the same for [CLS]: the least of all windows
  double probability = 0;  // of this span among the best ones (and "no answer", where that competes)
};

struct SpanSearch {
  size_t n_best = 20, max_answer_tokens = 30;
  bool null_competes = false;  // for the probability
};

// As run_squad.py and transformers' postprocess_qa_predictions choose it: starts and ends among the n_best
// logits of each window; a start counts in the window where it has the most context on its shorter side;
// spans of no characters do not count.
BestSpan best_span(std::span<const AnswerWindow> windows, const SpanSearch& search);

}  // namespace bertie
