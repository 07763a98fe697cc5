#pragma once
// z = x·W + b, learned by minimizing
//
//   Σᵢ loss(zᵢ, yᵢ) + ½·|W|²
//
//   kSoftmax   log Σₖ e^zₖ − z_y                    y: a class
//   kSigmoid   log(1 + e^z) − y·z                   y: 0 or 1
//   kSquared   ½·(z − y)²                           y: a number
//
// which is scikit-learn's LogisticRegression with C = 1 (two classes are kSigmoid) and Ridge with alpha = 1.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bertie/evaluate.h"
#include "core/parallel.h"
#include "train/baselines/feature_rows.h"

namespace bertie::baseline {

// How often `fit` holds all numbers of a model: its parts of the gradient and L-BFGS's history.
inline constexpr double kFitCopies = 33;

enum class LinearLoss { kSoftmax, kSigmoid, kSquared };

struct LinearModel {
  size_t outputs = 0;
  std::vector<double> numbers = {};  // (columns + 1, outputs): the last row is b

  // (rows, outputs)
  std::vector<double> apply(const FeatureRows& x) const;
};

struct FitOptions {
  double tolerance = 1e-6;  // of the mean loss's gradient
  std::function<void(double fraction)> progress = {};
};

// `outputs` is the number of classes of kSoftmax, else 1.
LinearModel fit(const FeatureRows& x, std::span<const double> y, LinearLoss loss, size_t outputs, Team& team,
                const FitOptions& options = {});

// Learns from `x`, the features of `train`, and predicts the rows `dev_x`: classes by softmax, or by one
// sigmoid where there are two; several labels each by its own sigmoid; numbers by ridge regression.
Predictions fit_and_predict(const FeatureRows& x, const Dataset& train, const FeatureRows& dev_x, Team& team,
                            const FitOptions& options = {});

}  // namespace bertie::baseline
