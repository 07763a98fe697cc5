// Predictions to scores, with intervals; and two models side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bertie/error.h"
#include "io/quote.h"
#include "train/metrics/bootstrap.h"
#include "train/metrics/scorer.h"

namespace bertie {
namespace metrics {
namespace {

void check_rows(size_t rows, size_t predicted, std::string_view what) {
  if (rows == 0)
    throw Error("there is nothing to score: the data has no rows", "a file with labelled rows", "data");
  if (predicted != rows)
    throw Error(fmt::format("the predictions are of {} {}, but the data has {}", predicted, what, rows),
                "predictions for the same data", "predictions");
}

void check_texts(const Dataset& data, const Predictions& predictions) {
  const size_t columns = data.problem == Problem::kRegression ? 1 : data.labels.size();
  if (predictions.columns != columns)
    throw Error(fmt::format("the predictions have {} numbers a row, but the data has {} labels",
                            predictions.columns, columns),
                "predictions for the same data", "predictions");
  check_rows(data.texts.size(), columns == 0 ? 0 : predictions.scores.size() / columns, "rows");
  if (!std::ranges::all_of(predictions.scores, [](float score) { return std::isfinite(score); }))
    throw Error("the predictions have numbers that are not finite", "", "predictions");
  for (const TextExample& example : data.texts) {
    const bool fits = data.problem == Problem::kRegression || data.problem == Problem::kMultiLabel ||
                      example.labels.size() == 1;
    const bool known = std::all_of(example.labels.begin(), example.labels.end(), [&](int32_t label) {
      return label >= 0 && size_t(label) < data.labels.size();
    });
    if (data.problem == Problem::kRegression && !std::isfinite(example.value))
      throw Error(fmt::format("the number of line {} is not finite", example.line), {}, "data");
    if (!fits || !known)
      throw Error(fmt::format("line {} has {}", example.line,
                              fits ? "a label that the data has not" : "not one label but several, or none"),
                  {}, "data");
  }
}

void check_tags(const Dataset& data, const Predictions& predictions) {
  check_rows(data.sentences.size(), predictions.tags.size(), "sentences");
  for (size_t i = 0; i < data.sentences.size(); ++i)
    if (data.sentences[i].tags.size() != predictions.tags[i].size())
      throw Error(fmt::format("the predictions for sentence {} are of {} words, but it has {}", i + 1,
                              predictions.tags[i].size(), data.sentences[i].tags.size()),
                  "predictions for the same data", "predictions");
  const auto known = [&](const std::vector<int32_t>& tags, int32_t least) {
    return std::ranges::all_of(
        tags, [&](int32_t tag) { return tag >= least && tag < int32_t(data.labels.size()); });
  };
  for (size_t i = 0; i < data.sentences.size(); ++i)
    if (!known(data.sentences[i].tags, 0) || !known(predictions.tags[i], -1))
      throw Error(fmt::format("sentence {} has a tag that the data has not", i + 1), {}, "predictions");
}

// Puts the score of this name first.
void put_first(std::vector<NamedScore>& scores, const std::string& metric) {
  if (metric.empty()) return;
  const auto asked = std::ranges::find(scores, metric, &NamedScore::name);
  if (asked == scores.end()) {
    std::vector<std::string> names;
    for (const NamedScore& score : scores) names.push_back(score.name);
    throw Error(fmt::format("there is no `metric` {} for this data: there are {}", io::quote(metric),
                            fmt::join(names, ", ")),
                fmt::format("`metric` {}", names[0]), "metric");
  }
  std::rotate(scores.begin(), asked, asked + 1);
}

NamedScore first_score(const Scorer& scorer, std::span<const uint32_t> weights, const std::string& metric) {
  std::vector<NamedScore> scores = scorer.scores(weights);
  put_first(scores, metric);
  return std::move(scores[0]);
}

void check_confidence(const ScoreOptions& options) {
  if (!(options.confidence > 0 && options.confidence < 1))
    throw Error(fmt::format("`confidence` is between 0 and 1, not {}", options.confidence),
                "`confidence` 0.95", "confidence");
}

void add_intervals(std::vector<NamedScore>& scores, const Scorer& scorer, size_t rows,
                   const ScoreOptions& options) {
  std::vector<std::vector<double>> drawn(scores.size());
  std::vector<uint32_t> weights(rows);
  for (size_t r = 0; r < options.resamples; ++r) {
    draw_resample(options.seed, r, weights);
    const std::vector<NamedScore> resampled = scorer.scores(weights);
    for (size_t s = 0; s < drawn.size(); ++s) drawn[s].push_back(resampled[s].value);
  }
  for (size_t s = 0; s < drawn.size(); ++s) {
    const Interval interval = percentile_interval(drawn[s], options.confidence);
    scores[s].low = interval.low, scores[s].high = interval.high;
  }
}

}  // namespace

std::unique_ptr<Scorer> make_scorer(const Dataset& data, const Predictions& predictions,
                                    const ScoreOptions& options) {
  if (!data.labeled)
    throw Error("the data has no labels: there is nothing to compare predictions with",
                "a file with a column of labels", "data");
  if (data.kind == TaskKind::kTag) {
    check_tags(data, predictions);
    return tag_scorer(data, predictions);
  }
  if (data.kind == TaskKind::kAnswer) {
    check_rows(data.questions.size(), predictions.answers.size(), "questions");
    return answer_scorer(data, predictions, options.threshold);
  }
  check_texts(data, predictions);
  if (data.problem == Problem::kRegression) return number_scorer(data, predictions);
  if (data.problem == Problem::kMultiLabel) return label_set_scorer(data, predictions);
  return class_scorer(data, predictions);
}

}  // namespace metrics

Evaluation score(const Dataset& data, const Predictions& predictions, const ScoreOptions& options) {
  metrics::check_confidence(options);
  const auto scorer = metrics::make_scorer(data, predictions, options);
  Evaluation out{.kind = data.kind, .rows = data.size(), .labels = data.labels};
  out.scores = scorer->scores(std::vector<uint32_t>(out.rows, 1));
  if (options.resamples > 0) metrics::add_intervals(out.scores, *scorer, out.rows, options);
  metrics::put_first(out.scores, options.metric);
  scorer->describe(out);
  return out;
}

Comparison compare(const Dataset& data, const Predictions& a, const Predictions& b,
                   const ScoreOptions& options) {
  metrics::check_confidence(options);
  if (options.resamples == 0)
    throw Error("comparing needs `resamples`: 0 of them say nothing", "`resamples` 2000", "resamples");
  const auto of_a = metrics::make_scorer(data, a, options), of_b = metrics::make_scorer(data, b, options);
  const size_t rows = data.size();
  std::vector<uint32_t> weights(rows, 1);
  const NamedScore score_a = metrics::first_score(*of_a, weights, options.metric);
  const NamedScore score_b = metrics::first_score(*of_b, weights, options.metric);
  Comparison out{.metric = score_a.name, .a = score_a.value, .b = score_b.value};
  out.difference = out.b - out.a;

  // Where both are equally good, differences are spread around 0 as those of the resamples are around the one
  // that was found.
  std::vector<double> differences;
  size_t as_large = 0, defined = 0;
  for (size_t r = 0; r < options.resamples; ++r) {
    metrics::draw_resample(options.seed, r, weights);
    const double difference = metrics::first_score(*of_b, weights, options.metric).value -
                              metrics::first_score(*of_a, weights, options.metric).value;
    if (std::isnan(difference)) continue;
    ++defined;
    as_large += std::abs(difference - out.difference) >= std::abs(out.difference);
    differences.push_back(difference);
  }
  const metrics::Interval interval = metrics::percentile_interval(differences, options.confidence);
  out.low = interval.low, out.high = interval.high;
  out.p_value = double(as_large + 1) / double(defined + 1);

  for (size_t i = 0; i < rows; ++i) {
    const std::optional<bool> right_a = of_a->right(i), right_b = of_b->right(i);
    if (!right_a || !right_b) {
      out.mcnemar_p = std::numeric_limits<double>::quiet_NaN();
      return out;
    }
    out.only_a += *right_a && !*right_b, out.only_b += *right_b && !*right_a;
  }
  out.mcnemar_p = metrics::mcnemar(out.only_a, out.only_b);
  return out;
}

NamedScore main_score(const Dataset& data, const ScoreOptions& options) {
  Predictions any{.columns = data.problem == Problem::kRegression ? 1 : data.labels.size()};
  any.scores.resize(data.texts.size() * any.columns);
  for (const TaggedSentence& sentence : data.sentences) any.tags.push_back(sentence.tags);
  any.answers.resize(data.questions.size());
  ScoreOptions once = options;
  once.resamples = 0;
  return score(data, any, once).scores.at(0);
}

Evaluation evaluate(const TextModel& model, const Dataset& data, const PredictOptions& predicting,
                    const ScoreOptions& scoring) {
  const Dataset fitting = with_labels_of(model, data);
  return score(fitting, predict(model, fitting, predicting), scoring);
}

}  // namespace bertie
