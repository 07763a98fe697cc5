// Where a text answers a question: the rules of transformers' question-answering pipeline. (4.57 is the last
// release that has one.)
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "bertie/error.h"
#include "bertie/utf8.h"
#include "tasks/answer_windows.h"
#include "tasks/text_model_state.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

// Tokens of a window, both ends included.
struct Span {
  size_t first, last;
  float score;
};

// Probabilities of a column over the tokens that may be in an answer, and over [CLS], which stands for "there
// is none"; 0 for the others.
std::vector<float> probabilities(const AnswerWindow& w, size_t column, int32_t cls) {
  std::vector<float> p(w.ids.size());
  for (size_t t = 0; t < p.size(); ++t)
    p[t] = w.texts[t] == 1 || w.ids[t] == cls ? w.logits(t, column) : -std::numeric_limits<float>::infinity();
  if (std::any_of(p.begin(), p.end(), [](float x) { return x > -std::numeric_limits<float>::infinity(); }))
    softmax(p);
  else
    std::fill(p.begin(), p.end(), 0.0f);
  return p;
}

// The `count` best spans of at most max_tokens, best first.
std::vector<Span> best_spans(const AnswerWindow& w, std::span<const float> start, std::span<const float> end,
                             size_t count, size_t max_tokens) {
  std::vector<Span> best;  // a heap with the worst on top, once it is full
  const auto better = [](const Span& a, const Span& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.first != b.first ? a.first < b.first : a.last < b.last;
  };
  for (size_t i = 1; i < w.ids.size(); ++i) {
    if (w.texts[i] != 1) continue;
    for (size_t j = i; j < w.ids.size() && j - i < max_tokens; ++j) {
      if (w.texts[j] != 1) break;
      const Span span{i, j, start[i] * end[j]};
      if (best.size() == count) {
        if (!better(span, best.front())) continue;
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back(span);
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

// From the first character of the first word to the last one of the last word, as far as the window has them.
Offset whole_words(const AnswerWindow& w, const Span& span) {
  size_t first = span.first, last = span.last;
  const auto same_word = [&](size_t a, size_t b) {
    return w.texts[b] == 1 && w.words[a] >= 0 && w.words[a] == w.words[b];
  };
  while (first > 0 && same_word(first, first - 1)) --first;
  while (last + 1 < w.ids.size() && same_word(last, last + 1)) ++last;
  return {w.offsets[first].begin, w.offsets[last].end};
}

std::string lowercased(std::string_view text) {
  std::string out;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const text::Decoded d = text::decode_utf8(p, end);
    const text::Mapped low = text::lower(d.point);
    char bytes[4];
    for (uint32_t k = 0; k < low.count; ++k) out.append(bytes, text::encode_utf8(low.points[k], bytes));
    p += d.length;
  }
  return out;
}

// Answers found so far. One that was found before, in whatever letters, adds to its score.
class Found {
 public:
  void add(std::string_view text, Offset offset, float score) {
    std::string key = lowercased(text);
    const auto [known, fresh] = places_.emplace(std::move(key), answers_.size());
    if (!fresh) {
      answers_[known->second].score += score;
      return;
    }
    answers_.push_back({std::string(text), score, offset});
  }
  void add_null(float score) { answers_.push_back({"", score, {}}); }

  std::vector<Answer> best(size_t top) {
    std::stable_sort(answers_.begin(), answers_.end(),
                     [](const Answer& a, const Answer& b) { return a.score > b.score; });
    if (answers_.size() > top) answers_.resize(top);
    return std::move(answers_);
  }

 private:
  std::unordered_map<std::string, size_t> places_;  // by the answer in small letters
  std::vector<Answer> answers_;
};

}  // namespace

std::vector<Answering> TextModel::answer(std::span<const Question> questions,
                                         const AnswerOptions& options) const {
  require(Head::kAnswer);
  if (options.top == 0) throw Error("`top` is at least 1", "`top` 1", "top");
  if (options.max_answer_tokens == 0)
    throw Error("`max_answer_tokens` is at least 1", "`max_answer_tokens` 15", "max_answer_tokens");
  std::vector<Answering> out(questions.size());
  const auto use = [&](size_t i, const QuestionWindows& question) {
    const CodePoints context(questions[i].context);
    // Spans that become the same words are found again: look for more of them.
    const size_t count = options.whole_words ? options.top * 2 + 10 : options.top;
    float none = 1e6f;
    Found found;
    for (const AnswerWindow& w : question.windows) {
      if (w.ids.empty()) continue;
      const std::vector<float> starts = probabilities(w, 0, tokenizer().cls_id()),
                               ends = probabilities(w, 1, tokenizer().cls_id());
      none = std::min(none, starts[0] * ends[0]);
      for (const Span& span : best_spans(w, starts, ends, count, options.max_answer_tokens)) {
        const Offset offset = options.whole_words
                                  ? whole_words(w, span)
                                  : Offset{w.offsets[span.first].begin, w.offsets[span.last].end};
        found.add(context.at(offset), offset, span.score);
      }
    }
    if (options.allow_no_answer) found.add_null(none);
    out[i] = {found.best(options.top), question.windows.size(), question.question_truncated};
  };
  run_answer_windows(*this, questions,
                     {.max_length = options.max_length.value_or(std::min<size_t>(task_max_length(), 384)),
                      .max_question_tokens = options.max_question_tokens,
                      .stride = options.stride,
                      .progress = options.progress},
                     use);
  return out;
}

Answering TextModel::answer(std::string_view question, std::string_view context,
                            const AnswerOptions& options) const {
  const Question one{question, context};
  return std::move(answer(std::span(&one, 1), options)[0]);
}

}  // namespace bertie
