// What a model says of each row of labelled data, in the data's own labels.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "bertie/evaluate.h"
#include "bertie/utf8.h"
#include "io/quote.h"
#include "tasks/answer_windows.h"
#include "train/data/task_encoding.h"

namespace bertie {
namespace metrics {
namespace {

using Labels = std::vector<std::string>;

// Names that a config has where nobody gave any.
bool are_numbered(const Labels& labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != fmt::format("LABEL_{}", i)) return false;
  return true;
}

bool taken_by_place(const Labels& model, const Labels& data) {
  return model.size() == data.size() && are_numbered(model);
}

bool same_labels(const Labels& model, const Labels& data) {
  return model.size() == data.size() && std::is_permutation(model.begin(), model.end(), data.begin());
}

// Up to five labels of `some` that `others` has not.
std::string missing_from(const Labels& some, const Labels& others) {
  constexpr size_t kMost = 5;
  Labels missing;
  size_t count = 0;
  for (const std::string& label : some)
    if (std::find(others.begin(), others.end(), label) == others.end() && ++count <= kMost)
      missing.push_back(io::quote(label));
  return fmt::format("{}{}", fmt::join(missing, ", "),
                     count > kMost ? fmt::format(" and {} others", count - kMost) : "");
}

[[noreturn]] void labels_differ(const Labels& model, const Labels& data) {
  const std::string of_data = missing_from(data, model), of_model = missing_from(model, data);
  std::string what = "the labels of the model are not those of the data:";
  if (!of_data.empty()) what += fmt::format(" the model has no {}", of_data);
  if (!of_model.empty())
    what += fmt::format("{} the data has no {}", of_data.empty() ? "" : ", and", of_model);
  throw Error(what,
              of_data.empty() ? "a model that knows these labels and no others; in C++, with_labels_of"
                              : "data with the model's labels, or a model that was trained for these",
              "data");
}

// From a label's name in the model to its place in the data.
std::unordered_map<std::string, size_t> places_by_name(const Labels& model, const Labels& data) {
  const bool by_place = taken_by_place(model, data);
  if (!by_place && !same_labels(model, data)) labels_differ(model, data);
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < model.size(); ++i) places.emplace(by_place ? model[i] : data[i], i);
  return places;
}

Apply apply_of(Problem problem) {
  if (problem == Problem::kRegression) return Apply::kNothing;
  return problem == Problem::kMultiLabel ? Apply::kSigmoid : Apply::kSoftmax;
}

Predictions predict_texts(const TextModel& model, const Dataset& data, const PredictOptions& options) {
  model.require(Head::kClassify);
  const Labels& labels = model.model().config().labels;
  const bool number = data.problem == Problem::kRegression;
  if (number && labels.size() != 1)
    throw Error(fmt::format("the data has numbers, but this model has {} labels", labels.size()),
                "a model that was trained for numbers, with one output", "data");
  const auto by_name = number ? places_by_name(labels, labels) : places_by_name(labels, data.labels);

  const ClassifyOptions how{.apply = apply_of(data.problem), .progress = options.progress};
  std::vector<Classification> results;
  if (data.kind == TaskKind::kPair) {
    std::vector<TextPair> pairs;
    for (const TextExample& example : data.texts) pairs.push_back({example.a, example.b});
    results = model.classify(pairs, how);
  } else {
    std::vector<std::string_view> texts;
    for (const TextExample& example : data.texts) texts.push_back(example.a);
    results = model.classify(texts, how);
  }
  Predictions out{.columns = labels.size()};
  out.scores.resize(results.size() * out.columns);
  for (size_t i = 0; i < results.size(); ++i) {
    for (const Scored& scored : results[i].labels)
      out.scores[i * out.columns + by_name.at(scored.label)] = scored.score;
    out.truncated += results[i].truncated;
  }
  return out;
}

Predictions predict_tags(const TextModel& model, const Dataset& data, const PredictOptions& options) {
  model.require(Head::kTag);
  const auto by_name = places_by_name(model.model().config().labels, data.labels);
  const auto outside = std::find(data.labels.begin(), data.labels.end(), "O");
  const int32_t none = outside == data.labels.end() ? -1 : int32_t(outside - data.labels.begin());

  std::vector<JoinedWords> sentences;
  std::vector<std::string_view> texts;
  for (const TaggedSentence& sentence : data.sentences) sentences.emplace_back(sentence.words);
  for (const JoinedWords& sentence : sentences) texts.push_back(sentence.text);
  TagOptions how{.aggregation = Aggregation::kNone, .keep_outside = true, .progress = options.progress};
  if (options.stride) how.stride = std::min(*options.stride, model.task_max_length() / 4);
  const std::vector<Tagging> results = model.tag(texts, how);

  Predictions out;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<Offset>& words = sentences[i].words;
    std::vector<int32_t> tags(words.size(), none);
    std::vector<float> scores(words.size());
    size_t next = 0;  // the first word that no token has touched yet
    for (const Entity& token : results[i].entities) {
      while (next < words.size() && words[next].end <= token.offset.begin) ++next;
      for (; next < words.size() && words[next].begin < token.offset.end; ++next)
        tags[next] = int32_t(by_name.at(token.label)), scores[next] = token.score;
    }
    out.tags.push_back(std::move(tags));
    out.tag_scores.push_back(std::move(scores));
  }
  return out;
}

Predictions predict_answers(const TextModel& model, const Dataset& data, const PredictOptions& options) {
  std::vector<Question> questions;
  for (const SquadQuestion& one : data.questions) questions.push_back({one.question, one.context});
  Predictions out;
  out.answers.resize(questions.size());
  const size_t max_length = options.max_length.value_or(std::min<size_t>(model.task_max_length(), 384));
  run_answer_windows(
      model, questions,
      {.max_length = max_length,
       .max_question_tokens = std::min(options.max_question_tokens, max_length / 2),  // some context fits in
       .stride = options.stride,
       .stride_at_most_half = true,
       .progress = options.progress},
      [&](size_t i, const QuestionWindows& question) {
        const BestSpan best = best_span(question.windows, {.n_best = options.n_best,
                                                           .max_answer_tokens = options.max_answer_tokens,
                                                           .null_competes = data.no_answers});
        PredictedAnswer& answer = out.answers[i];
        answer.text = best.found ? text_at(questions[i].context, best.offset) : std::string_view();
        answer.null_odds = double(best.null_score) - double(best.score);
        answer.probability = best.probability;
      });
  return out;
}

}  // namespace
}  // namespace metrics

Predictions predict(const TextModel& model, const Dataset& data, const PredictOptions& options) {
  if (data.kind == TaskKind::kTag) return metrics::predict_tags(model, data, options);
  if (data.kind == TaskKind::kAnswer) return metrics::predict_answers(model, data, options);
  return metrics::predict_texts(model, data, options);
}

Dataset with_labels_of(const TextModel& model, Dataset data, const DatasetOptions& options) {
  if (data.kind == TaskKind::kAnswer || (data.kind != TaskKind::kTag && data.problem == Problem::kRegression))
    return data;
  const std::vector<std::string>& labels = model.model().config().labels;
  if (data.labels.empty()) data.labels = labels;  // rows without labels
  if (metrics::taken_by_place(labels, data.labels) || metrics::same_labels(labels, data.labels)) return data;
  try {
    return with_labels(std::move(data), labels, options);
  } catch (const Error& error) {
    throw Error(error.what(), error.hint(), "data");  // it is the data that does not fit, no column was wrong
  }
}

}  // namespace bertie
