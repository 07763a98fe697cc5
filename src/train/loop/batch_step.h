#pragma once
// One step's batch, over micro-batches and ranks: what each of them learns from, and the sums over all.
//
//   counts  of targets are summed over the whole step first, so that a loss is the mean over the whole batch
//           however it is cut: k micro-batches of b on r ranks are one batch of k·b·r
//   passes  forward and backward, one micro-batch after the other, adding to the learner's gradients
//   sums    of gradients over the ranks start while the last backward pass still runs: in buckets, from the
//           end of the gradients to their start, in an order that does not depend on anything
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bertie/train.h"
#include "model/learner.h"
#include "train/data/batch_source.h"
#include "train/ranks/collective.h"

namespace bertie {

// Sums over a step or several, over all ranks.
struct StepSums {
  std::vector<LossSum> terms;  // in the order of the source's
  uint64_t tokens = 0;         // that the model read

  explicit StepSums(size_t count) : terms(count) {}
  StepSums& operator+=(const StepSums& other);
  void clear();
  // The means, one metric for each term, into `metrics`; returns the weighted sum of their losses. Takes no
  // memory where `metrics` had them before.
  double means(std::span<const TermSpec> specs, std::vector<Metric>& metrics) const;
};

class BatchStep {
 public:
  struct Shape {
    size_t batch = 1, accumulate = 1;  // sequences over all ranks; micro-batches of a rank
    size_t max_length = 0;             // tokens of a sequence, to allocate once; 0: as they come
    size_t bucket =
        size_t{2} << 20;  // floats that are summed together: 8 MB, enough for a network's full speed
  };
  // The arguments outlive it. Throws Error for a batch that cannot be cut so.
  BatchStep(Learner& learner, Collective& ranks, BatchSource& source, const Shape& shape);
  BatchStep(const BatchStep&) = delete;
  BatchStep& operator=(const BatchStep&) = delete;

  // The source's next batch: forward, backward, and gradients summed over all ranks. `seconds` becomes rank
  // 0's on every rank, because clocks differ and the schedule must not. The sums are valid until the next
  // call.
  const StepSums& learn(std::optional<uint64_t> dropout_seed, double& seconds);
  // The source's next `count` sequences, forward only.
  const StepSums& evaluate(size_t count);

 private:
  void start_sums(size_t ready_from);
  // One storage's batch through the learner: backward too where `ready` is not null. Adds to sums_.
  void pass(const BatchStorage& store, std::optional<uint64_t> dropout_seed, size_t first_sequence,
            const Learner::Ready* ready);
  void sum_over_ranks();

  Learner& learner_;
  Collective& ranks_;
  BatchSource& source_;
  Shape shape_;
  std::vector<BatchStorage> stores_;  // one for each micro-batch
  std::vector<size_t> buckets_;       // where they begin, from the last to 0
  size_t next_bucket_ = 0, sums_end_ = 0;
  Learner::Ready ready_;
  // Of the current call, kept so that no step allocates.
  std::vector<double> scales_, numbers_;
  std::vector<LossTerm> terms_;
  std::vector<LossSum> term_sums_;
  StepSums sums_;
};

// Part `part` of `parts` of `count` things: the parts are in order, and their sizes differ by one at most.
struct SharePart {
  size_t first, count;
};
SharePart part_of(size_t count, size_t part, size_t parts);

}  // namespace bertie
