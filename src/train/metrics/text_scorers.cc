// Rows of classify and pair: one class of several, several labels, or a number.
#include <algorithm>
#include <cmath>

#include "train/metrics/classification.h"
#include "train/metrics/correlation.h"
#include "train/metrics/scorer.h"

namespace bertie::metrics {
namespace {

std::span<const float> row_of(const Predictions& predictions, size_t row) {
  return std::span(predictions.scores).subspan(row * predictions.columns, predictions.columns);
}

std::vector<ClassScore> table_of(std::span<const Counts> classes, const std::vector<std::string>& labels) {
  std::vector<ClassScore> table;
  for (size_t k = 0; k < classes.size(); ++k) table.push_back(classes[k].named(labels[k]));
  return table;
}

std::vector<uint32_t> once_each(size_t rows) { return std::vector<uint32_t>(rows, 1); }

class ClassScorer : public Scorer {
 public:
  ClassScorer(const Dataset& data, const Predictions& predictions) : labels_(data.labels) {
    for (size_t i = 0; i < data.texts.size(); ++i) {
      truth_.push_back(data.texts[i].labels[0]);
      predicted_.push_back(best_class(predictions, i));
      confidence_.push_back(row_of(predictions, i)[size_t(predicted_.back())]);
      right_.push_back(truth_.back() == predicted_.back());
    }
  }

  std::vector<NamedScore> scores(std::span<const uint32_t> weights) const override {
    const std::vector<Counts> classes = count_classes(truth_, predicted_, weights, labels_.size());
    std::vector<NamedScore> out{named("accuracy", accuracy(classes))};
    if (classes.size() == 2) out.push_back(named("f1", classes[1].f1()));
    out.push_back(named("matthews", matthews(classes)));
    out.push_back(named("f1_macro", macro_f1_of_seen(classes)));
    out.push_back(named("f1_micro", sum(classes).f1()));
    out.push_back(named("f1_weighted", weighted_f1(classes)));
    out.push_back(named("calibration_error", calibration_error(confidence_, right_, weights)));
    return out;
  }

  void describe(Evaluation& evaluation) const override {
    const size_t n = labels_.size();
    evaluation.classes = table_of(count_classes(truth_, predicted_, once_each(truth_.size()), n), labels_);
    constexpr size_t kMostLabels = 200;  // of a matrix that anybody reads
    evaluation.confusion.resize(n <= kMostLabels ? n * n : 0);
    for (size_t i = 0; i < truth_.size() && !evaluation.confusion.empty(); ++i)
      ++evaluation.confusion[size_t(truth_[i]) * n + size_t(predicted_[i])];
    evaluation.row_scores.assign(right_.begin(), right_.end());
  }

  std::optional<bool> right(size_t row) const override { return right_[row] != 0; }

 private:
  const std::vector<std::string>& labels_;
  std::vector<int32_t> truth_, predicted_;
  std::vector<float> confidence_;
  std::vector<uint8_t> right_;
};

class LabelSetScorer : public Scorer {
 public:
  LabelSetScorer(const Dataset& data, const Predictions& predictions) : labels_(data.labels) {
    for (size_t i = 0; i < data.texts.size(); ++i) {
      std::vector<uint8_t> truth(labels_.size()), given(labels_.size());
      for (const int32_t label : data.texts[i].labels) truth[size_t(label)] = 1;
      for (size_t k = 0; k < given.size(); ++k) given[k] = has_label(predictions, i, k);
      exact_.push_back(truth == given);
      truth_.push_back(std::move(truth));
      given_.push_back(std::move(given));
    }
  }

  std::vector<NamedScore> scores(std::span<const uint32_t> weights) const override {
    const std::vector<Counts> counts = count(weights);
    double exact = 0, rows = 0;
    for (size_t i = 0; i < exact_.size(); ++i) exact += weights[i] * double(exact_[i]), rows += weights[i];
    return {named("f1_micro", sum(counts).f1()), named("f1_macro", macro_f1_of_all(counts)),
            named("exact_match", exact / rows)};
  }

  void describe(Evaluation& evaluation) const override {
    evaluation.classes = table_of(count(once_each(truth_.size())), labels_);
    evaluation.row_scores.assign(exact_.begin(), exact_.end());
  }

  std::optional<bool> right(size_t row) const override { return exact_[row] != 0; }

 private:
  std::vector<Counts> count(std::span<const uint32_t> weights) const {
    std::vector<Counts> counts(labels_.size());
    for (size_t i = 0; i < truth_.size(); ++i)
      for (size_t k = 0; k < counts.size(); ++k) {
        counts[k].support += weights[i] * truth_[i][k];
        counts[k].predicted += weights[i] * given_[i][k];
        counts[k].right += weights[i] * (truth_[i][k] & given_[i][k]);
      }
    return counts;
  }

  const std::vector<std::string>& labels_;
  std::vector<std::vector<uint8_t>> truth_, given_;  // for each row, 1 for each label that it has
  std::vector<uint8_t> exact_;
};

class NumberScorer : public Scorer {
 public:
  NumberScorer(const Dataset& data, const Predictions& predictions) {
    for (const TextExample& example : data.texts) truth_.push_back(example.value);
    predicted_.assign(predictions.scores.begin(), predictions.scores.end());
    truth_order_ = ascending(truth_), predicted_order_ = ascending(predicted_);
  }

  std::vector<NamedScore> scores(std::span<const uint32_t> weights) const override {
    return {named("pearson", pearson(predicted_, truth_, weights)),
            named("spearman", pearson(ranks(predicted_, predicted_order_, weights),
                                      ranks(truth_, truth_order_, weights), weights)),
            named("mean_squared_error", mean_squared_error(predicted_, truth_, weights)),
            named("r2", r2(predicted_, truth_, weights))};
  }

  void describe(Evaluation&) const override {}
  std::optional<bool> right(size_t) const override { return {}; }

 private:
  std::vector<double> truth_, predicted_;
  std::vector<size_t> truth_order_, predicted_order_;
};

}  // namespace

int32_t best_class(const Predictions& predictions, size_t row) {
  const std::span<const float> scores = row_of(predictions, row);
  return int32_t(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

bool has_label(const Predictions& predictions, size_t row, size_t label) {
  return row_of(predictions, row)[label] > 0.5f;
}

std::unique_ptr<Scorer> class_scorer(const Dataset& data, const Predictions& predictions) {
  return std::make_unique<ClassScorer>(data, predictions);
}
std::unique_ptr<Scorer> label_set_scorer(const Dataset& data, const Predictions& predictions) {
  return std::make_unique<LabelSetScorer>(data, predictions);
}
std::unique_ptr<Scorer> number_scorer(const Dataset& data, const Predictions& predictions) {
  return std::make_unique<NumberScorer>(data, predictions);
}

}  // namespace bertie::metrics
