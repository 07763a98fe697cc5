#include "train/loop/batch_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"

namespace bertie {

SharePart part_of(size_t count, size_t part, size_t parts) {
  const size_t first = count * part / parts;
  return {first, count * (part + 1) / parts - first};
}

StepSums& StepSums::operator+=(const StepSums& other) {
  for (size_t i = 0; i < terms.size(); ++i) terms[i] += other.terms[i];
  tokens += other.tokens;
  return *this;
}

void StepSums::clear() {
  std::fill(terms.begin(), terms.end(), LossSum());
  tokens = 0;
}

double StepSums::means(std::span<const TermSpec> specs, std::vector<Metric>& metrics) const {
  double loss = 0;
  metrics.resize(terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    const LossSum& sum = terms[i];
    const double count = double(std::max<size_t>(sum.count, 1));
    Metric& metric = metrics[i];
    metric.name = specs[i].name;
    metric.loss = sum.loss / count;
    metric.accuracy = specs[i].has_accuracy ? double(sum.right) / count : NAN;
    metric.count = sum.count;
    loss += specs[i].weight * metric.loss;
  }
  return loss;
}

BatchStep::BatchStep(Learner& learner, Collective& ranks, BatchSource& source, const Shape& shape)
    : learner_(learner), ranks_(ranks), source_(source), shape_(shape), sums_(source.terms().size()) {
  const size_t cuts = size_t(ranks.size()) * std::max<size_t>(shape.accumulate, 1);
  if (shape.accumulate == 0 || shape.batch < cuts)
    throw Error(fmt::format("a batch of {} sequences cannot be cut into {} micro-batches on {} ranks",
                            shape.batch, shape.accumulate, ranks.size()),
                fmt::format("`batch` {} or more", cuts), "batch");
  stores_.assign(shape.accumulate, BatchStorage(source.terms()));
  const size_t sequences = (shape.batch + cuts - 1) / cuts;
  for (BatchStorage& store : stores_) store.reserve(sequences, sequences * shape.max_length);
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

void BatchStep::pass(const BatchStorage& store, std::optional<uint64_t> dropout_seed, size_t first_sequence,
                     const Learner::Ready* ready) {
  terms_.clear();
  const Matrix<const float> hidden(store.teacher_hidden.data(), store.ids.size(),
                                   store.ids.empty() ? 0 : store.teacher_hidden.size() / store.ids.size());
  // Without targets there is no term: to a learner, rows that are empty mean all of them.
  for (size_t i = 0; i < store.terms.size(); ++i)
    if (const BatchStorage::Term& t = store.terms[i]; !t.empty())
      terms_.push_back(
          {.head = t.spec.head,
           .rows = t.rows,
           .targets = t.targets,
           .values = t.values,
           .teacher = {t.teacher.data(), t.teacher_columns ? t.teacher.size() / t.teacher_columns : 0,
                       t.teacher_columns},
           .temperature = t.spec.temperature,
           .teacher_hidden = t.uses_hidden() ? hidden : Matrix<const float>(),
           .teacher_model = t.spec.teacher_model,
           .class_weights = t.spec.class_weights,
           .smoothing = t.spec.smoothing,
           .scale = float(scales_[i])});
  term_sums_.assign(terms_.size(), LossSum());
  const TrainingBatch training{.batch = store.batch(),
                               .target = store.target(),
                               .terms = terms_,
                               .dropout_seed = dropout_seed,
                               .first_sequence = uint32_t(first_sequence)};
  if (ready)
    learner_.learn(training, term_sums_, *ready);
  else
    learner_.evaluate(training, term_sums_);
  for (size_t i = 0, used = 0; i < store.terms.size(); ++i)
    if (!store.terms[i].empty()) sums_.terms[i] += term_sums_[used++];
  sums_.tokens += store.tokens();
}

void BatchStep::sum_over_ranks() {
  if (ranks_.size() == 1) return;
  numbers_.assign(1, double(sums_.tokens));
  for (const LossSum& s : sums_.terms)
    numbers_.insert(numbers_.end(), {s.loss, double(s.count), double(s.right)});
  ranks_.sum(numbers_);
  sums_.tokens = uint64_t(numbers_[0]);
  for (size_t i = 0; i < sums_.terms.size(); ++i)
    sums_.terms[i] = {numbers_[3 * i + 1], size_t(numbers_[3 * i + 2]), size_t(numbers_[3 * i + 3])};
}

const StepSums& BatchStep::learn(std::optional<uint64_t> dropout_seed, double& seconds) {
  source_.begin_step(shape_.batch);
  const std::span<const TermSpec> specs = source_.terms();
  const SharePart mine = part_of(shape_.batch, size_t(ranks_.rank()), size_t(ranks_.size()));
  const auto micro = [&](size_t k) { return part_of(mine.count, k, stores_.size()); };
  // The targets of each term, and rank 0's clock.
  numbers_.assign(specs.size() + 1, 0);
  numbers_.back() = ranks_.rank() == 0 ? seconds : 0;
  for (size_t k = 0; k < stores_.size(); ++k) {
    source_.make(mine.first + micro(k).first, micro(k).count, stores_[k]);
    for (size_t i = 0; i < specs.size(); ++i) numbers_[i] += double(stores_[k].count(stores_[k].terms[i]));
  }
  ranks_.sum(numbers_);
  seconds = numbers_.back();
  scales_.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) scales_[i] = specs[i].weight / std::max(1.0, numbers_[i]);

  sums_.clear();
  next_bucket_ = 0, sums_end_ = learner_.gradients().size();
  const Learner::Ready nothing;
  for (size_t k = 0; k < stores_.size(); ++k)
    pass(stores_[k], dropout_seed, mine.first + micro(k).first, k + 1 == stores_.size() ? &ready_ : &nothing);
  start_sums(0);
  ranks_.finish_sums();
  sum_over_ranks();
  return sums_;
}

const StepSums& BatchStep::evaluate(size_t count) {
  source_.begin_step(count);
  const SharePart mine = part_of(count, size_t(ranks_.rank()), size_t(ranks_.size()));
  const size_t pieces = std::min(mine.count, stores_.size());
  sums_.clear();
  scales_.assign(sums_.terms.size(), 1);
  for (size_t k = 0; k < pieces; ++k) {
    const SharePart micro = part_of(mine.count, k, pieces);
    source_.make(mine.first + micro.first, micro.count, stores_[0]);
    pass(stores_[0], {}, 0, nullptr);
  }
  sum_over_ranks();
  return sums_;
}

}  // namespace bertie
