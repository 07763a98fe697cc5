#include "train/metrics/classification.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace bertie::metrics {

Counts& Counts::operator+=(const Counts& other) {
  right += other.right, predicted += other.predicted, support += other.support;
  return *this;
}

ClassScore Counts::named(const std::string& label) const {
  return {label, precision(), recall(), f1(), support, predicted};
}

Counts sum(std::span<const Counts> classes) {
  Counts all;
  for (const Counts& one : classes) all += one;
  return all;
}

std::vector<Counts> count_classes(std::span<const int32_t> truth, std::span<const int32_t> predicted,
                                  std::span<const uint32_t> weights, size_t classes) {
  std::vector<Counts> counts(classes);
  for (size_t i = 0; i < truth.size(); ++i) {
    counts[size_t(truth[i])].support += weights[i];
    if (predicted[i] < 0) continue;
    counts[size_t(predicted[i])].predicted += weights[i];
    if (truth[i] == predicted[i]) counts[size_t(truth[i])].right += weights[i];
  }
  return counts;
}

double accuracy(std::span<const Counts> classes) { return sum(classes).recall(); }

double macro_f1_of_seen(std::span<const Counts> classes) {
  double total = 0;
  size_t seen = 0;
  for (const Counts& one : classes) total += one.f1(), seen += one.seen();
  return seen == 0 ? 0 : total / double(seen);
}

double weighted_f1(std::span<const Counts> classes) {
  double total = 0;
  for (const Counts& one : classes) total += one.f1() * double(one.support);
  const size_t support = sum(classes).support;
  return support == 0 ? 0 : total / double(support);
}

double macro_f1_of_all(std::span<const Counts> classes) {
  double total = 0;
  for (const Counts& one : classes) total += one.f1();
  return classes.empty() ? 0 : total / double(classes.size());
}

double matthews(std::span<const Counts> classes) {
  const Counts all = sum(classes);
  const double rows = double(all.support);
  double both = 0, predicted = 0, truth = 0;
  for (const Counts& one : classes) {
    both += double(one.predicted) * double(one.support);
    predicted += double(one.predicted) * double(one.predicted);
    truth += double(one.support) * double(one.support);
  }
  const double variances = (rows * rows - predicted) * (rows * rows - truth);
  return variances == 0 ? 0 : (double(all.right) * rows - both) / std::sqrt(variances);
}

double calibration_error(std::span<const float> confidence, std::span<const uint8_t> right,
                         std::span<const uint32_t> weights) {
  constexpr size_t kBins = 15;
  struct Bin {
    double confidence = 0, right = 0;
  };
  std::array<Bin, kBins> bins{};
  double rows = 0;
  for (size_t i = 0; i < confidence.size(); ++i) {
    const double upper = std::ceil(double(confidence[i]) * kBins);
    Bin& bin = bins[size_t(std::clamp(upper, 1.0, double(kBins))) - 1];
    bin.confidence += weights[i] * double(confidence[i]);
    bin.right += weights[i] * double(right[i]);
    rows += weights[i];
  }
  double error = 0;
  for (const Bin& bin : bins) error += std::abs(bin.right - bin.confidence);
  return rows == 0 ? 0 : error / rows;
}

}  // namespace bertie::metrics
