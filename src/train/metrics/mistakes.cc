// Rows that were predicted wrongly, the surest first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "train/metrics/scorer.h"

namespace bertie {
namespace metrics {
namespace {

// Fills in what is right, what was predicted, and how sure that was. Nothing to say where all is right.
class MistakeFinder {
 public:
  MistakeFinder(const Dataset& data, const Predictions& predictions, const ScoreOptions& options)
      : data_(data), predictions_(predictions), options_(options) {}

  Mistake operator()(size_t row) const {
    if (data_.kind == TaskKind::kTag) return tags(row);
    if (data_.kind == TaskKind::kAnswer) return answer(row);
    const TextExample& example = data_.texts[row];
    Mistake out{.row = row, .line = example.line, .a = example.a, .b = example.b};
    if (data_.problem == Problem::kRegression)
      number(row, out);
    else if (data_.problem == Problem::kMultiLabel)
      label_set(row, out);
    else
      one_class(row, out);
    return out;
  }

 private:
  float score(size_t row, size_t label) const {
    return predictions_.scores[row * predictions_.columns + label];
  }

  void one_class(size_t row, Mistake& out) const {
    const auto predicted = size_t(best_class(predictions_, row));
    out.confidence = score(row, predicted);
    out.right = data_.labels[size_t(data_.texts[row].labels[0])];
    out.predicted = data_.labels[predicted];
  }

  void label_set(size_t row, Mistake& out) const {
    const std::vector<int32_t>& right = data_.texts[row].labels;
    for (size_t k = 0; k < data_.labels.size(); ++k) {
      const bool is = std::find(right.begin(), right.end(), int32_t(k)) != right.end();
      const bool said = has_label(predictions_, row, k);
      if (is) add(out.right, data_.labels[k], ", ");
      if (said) add(out.predicted, data_.labels[k], ", ");
      if (is != said)
        out.confidence = std::max(out.confidence, double(said ? score(row, k) : 1 - score(row, k)));
    }
  }

  void number(size_t row, Mistake& out) const {
    const double right = data_.texts[row].value, predicted = predictions_.scores[row];
    out.confidence = std::abs(predicted - right);
    out.right = fmt::format("{:.6g}", right), out.predicted = fmt::format("{:.6g}", predicted);
  }

  Mistake tags(size_t row) const {
    const TaggedSentence& sentence = data_.sentences[row];
    const std::vector<int32_t>& predicted = predictions_.tags[row];
    Mistake out{.row = row, .line = sentence.line};
    for (size_t w = 0; w < sentence.words.size(); ++w) {
      add(out.a, sentence.words[w], " ");
      if (predicted[w] == sentence.tags[w]) continue;
      add(out.right, tagged(sentence.words[w], sentence.tags[w]), " ");
      add(out.predicted, tagged(sentence.words[w], predicted[w]), " ");
      if (!predictions_.tag_scores.empty())
        out.confidence = std::max(out.confidence, double(predictions_.tag_scores[row][w]));
    }
    return out;
  }

  std::string tagged(const std::string& word, int32_t tag) const {
    return fmt::format("{}/{}", word, tag < 0 ? "-" : data_.labels[size_t(tag)]);
  }

  Mistake answer(size_t row) const {
    const SquadQuestion& question = data_.questions[row];
    const PredictedAnswer& given = predictions_.answers[row];
    const bool none = data_.no_answers && given.null_odds > options_.threshold;
    Mistake out{.row = row, .line = question.line, .a = question.question, .b = question.context};
    std::vector<std::string_view> seen;
    for (const SquadQuestion::Answer& right : question.answers)
      if (std::find(seen.begin(), seen.end(), right.text) == seen.end()) {
        seen.push_back(right.text);
        add(out.right, right.text, " | ");
      }
    if (!none) out.predicted = given.text;
    out.confidence = none ? 1 - given.probability : given.probability;
    return out;
  }

  static void add(std::string& list, std::string_view item, std::string_view separator) {
    if (!list.empty()) list += separator;
    list += item;
  }

  const Dataset& data_;
  const Predictions& predictions_;
  const ScoreOptions& options_;
};

}  // namespace
}  // namespace metrics

std::vector<Mistake> mistakes(const Dataset& data, const Predictions& predictions, size_t top,
                              const ScoreOptions& options) {
  const auto scorer = metrics::make_scorer(data, predictions, options);
  const metrics::MistakeFinder find(data, predictions, options);
  std::vector<Mistake> all;
  for (size_t row = 0; row < data.size(); ++row) {
    if (scorer->right(row).value_or(false)) continue;
    Mistake mistake = find(row);
    if (data.problem == Problem::kRegression && mistake.confidence == 0) continue;
    all.push_back(std::move(mistake));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Mistake& x, const Mistake& y) { return x.confidence > y.confidence; });
  if (all.size() > top) all.resize(top);
  return all;
}

}  // namespace bertie
