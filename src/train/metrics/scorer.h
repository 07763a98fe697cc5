#pragma once
// A data set and what was predicted for it, ready to be counted again and again: as it is, and for each
// resample of the bootstrap, in which a row counts as often as it was drawn.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bertie/evaluate.h"

namespace bertie::metrics {

class Scorer {
 public:
  virtual ~Scorer() = default;
  // The main score first. Row i counts weights[i] times.
  virtual std::vector<NamedScore> scores(std::span<const uint32_t> weights) const = 0;
  // Everything else of an evaluation: classes, confusion, row_scores, thresholds.
  virtual void describe(Evaluation& evaluation) const = 0;
  // Whether a row is wholly right; nothing where there is no such thing.
  virtual std::optional<bool> right(size_t row) const = 0;
};

// The subjects, each in its own file. The data outlives the scorer.
std::unique_ptr<Scorer> class_scorer(const Dataset& data, const Predictions& predictions);
std::unique_ptr<Scorer> label_set_scorer(const Dataset& data, const Predictions& predictions);
std::unique_ptr<Scorer> number_scorer(const Dataset& data, const Predictions& predictions);
std::unique_ptr<Scorer> tag_scorer(const Dataset& data, const Predictions& predictions);
std::unique_ptr<Scorer> answer_scorer(const Dataset& data, const Predictions& predictions, double threshold);

// The one for this data, after checking that the predictions are of it and that there is something to count.
std::unique_ptr<Scorer> make_scorer(const Dataset& data, const Predictions& predictions,
                                    const ScoreOptions& options);

// A row's class with the highest score, the first of equal ones.
int32_t best_class(const Predictions& predictions, size_t row);
// Whether a label of several is predicted: above 0.5.
bool has_label(const Predictions& predictions, size_t row, size_t label);

inline NamedScore named(std::string name, double value) {
  const bool higher = name != "mean_squared_error" && name != "calibration_error";
  return {std::move(name), value, value, value, higher};
}

}  // namespace bertie::metrics
