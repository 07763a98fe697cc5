#include "train/loop/batch_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"

namespace bertie {
namespace {

size_t count_targets(std::span<const int32_t> targets) {
  return size_t(std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; }));
}

void reserve(BatchStorage& store, size_t sequences, size_t tokens) {
  for (auto* v : {&store.ids, &store.types, &store.target_ids, &store.rows, &store.targets})
    v->reserve(tokens);
  for (auto* v : {&store.offsets, &store.target_offsets, &store.labels}) v->reserve(sequences + 1);
}

}  // namespace

SharePart part_of(size_t count, size_t part, size_t parts) {
  const size_t first = count * part / parts;
  return {first, count * (part + 1) / parts - first};
}

BatchStep::BatchStep(Learner& learner, Collective& ranks, const BatchHeads& heads, const Shape& shape)
    : learner_(learner), ranks_(ranks), heads_(heads), shape_(shape) {
  const size_t cuts = size_t(ranks.size()) * std::max<size_t>(shape.accumulate, 1);
  if (shape.accumulate == 0 || shape.batch < cuts)
    throw Error(fmt::format("a batch of {} sequences cannot be cut into {} micro-batches on {} ranks",
                            shape.batch, shape.accumulate, ranks.size()),
                fmt::format("a batch of at least {} sequences", cuts));
  stores_.resize(shape.accumulate);
  const size_t sequences = (shape.batch + cuts - 1) / cuts;
  for (BatchStorage& store : stores_) reserve(store, sequences, sequences * shape.max_length);
  if (shape.max_length > 0) learner.reserve(sequences, shape.max_length, sequences * shape.max_length);
  const size_t all = learner.gradients().size();
  for (size_t end = all; end > 0;) buckets_.push_back(end = end > shape.bucket ? end - shape.bucket : 0);
  ready_ = [this](size_t first) { start_sums(first); };
}

void BatchStep::start_sums(size_t ready_from) {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_] >= ready_from; ++next_bucket_) {
    const size_t first = buckets_[next_bucket_];
    ranks_.start_sum(learner_.gradients().subspan(first, sums_end_ - first));
    sums_end_ = first;
  }
}

BatchStep::LossTerms BatchStep::terms_of(const BatchStorage& store, double token_scale, double label_scale) const {
  LossTerms terms;
  // Without targets there is no term: rows that are empty would mean all of them.
  if (!store.targets.empty())
    terms.all[terms.count++] = {
        .head = heads_.tokens, .rows = store.rows, .targets = store.targets, .scale = float(token_scale)};
  if (heads_.labels && !store.labels.empty())
    terms.all[terms.count++] = {.head = *heads_.labels, .targets = store.labels, .scale = float(label_scale)};
  return terms;
}

void BatchStep::add(const LossTerms& terms, const BatchHeads& heads, StepSums& to) {
  for (size_t i = 0; i < terms.count; ++i)
    (terms.all[i].head == heads.tokens ? to.tokens : to.labels) += terms.sums[i];
}

void BatchStep::sum_over_ranks(StepSums& sums) const {
  if (ranks_.size() == 1) return;
  double numbers[] = {sums.tokens.loss, double(sums.tokens.count), double(sums.tokens.right),
                      sums.labels.loss, double(sums.labels.count), double(sums.labels.right),
                      double(sums.read)};
  ranks_.sum(numbers);
  sums.tokens = {numbers[0], size_t(numbers[1]), size_t(numbers[2])};
  sums.labels = {numbers[3], size_t(numbers[4]), size_t(numbers[5])};
  sums.read = uint64_t(numbers[6]);
}

StepSums BatchStep::learn(BatchSource& source, std::optional<uint64_t> dropout_seed, double& seconds) {
  source.begin_step(shape_.batch);
  const SharePart mine = part_of(shape_.batch, size_t(ranks_.rank()), size_t(ranks_.size()));
  enum { kTokens, kLabels, kSeconds };
  double counts[] = {0, 0, ranks_.rank() == 0 ? seconds : 0};
  for (size_t k = 0; k < stores_.size(); ++k) {
    const SharePart micro = part_of(mine.count, k, stores_.size());
    source.make(mine.first + micro.first, micro.count, stores_[k]);
    counts[kTokens] += double(count_targets(stores_[k].targets));
    counts[kLabels] += double(count_targets(stores_[k].labels));
  }
  ranks_.sum(counts);
  seconds = counts[kSeconds];

  StepSums sums;
  next_bucket_ = 0, sums_end_ = learner_.gradients().size();
  for (size_t k = 0; k < stores_.size(); ++k) {
    const BatchStorage& store = stores_[k];
    LossTerms terms = terms_of(store, 1 / std::max(1.0, counts[kTokens]), 1 / std::max(1.0, counts[kLabels]));
    const TrainingBatch training{
        .batch = store.batch(),
        .target = store.target(),
        .terms = std::span(terms.all).first(terms.count),
        .dropout_seed = dropout_seed,
        .first_sequence = uint32_t(mine.first + part_of(mine.count, k, stores_.size()).first)};
    const bool last = k + 1 == stores_.size();
    learner_.learn(training, std::span(terms.sums).first(terms.count), last ? ready_ : Learner::Ready());
    add(terms, heads_, sums);
    sums.read += store.ids.size() + store.target_ids.size();
  }
  start_sums(0);
  ranks_.finish_sums();
  sum_over_ranks(sums);
  return sums;
}

StepSums BatchStep::evaluate(BatchSource& source, size_t count) {
  source.begin_step(count);
  const SharePart mine = part_of(count, size_t(ranks_.rank()), size_t(ranks_.size()));
  const size_t pieces = std::min(mine.count, stores_.size());
  StepSums sums;
  for (size_t k = 0; k < pieces; ++k) {
    const SharePart micro = part_of(mine.count, k, pieces);
    BatchStorage& store = stores_[0];
    source.make(mine.first + micro.first, micro.count, store);
    LossTerms terms = terms_of(store, 1, 1);
    const TrainingBatch training{
        .batch = store.batch(), .target = store.target(), .terms = std::span(terms.all).first(terms.count)};
    learner_.evaluate(training, std::span(terms.sums).first(terms.count));
    add(terms, heads_, sums);
    sums.read += store.ids.size() + store.target_ids.size();
  }
  sum_over_ranks(sums);
  return sums;
}

}  // namespace bertie
