#include "tasks/answer_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "bertie/error.h"
#include "tasks/text_model_state.h"

namespace bertie {
namespace {

size_t context_tokens(std::span<const int8_t> texts) {
  return size_t(std::count(texts.begin(), texts.end(), int8_t{1}));
}

// Of a token of the context in a window that has `count` of them from `first` on: how much stands around it
// on the shorter side; a longer window breaks ties.
double context_around(size_t token, size_t first, size_t count) {
  const size_t left = token - first, right = first + count - 1 - token;
  return double(std::min(left, right)) + 0.01 * double(count);
}

// Whether no window has more context around this token than window `w`; the first of equal ones counts.
bool has_most_context(std::span<const AnswerWindow> windows, std::span<const size_t> counts, size_t w,
                      size_t token) {
  const double here = context_around(token, windows[w].context_before, counts[w]);
  for (size_t other = 0; other < windows.size(); ++other) {
    const size_t first = windows[other].context_before;
    if (other == w || token < first || token >= first + counts[other]) continue;
    const double there = context_around(token, first, counts[other]);
    if (there > here || (there == here && other < w)) return false;
  }
  return true;
}

// The tokens with the highest logits of a column, best first.
std::vector<size_t> best_tokens(const Matrix<const float>& logits, size_t column, size_t count) {
  std::vector<size_t> order(logits.rows());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + ptrdiff_t(count), order.end(), [&](size_t a, size_t b) {
    return logits(a, column) != logits(b, column) ? logits(a, column) > logits(b, column) : a < b;
  });
  order.resize(count);
  return order;
}

// Share of the first score in the softmax over the `count` best ones.
double share_of_best(std::vector<float> scores, float best, size_t count) {
  count = std::min(count, scores.size());
  std::partial_sort(scores.begin(), scores.begin() + ptrdiff_t(count), scores.end(), std::greater<>());
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(double(scores[i]) - double(scores[0]));
  return std::exp(double(best) - double(scores[0])) / sum;
}

}  // namespace

void run_answer_windows(const TextModel& model, std::span<const Question> questions,
                        const AnswerWindowOptions& options,
                        const std::function<void(size_t, const QuestionWindows&)>& use) {
  model.require(Head::kAnswer);
  const size_t most = model.model().config().max_tokens();
  if (options.max_length > most)
    throw Error(fmt::format("`max_length` {} is too long for a window: this model takes {} tokens",
                            options.max_length, most),
                fmt::format("`max_length` {}", most), "max_length");
  const Tokenizer& tokenizer = model.tokenizer();
  const auto worker = TextModelAccess::worker(model);
  Encoding& encoding = worker->encoding;
  Sequences& sequences = worker->sequences;
  std::vector<size_t> before;  // for each sequence: tokens of the context before it
  std::vector<bool> cut(questions.size());
  std::vector<AnswerWindow> windows;

  const auto add_window = [&](const Encoding& window, size_t context_before) {
    sequences.add_with_places(window);
    before.resize(sequences.size());
    before.back() = context_before;
  };
  const auto add = [&](size_t i) {
    auto [question, context] = questions[i];
    tokenizer.encode_into(question, {.max_length = options.max_question_tokens, .add_special_tokens = false},
                          encoding);
    if (encoding.truncated) {
      cut[i] = true;
      question = text_at(question, {0, encoding.offsets.empty() ? 0 : encoding.offsets.back().end});
    }
    EncodeOptions how{.max_length = options.max_length, .truncate = Truncate::kOnlySecond};
    tokenizer.encode_into(question, context, how, encoding);
    if (!encoding.truncated) return add_window(encoding, 0);
    const size_t room = context_tokens(encoding.sequences);
    how.stride = options.stride.value_or(std::min<size_t>(options.max_length / 2, 128));
    if (!options.stride && how.stride >= room) how.stride = room / 2;
    if (options.stride_at_most_half) how.stride = std::min(how.stride, room / 2);
    size_t context_before = 0;
    for (const Encoding& window : tokenizer.encode_windows(question, context, how)) {
      add_window(window, context_before);
      const size_t count = context_tokens(window.sequences);
      context_before += count - std::min(how.stride, count);
    }
  };
  const auto keep = [&](size_t, size_t sequence, Matrix<const float> logits) {
    worker->scores.resize(sequences.ids.size() * 2);
    for (size_t t = 0; t < logits.rows(); ++t)
      std::copy_n(logits.row(t), 2, &worker->scores[(sequences.starts[sequence] + t) * 2]);
  };
  const auto finish = [&](size_t i, size_t first, size_t end) {
    windows.clear();
    for (size_t sequence = first; sequence < end; ++sequence) {
      const size_t start = sequences.starts[sequence], n = sequences.length(sequence);
      windows.push_back({sequences.ids_of(sequence),
                         std::span(sequences.words).subspan(start, n),
                         std::span(sequences.texts).subspan(start, n),
                         std::span(sequences.offsets).subspan(start, n),
                         {worker->scores.data() + start * 2, n, 2},
                         before[sequence]});
    }
    use(i, {windows, cut[i]});
  };
  run_work(*worker, {.head = Head::kAnswer,
                     .inputs = questions.size(),
                     .add = add,
                     .use = keep,
                     .finish = finish,
                     .progress = options.progress});
}

BestSpan best_span(std::span<const AnswerWindow> windows, const SpanSearch& search) {
  BestSpan best{.null_score = std::numeric_limits<float>::max()};
  std::vector<size_t> counts;
  for (const AnswerWindow& w : windows) counts.push_back(context_tokens(w.texts));
  std::vector<float> scores;
  for (size_t w = 0; w < windows.size(); ++w) {
    const AnswerWindow& window = windows[w];
    if (window.ids.empty()) continue;
    best.null_score = std::min(best.null_score, window.logits(0, 0) + window.logits(0, 1));
    const auto first_of_context =
        size_t(std::find(window.texts.begin(), window.texts.end(), int8_t{1}) - window.texts.begin());
    const std::vector<size_t> ends = best_tokens(window.logits, 1, search.n_best);
    for (const size_t start : best_tokens(window.logits, 0, search.n_best)) {
      if (window.texts[start] != 1 ||
          !has_most_context(windows, counts, w, window.context_before + start - first_of_context))
        continue;
      for (const size_t end : ends) {
        if (window.texts[end] != 1 || end < start || end - start >= search.max_answer_tokens) continue;
        const Offset offset{window.offsets[start].begin, window.offsets[end].end};
        if (offset.begin >= offset.end) continue;
        const float score = window.logits(start, 0) + window.logits(end, 1);
        scores.push_back(score);
        if (best.found && !(score > best.score)) continue;
        best.found = true, best.offset = offset, best.score = score;
      }
    }
  }
  if (search.null_competes) scores.push_back(best.null_score);
  if (best.found) best.probability = share_of_best(std::move(scores), best.score, search.n_best);
  return best;
}

}  // namespace bertie
