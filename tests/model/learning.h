#pragma once
// What tests of learners share: gradients as a vector, and their check against differences of the loss.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "core/random.h"
#include "model/learner.h"

namespace bertie::test {

inline double total(const std::vector<LossTerm>& terms, const std::vector<LossSum>& sums) {
  double loss = 0;
  for (size_t i = 0; i < terms.size(); ++i) loss += double(terms[i].scale) * sums[i].loss;
  return loss;
}

// The loss; gradients are set, not added to.
inline double learn(Learner& learner, const TrainingBatch& training) {
  std::fill(learner.gradients().begin(), learner.gradients().end(), 0.0f);
  std::vector<LossSum> sums(training.terms.size());
  learner.learn(training, sums);
  return total({training.terms.begin(), training.terms.end()}, sums);
}

inline std::vector<float> gradients(Learner& learner, const TrainingBatch& training) {
  learn(learner, training);
  return {learner.gradients().begin(), learner.gradients().end()};
}

inline double norm(std::span<const float> x) {
  double sum = 0;
  for (float v : x) sum += double(v) * v;
  return std::sqrt(sum);
}

inline double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
  return std::sqrt(sum);
}

// Larger numbers than a fresh model has, so that every gradient is one that counts.
inline void enlarge(Learner& learner, uint64_t seed = 3) {
  Random random(seed);
  for (const Segment& s : learner.segments())
    for (size_t i = 0; i < s.count; ++i) {
      float& p = learner.parameters()[s.first + i];
      if (p != 0 || !s.decays) p += 0.15f * random.normal();
      // DistilBERT's classifier has a kink at 0, where there is no slope to measure: keep away from it.
      if (s.name == "pre_classifier.bias") p += i % 2 ? 3.0f : -3.0f;
    }
}

// (L(p + ε·v) − L(p − ε·v))/2ε against g·v, with the masks of dropout drawn alike each time: v is the
// gradient itself; for each tensor its gradient, which shows its size; and for each tensor random signs,
// which show what is missing. Parameters that are 0 stay so.
inline void expect_slope(Learner& learner, const TrainingBatch& training) {
  const std::vector<float> g = gradients(learner, training);
  const std::vector<float> p(learner.parameters().begin(), learner.parameters().end());
  ASSERT_GT(norm(g), 1e-3);
  const auto expect_along = [&](const std::vector<float>& v, const std::string& what) {
    double expected = 0;
    for (size_t i = 0; i < g.size(); ++i) expected += double(g[i]) * v[i];
    const auto loss_at = [&](float step) {
      for (size_t i = 0; i < p.size(); ++i) learner.parameters()[i] = p[i] + step * v[i];
      return learn(learner, training);
    };
    // Two steps, and what is left of the third derivative taken out (Richardson).
    const auto slope = [&](float step) { return (loss_at(step) - loss_at(-step)) / (2 * double(step)); };
    const double wide = slope(8e-3f), narrow = slope(4e-3f), measured = (4 * narrow - wide) / 3;
    // The loss is a sum of floats: some 1e-7 of it, over a step.
    EXPECT_NEAR(measured, expected, 2e-3 * std::abs(expected) + 2e-4) << what;
    std::copy(p.begin(), p.end(), learner.parameters().begin());
  };
  const auto along_gradient = [&](size_t first, size_t count) {
    std::vector<float> v(g.size());
    const double size = norm(std::span(g).subspan(first, count));
    for (size_t i = first; i < first + count && size > 0; ++i) v[i] = float(g[i] / size);
    return v;
  };
  expect_along(along_gradient(0, g.size()), "the whole gradient");
  Random random(11);
  for (const Segment& s : learner.segments()) {
    expect_along(along_gradient(s.first, s.count), s.name);
    std::vector<float> v(g.size());
    for (size_t i = s.first; i < s.first + s.count; ++i)
      if (p[i] != 0) v[i] = (random.below(2) ? 1.0f : -1.0f) / std::sqrt(float(s.count));
    expect_along(v, s.name + ", random");
  }
}

}  // namespace bertie::test
