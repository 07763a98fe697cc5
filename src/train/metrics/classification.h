#pragma once
// Scores of classes, as scikit-learn counts them. All of them come from one Counts for each class, so that a
// resample of the bootstrap costs one pass over the rows.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bertie/evaluate.h"

namespace bertie::metrics {

// Of a class, a label or a kind of entity:
//   precision = right / predicted   recall = right / support   F1 = 2·right / (predicted + support)
// 0 where a denominator is.
struct Counts {
  size_t right = 0, predicted = 0, support = 0;

  double precision() const { return ratio(right, predicted); }
  double recall() const { return ratio(right, support); }
  double f1() const { return ratio(2 * right, predicted + support); }
  bool seen() const { return predicted + support > 0; }
  Counts& operator+=(const Counts& other);
  ClassScore named(const std::string& label) const;

 private:
  static double ratio(size_t part, size_t whole) { return whole == 0 ? 0 : double(part) / double(whole); }
};

Counts sum(std::span<const Counts> classes);

// Rows of one class each: truth[i] and predicted[i] are classes, row i counts weights[i] times. A predicted
// class below 0 is none at all.
std::vector<Counts> count_classes(std::span<const int32_t> truth, std::span<const int32_t> predicted,
                                  std::span<const uint32_t> weights, size_t classes);

double accuracy(std::span<const Counts> classes);  // of rows with one class each
// Mean F1 over the classes that occur, in the truth or the predictions; weighted: by their support.
double macro_f1_of_seen(std::span<const Counts> classes);
double weighted_f1(std::span<const Counts> classes);
// Mean over all classes, as for several labels a row.
double macro_f1_of_all(std::span<const Counts> classes);
// Of any number of classes (Gorodkin 2004), with c rows right of s and t_k, p_k rows of class k:
//   (c·s − Σ t_k·p_k) / √((s² − Σ p_k²)·(s² − Σ t_k²));  0 where that is 0/0.
double matthews(std::span<const Counts> classes);

// Expected calibration error: rows in 15 bins of like confidence, (0, 1/15], (1/15, 2/15] …; the mean
// distance of a bin's accuracy from its mean confidence, weighted by its rows.
double calibration_error(std::span<const float> confidence, std::span<const uint8_t> right,
                         std::span<const uint32_t> weights);

}  // namespace bertie::metrics
