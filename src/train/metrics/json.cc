// Evaluations, comparisons, predictions and mistakes as JSON; docs/json.md is the page of it.
#include "bertie/json.h"

#include <algorithm>

#include "bertie/json_writer.h"
#include "train/metrics/scorer.h"

namespace bertie {
namespace {

bool has_interval(const NamedScore& score) { return score.low != score.value || score.high != score.value; }

std::vector<std::string_view> names_of(const std::vector<int32_t>& places,
                                       const std::vector<std::string>& labels) {
  std::vector<std::string_view> names;
  for (const int32_t place : places)
    names.push_back(place < 0 ? std::string_view("") : labels[size_t(place)]);
  return names;
}

void add_text_row(JsonWriter& json, const Dataset& data, const Predictions& predictions, size_t row) {
  const TextExample& example = data.texts[row];
  if (data.kind == TaskKind::kPair)
    json.field("a", example.a).field("b", example.b);
  else
    json.field("text", example.a);
  const std::span<const float> scores =
      std::span(predictions.scores).subspan(row * predictions.columns, predictions.columns);
  if (data.problem == Problem::kRegression) {
    if (data.labeled) json.field("value", example.value);
    json.field("predicted", scores[0]);
    return;
  }
  if (data.problem == Problem::kMultiLabel) {
    std::vector<int32_t> given;
    for (size_t k = 0; k < scores.size(); ++k)
      if (metrics::has_label(predictions, row, k)) given.push_back(int32_t(k));
    if (data.labeled) json.field("labels", names_of(example.labels, data.labels));
    json.field("predicted", names_of(given, data.labels));
  } else {
    if (data.labeled) json.field("label", names_of(example.labels, data.labels)[0]);
    json.field("predicted", data.labels[size_t(metrics::best_class(predictions, row))]);
  }
  json.key("scores").begin_object();
  for (size_t k = 0; k < scores.size(); ++k) json.field(data.labels[k], scores[k]);
  json.end_object();
}

void add_answer_row(JsonWriter& json, const Dataset& data, const PredictedAnswer& given, size_t row,
                    double threshold) {
  const SquadQuestion& question = data.questions[row];
  json.field("id", question.id).field("question", question.question);
  if (data.labeled) {
    json.key("answers").begin_array();
    for (const SquadQuestion::Answer& right : question.answers) json.value(right.text);
    json.end_array();
  }
  const bool none = data.no_answers && given.null_odds > threshold;
  json.field("predicted", none ? std::string() : given.text);
  if (data.no_answers) json.field("span", given.text);
  json.field("null_odds", given.null_odds);
  json.field("probability", given.probability);
}

}  // namespace

std::string to_json(const Evaluation& evaluation, std::string_view model) {
  JsonWriter json;
  json.begin_object();
  if (!model.empty()) json.field("model", model);
  json.field("task", name_of(evaluation.kind)).field("rows", evaluation.rows);
  if (!evaluation.scores.empty()) json.field("metric", evaluation.scores[0].name);
  json.key("scores").begin_object();
  for (const NamedScore& score : evaluation.scores) json.field(score.name, score.value);
  json.end_object();
  if (std::any_of(evaluation.scores.begin(), evaluation.scores.end(), has_interval)) {
    json.key("intervals").begin_object();
    for (const NamedScore& score : evaluation.scores)
      json.key(score.name).begin_array().value(score.low).value(score.high).end_array();
    json.end_object();
  }
  json.key("classes").begin_array();
  for (const ClassScore& one : evaluation.classes) {
    json.begin_object().field("label", one.label).field("precision", one.precision);
    json.field("recall", one.recall).field("f1", one.f1).field("support", one.support);
    json.field("predicted", one.predicted).end_object();
  }
  json.end_array();
  if (!evaluation.confusion.empty()) {
    const size_t n = evaluation.labels.size();
    json.field("labels", evaluation.labels).key("confusion").begin_array();
    for (size_t r = 0; r < n; ++r) json.value(std::span(evaluation.confusion).subspan(r * n, n));
    json.end_array();
  }
  if (std::ranges::find(evaluation.scores, "best_f1", &NamedScore::name) != evaluation.scores.end())
    json.field("best_threshold", evaluation.best_threshold)
        .field("best_exact_threshold", evaluation.best_exact_threshold);
  return json.end_object().take();
}

std::string to_json(const Comparison& comparison) {
  JsonWriter json;
  json.begin_object().field("metric", comparison.metric).field("a", comparison.a).field("b", comparison.b);
  json.field("difference", comparison.difference).field("low", comparison.low).field("high", comparison.high);
  json.field("p_value", comparison.p_value).field("mcnemar_p", comparison.mcnemar_p);
  json.field("only_a", comparison.only_a).field("only_b", comparison.only_b);
  return json.end_object().take();
}

std::string to_json(const std::vector<Mistake>& mistakes) {
  JsonWriter json;
  json.begin_array();
  for (const Mistake& mistake : mistakes) {
    json.begin_object().field("row", mistake.row).field("line", mistake.line);
    json.field("confidence", mistake.confidence).field("a", mistake.a).field("b", mistake.b);
    json.field("right", mistake.right).field("predicted", mistake.predicted).end_object();
  }
  return json.end_array().take();
}

std::string to_json(const Dataset& data, const Predictions& predictions, size_t row,
                    const ScoreOptions& options) {
  JsonWriter json;
  json.begin_object().field("index", row);
  if (data.kind == TaskKind::kAnswer) {
    add_answer_row(json, data, predictions.answers[row], row, options.threshold);
  } else if (data.kind == TaskKind::kTag) {
    const TaggedSentence& sentence = data.sentences[row];
    json.field("words", sentence.words);
    if (data.labeled) json.field("tags", names_of(sentence.tags, data.labels));
    json.field("predicted", names_of(predictions.tags[row], data.labels));
    if (!predictions.tag_scores.empty()) json.field("scores", predictions.tag_scores[row]);
  } else {
    add_text_row(json, data, predictions, row);
  }
  return json.end_object().take();
}

}  // namespace bertie
