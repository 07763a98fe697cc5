#pragma once
// What tests of learners share: gradients as a vector, and their check against differences of the loss.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "core/random.h"
#include "model/learner.h"

namespace bertie::test {

inline double total(const std::vector<Goal>& goals, const std::vector<LossSum>& sums) {
  double loss = 0;
  for (size_t i = 0; i < goals.size(); ++i) loss += double(goals[i].scale) * sums[i].loss;
  return loss;
}

// The loss; gradients are set, not added to.
inline double learn(Learner& learner, const Lesson& lesson) {
  std::fill(learner.gradients().begin(), learner.gradients().end(), 0.0f);
  std::vector<LossSum> sums(lesson.goals.size());
  learner.learn(lesson, sums);
  return total({lesson.goals.begin(), lesson.goals.end()}, sums);
}

inline std::vector<float> gradients(Learner& learner, const Lesson& lesson) {
  learn(learner, lesson);
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

// (L(p + ε·v) − L(p − ε·v))/2ε against g·v, for v the gradient itself and random ones, with the masks of
// dropout drawn alike each time. Parameters that are 0 stay so.
inline void expect_slope(Learner& learner, const Lesson& lesson) {
  const std::vector<float> g = gradients(learner, lesson);
  const std::vector<float> p(learner.parameters().begin(), learner.parameters().end());
  const double size = norm(g);
  ASSERT_GT(size, 1e-3);
  for (int direction = 0; direction < 4; ++direction) {
    std::vector<float> v(g.size());
    Random random(uint64_t(direction) + 11);
    for (const Segment& s : learner.segments())
      for (size_t i = s.first; i < s.first + s.count; ++i)  // mostly random, but not at right angles to g
        v[i] = direction == 0 ? g[i] / float(size)
                              : 0.3f * g[i] / float(size) + 0.01f * random.normal() * (p[i] != 0);
    double expected = 0;
    for (size_t i = 0; i < g.size(); ++i) expected += double(g[i]) * v[i];
    const auto loss_at = [&](float step) {
      for (size_t i = 0; i < p.size(); ++i) learner.parameters()[i] = p[i] + step * v[i];
      return learn(learner, lesson);
    };
    // Two steps, and what is left of the third derivative taken out (Richardson).
    const auto slope = [&](float step) { return (loss_at(step) - loss_at(-step)) / (2 * double(step)); };
    const double wide = slope(8e-3f), narrow = slope(4e-3f), measured = (4 * narrow - wide) / 3;
    EXPECT_NEAR(measured, expected, 2e-3 * std::max(std::abs(expected), 0.2 * size))
        << "direction " << direction << ", gradient's size " << size;
    std::copy(p.begin(), p.end(), learner.parameters().begin());
  }
}

}  // namespace bertie::test
