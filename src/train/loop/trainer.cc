#include "train/loop/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/random.h"
#include "kernels/gemm.h"
#include "train/ranks/rank_checks.h"

namespace bertie {
namespace {

constexpr size_t kGiveUp = 100;                  // steps in a row that could not be taken
constexpr uint64_t kDropoutStream = 0x44524F50;  // of the seed's draws

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check_loop(const TrainOptions& o) {
  if (o.steps == 0 && o.tokens == 0 && !(o.seconds > 0))
    throw Error("a run needs a limit: steps, tokens or time", "`steps` 20000", "steps");
  if (o.out.empty()) throw Error("a run needs a folder for its checkpoints", "`out` run", "out");
  if (o.log_every == 0) throw Error("a log line every 0 steps makes no sense", "`log_every` 10", "log_every");
  for (const auto& [field, seconds] : {std::pair("seconds", o.seconds), {"save_seconds", o.save_seconds}})
    if (!std::isfinite(seconds) || seconds < 0)
      throw Error(fmt::format("`{}` is {}, which is not a time", field, seconds), "a number of seconds",
                  field);
}

[[noreturn]] void nothing_learned(const std::string& skipped) {
  throw Error(
      fmt::format("{} were skipped: the model no longer computes finite numbers, or its gradients have "
                  "exploded",
                  skipped),
      "a lower `rate` or a longer `warmup`; earlier checkpoints are whole", "rate");
}

// The same on every machine, and a different one for each step.
uint64_t dropout_seed(uint64_t seed, uint64_t step) {
  const auto words = Random(seed, kDropoutStream).at(step);
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace

TrainOptions with_defaults(TrainOptions o) {
  if (o.batch == 0) o.batch = 64;
  if (o.accumulate == 0) o.accumulate = 1;
  if (!o.eval_every) o.eval_every = 500;
  if (!o.outlier) o.outlier = kOutlier;
  return o;
}

std::string warning_of(const TrainOptions& options) {
  if (!options.bf16 || kernels::has_bf16_products()) return {};
  return "this CPU has no products of bf16 (AVX512_BF16 or AMX): `bf16` computes in fp32 here";
}

Trainer::Trainer(const Parts& parts, const TrainOptions& options, const TrainEvents& events)
    : parts_(parts),
      options_(with_defaults(options)),
      events_(events),
      rates_(rates_of(options)),
      optimizer_(parts.learner, options),
      training_(parts.learner, parts.ranks, parts.source, shape()),
      since_log_(parts.source.terms().size()) {
  check_loop(options);
  if (options_.patience > 0 && (!can_evaluate() || *options_.eval_every == 0))
    throw Error("patience counts evaluations on held-out data, and this run has none",
                "data with a held-out part and an `eval_every` above 0, or no `patience`", "patience");
  if (parts_.held_out) {
    evaluation_.emplace(parts_.learner, parts_.ranks, *parts_.held_out, shape());
    held_out_start_ = parts_.held_out->cursor();
  }
  begin();
}

BatchStep::Shape Trainer::shape() const {
  return {.batch = options_.batch, .accumulate = options_.accumulate, .max_length = parts_.max_length};
}

double Trainer::now() const {
  return parts_.clock ? parts_.clock()
                      : std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double Trainer::seconds() const { return seconds_before_ + now() - start_; }

double Trainer::fraction_at(double seconds) const {
  double fraction = 0;
  if (options_.steps > 0) fraction = std::max(fraction, double(step_) / double(options_.steps));
  if (options_.tokens > 0) fraction = std::max(fraction, double(tokens_) / double(options_.tokens));
  if (options_.seconds > 0) fraction = std::max(fraction, seconds / options_.seconds);
  return std::min(fraction, 1.0);
}

bool Trainer::finished() const { return fraction_at(agreed_seconds_) >= 1; }

void Trainer::step() {
  open_log();
  parts_.source.set_progress(fraction_at(agreed_seconds_));  // the last step's clock, which all ranks have
  agreed_seconds_ = seconds();
  std::optional<uint64_t> seed;
  if (parts_.dropout) seed = dropout_seed(options_.seed, step_);
  const StepSums& sums = training_.learn(seed, agreed_seconds_);
  const double rate = options_.rate * rates_.factor(fraction_at(agreed_seconds_));
  const StepTaken taken = optimizer_.step(rate, value_of_rank_0(parts_.ranks, optimizer_.norm()));
  ++step_;
  tokens_ += sums.tokens;
  report(sums, taken, rate);
  if (!taken.taken) report_skipped(taken);
}

void Trainer::report(const StepSums& sums, const StepTaken& taken, double rate) {
  since_log_ += sums;
  TrainProgress& p = progress_;
  const double elapsed = seconds();
  p.step = step_, p.steps = options_.steps, p.tokens = tokens_;
  p.fraction = fraction_at(elapsed);
  p.epochs = parts_.source.epochs();
  p.loss = since_log_.means(parts_.source.terms(), p.metrics);
  p.rate = rate, p.gradient_norm = taken.norm;
  p.tokens_per_second = double(tokens_ - rate_from_.tokens) / std::max(since(rate_from_.at), 1e-9);
  p.seconds = elapsed;
  const double done = p.fraction - session_.fraction;
  p.seconds_left = done > 0 ? since(session_.at) / done * (1 - p.fraction) : 0;
  p.skipped = optimizer_.skipped();
  if (first_rank() && events_.progress) events_.progress(p);
  if (step_ % options_.log_every != 0 && !finished()) return;
  if (log_) log_->write(p);
  since_log_.clear();
  rate_from_ = {Clock::now(), tokens_, p.fraction};
}

void Trainer::report_skipped(const StepTaken& taken) const {
  const std::string why =
      std::isfinite(taken.norm)
          ? fmt::format("the gradient's norm is {:.3g}, {:.0f} times the median of the last ones", taken.norm,
                        taken.norm / taken.median)
          : "its gradient has numbers that are not finite";
  tell(events_.warning, fmt::format("step {} was skipped: {}; {} steps were skipped so far", step_, why,
                                    optimizer_.skipped()));
  if (optimizer_.skipped_in_a_row() >= kGiveUp) nothing_learned(fmt::format("{} steps in a row", kGiveUp));
}

bool Trainer::eval_due() const {
  return can_evaluate() && *options_.eval_every > 0 && step_ > 0 && evaluated_step_ != step_ &&
         (step_ % *options_.eval_every == 0 || finished());
}

EvalResult Trainer::evaluate() {
  open_log();
  const MeanInPlace mean(parts_.learner, optimizer_);
  EvalResult r{.step = step_, .loss = NAN};
  if (parts_.held_out) {
    parts_.held_out->seek(held_out_start_);
    StepSums sums(parts_.held_out->terms().size());
    for (size_t done = 0; done < parts_.eval_sequences;) {
      const size_t count = std::min(options_.batch, parts_.eval_sequences - done);
      sums += evaluation_->evaluate(count);
      done += count;
    }
    r.sequences = parts_.eval_sequences;
    r.loss = sums.means(parts_.held_out->terms(), r.metrics);
  }
  double result = r.loss;
  if (parts_.scores) {
    if (first_rank()) r.scores = parts_.scores();
    result = value_of_rank_0(parts_.ranks, r.scores.empty() ? NAN : r.scores[0].value);
  }
  if (first_rank() && parts_.watch) r.watched = parts_.watch();
  evaluated_step_ = step_;
  saved_step_.reset();  // a checkpoint of this step does not know of this evaluation
  const bool better = best_step_ == 0 || (parts_.scores ? result > best_result_ : result < best_result_);
  // Few rows to measure with give the same score again and again: of those the one that has learned longest.
  const bool as_good = parts_.scores && result == best_result_;
  r.best = std::isfinite(result) && (better || as_good);
  if (r.best) best_result_ = result, best_step_ = step_;
  evals_since_best_ = r.best && better ? 0 : evals_since_best_ + 1;
  if (log_) log_->write(r);
  if (first_rank() && events_.evaluated) events_.evaluated(r);
  return r;
}

bool Trainer::save_due() const {
  if (saved_step_ == step_ || step_ == 0) return false;
  if (options_.save_every > 0 && step_ % options_.save_every == 0) return true;
  return options_.save_seconds > 0 && clock_ - saved_at_ >= options_.save_seconds;
}

// What makes ranks communicate is decided by rank 0's clock; a stop by any rank that is asked to.
bool Trainer::agree_to_stop() {
  double sums[] = {events_.stop && events_.stop() ? 1.0 : 0.0, first_rank() ? now() : 0.0};
  parts_.ranks.sum(sums);
  clock_ = sums[1];
  return sums[0] > 0;
}

TrainResult Trainer::run() {
  TrainResult result;
  // What is due after a step comes first: a run that was stopped between a step and its evaluation resumes
  // there, and one that has ended ends again.
  for (bool stop = false;; stop = agree_to_stop()) {
    bool best = false;
    try {
      best = !stop && eval_due() && evaluate().best;
    } catch (const EvaluationStopped&) {
      stop = true;
    }
    if (best || save_due()) save(best);
    if (stop) {
      result.end = TrainEnd::kStopped;
      break;
    }
    if (options_.patience > 0 && evals_since_best_ >= options_.patience) {
      result.end = TrainEnd::kPatience;
      break;
    }
    if (finished()) break;
    step();
  }
  if (result.end != TrainEnd::kStopped && step_ > 0 && optimizer_.skipped() == step_)
    nothing_learned(fmt::format("all {} steps", step_));
  if (saved_step_ != step_) save();
  result.rank = parts_.ranks.rank();
  result.step = step_, result.tokens = tokens_, result.skipped = optimizer_.skipped();
  result.seconds = seconds(), result.loss = progress_.loss;
  (parts_.scores ? result.best_score : result.best_loss) = best_result_;
  result.best_step = best_step_;
  result.checkpoint = checkpoint_;
  return result;
}

void Trainer::tell(const std::function<void(std::string_view)>& event, const std::string& what) const {
  if (first_rank() && event) event(what);
}

}  // namespace bertie
