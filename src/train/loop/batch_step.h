#pragma once
// One step's batch, over micro-batches and ranks: what each of them learns from, and what came out for all.
//
//   counts  of targets are added up over all of the step first, so that a loss is the mean over the whole
//           batch however it is cut: k micro-batches of b on r ranks are one batch of k·b·r
//   passes  forward and back, one micro-batch after the other, adding to the learner's gradients
//   sums    of gradients over the ranks begin while the last pass still goes back: in buckets, from the end
//           of the gradients to their start, in an order that does not depend on anything
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/learner.h"
#include "train/ranks/collective.h"
#include "train/data/batch_source.h"

namespace bertie {

// What is learned: the head for a store's rows and targets, and the one for its labels.
struct BatchHeads {
  Head tokens = Head::kMaskedLm;
  std::optional<Head> labels = {};
};

// Sums over a step or several, over all ranks.
struct StepSums {
  LossSum tokens, labels;
  uint64_t read = 0;  // tokens that the model read

  StepSums& operator+=(const StepSums& other) {
    tokens += other.tokens, labels += other.labels, read += other.read;
    return *this;
  }
  static double mean(const LossSum& s) { return s.count ? s.loss / double(s.count) : 0; }
  static double accuracy(const LossSum& s) { return s.count ? double(s.right) / double(s.count) : 0; }
  double loss() const { return mean(tokens) + mean(labels); }
};

class BatchStep {
 public:
  struct Shape {
    size_t batch = 1, accumulate = 1;  // sequences over all ranks; micro-batches of a rank
    size_t max_length = 0;             // tokens of a sequence, to take memory once; 0: as they come
    size_t bucket = size_t{2} << 20;   // floats that go together: 8 MB, enough for a network's full speed
  };
  // Throws Error for a batch that cannot be cut so.
  BatchStep(Learner& learner, Collective& ranks, const BatchHeads& heads, const Shape& shape);
  BatchStep(const BatchStep&) = delete;
  BatchStep& operator=(const BatchStep&) = delete;

  // The next batch of the source: forward, back, and gradients added up over all ranks. `seconds` becomes
  // rank 0's on every rank, because clocks differ and the schedule must not.
  StepSums learn(BatchSource& source, std::optional<uint64_t> dropout_seed, double& seconds);
  // The next `count` sequences of the source, forward alone.
  StepSums evaluate(BatchSource& source, size_t count);

 private:
  void start_sums(size_t ready_from);
  struct LossTerms {
    std::array<LossTerm, 2> all;
    std::array<LossSum, 2> sums;
    size_t count = 0;
  };
  LossTerms terms_of(const BatchStorage& store, double token_scale, double label_scale) const;
  static void add(const LossTerms& terms, const BatchHeads& heads, StepSums& to);
  void sum_over_ranks(StepSums& sums) const;

  Learner& learner_;
  Collective& ranks_;
  BatchHeads heads_;
  Shape shape_;
  std::vector<BatchStorage> stores_;  // one for each micro-batch
  std::vector<size_t> buckets_;      // where they begin, from the last to 0
  size_t next_bucket_ = 0, sums_end_ = 0;
  Learner::Ready ready_;
};

// Part `part` of `parts` of `count` things: the parts are in order, and differ by one at most.
struct SharePart {
  size_t first, count;
};
SharePart part_of(size_t count, size_t part, size_t parts);

}  // namespace bertie
