#pragma once
// Optimizers over a learner's flat blocks: AdamW, BERT's Adam, LAMB (kernels/optimize.h
// has the formulas), Muon (kernels/muon.h).
//
//   Optimizer optimizer(learner, options);
//   const StepTaken taken = optimizer.step(rate);      // the gradients are 0 afterwards
//
// The gradient is clipped to a global norm. A step whose norm is NaN or infinite, or an outlier among the
// last ones, is skipped. An outlier is remembered among the last norms all the same, so that norms that stay
// high soon stop being outliers.
//
// The state is two blocks of moments, the mean of the parameters where one is kept, and a few counters: with
// the parameters it is all that a run needs to be resumed to the same bits.
#include <algorithm>
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "bertie/train.h"
#include "core/arena.h"
#include "model/learner.h"

namespace bertie {

struct StepTaken {
  double norm = 0;    // of the gradient, before it was clipped
  bool taken = true;  // false: skipped, the parameters did not change
  double median = 0;  // of the last norms, where there are enough to judge an outlier
};

inline constexpr double kOutlier = 20;  // where TrainOptions says nothing

class Optimizer {
 public:
  // The learner outlives it. Throws Error for options that make no sense.
  Optimizer(Learner& learner, const TrainOptions& options);

  double norm() const;  // of the gradient
  StepTaken step(double rate) { return step(rate, norm()); }
  // With a norm that is the same on all ranks: its last bits depend on the processor, and a decision by it
  // must not.
  StepTaken step(double rate, double norm);

  uint64_t updates() const { return updates_; }  // steps that were not skipped
  uint64_t skipped() const { return skipped_; }
  size_t skipped_in_a_row() const { return in_a_row_; }

  std::span<float> first_moments() { return {m_.as<float>(), count_}; }
  std::span<float> second_moments() { return {v_.as<float>(), count_}; }
  // As at a run's start: moments that another method left are of no use.
  void forget_moments();
  // The running mean of the parameters; empty where none is kept. Whoever sets the parameters sets it.
  std::span<float> mean() { return {mean_.as<float>(), options_.average > 0 ? count_ : 0}; }
  nlohmann::ordered_json counters() const;
  void set_counters(const nlohmann::json& counters, const std::string& name);

 private:
  struct HiddenMatrix {
    const Segment* segment;
    size_t which;  // of its stack
  };

  bool is_outlier(double norm, double& median) const;
  void remember(double norm);
  void update(double rate, double scale);
  void update_mean();
  bool goes_by_muon(const Segment& segment) const;

  static constexpr size_t kNorms = 64, kEnough = 16;
  Learner& learner_;
  TrainOptions options_;
  size_t count_;
  Block m_, v_, mean_;
  std::vector<HiddenMatrix> matrices_;  // that go by Muon
  size_t workspace_floats_ = 0;         // what the largest of them needs
  Block workspaces_;                    // of each thread
  uint64_t updates_ = 0, skipped_ = 0;
  uint64_t moment_updates_ = 0;  // since the moments began
  size_t in_a_row_ = 0;
  std::array<double, kNorms> norms_{};  // a ring: the last norm is at (seen_ − 1) % kNorms
  uint64_t seen_ = 0;
};

// As long as it lives, the mean of the parameters and the parameters are in each other's place. Without a
// mean it does nothing.
class MeanInPlace {
 public:
  MeanInPlace(Learner& learner, Optimizer& optimizer)
      : parameters_(learner.parameters()), mean_(optimizer.mean()) {
    exchange();
  }
  ~MeanInPlace() { exchange(); }
  MeanInPlace(const MeanInPlace&) = delete;
  MeanInPlace& operator=(const MeanInPlace&) = delete;

 private:
  void exchange() { std::ranges::swap_ranges(mean_, parameters_.first(mean_.size())); }
  std::span<float> parameters_, mean_;
};

}  // namespace bertie
