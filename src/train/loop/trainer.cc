#include "train/loop/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "core/random.h"
#include "train/ranks/rank_checks.h"

namespace bertie {
namespace {

constexpr size_t kGiveUp = 100;                  // steps in a row that could not be taken
constexpr uint64_t kDropoutStream = 0x44524F50;  // of the seed's draws

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check(const TrainOptions& o) {
  if (o.steps == 0 && o.tokens == 0 && !(o.seconds > 0))
    throw Error("a run needs a limit: steps, tokens or time", "--steps 20000");
  if (o.out.empty()) throw Error("a run needs a folder for its checkpoints", "--out run");
  if (o.log_every == 0) throw Error("a log line every 0 steps makes no sense", "--log-every 10");
  if (!std::isfinite(o.seconds) || !std::isfinite(o.save_seconds) || o.save_seconds < 0 || o.seconds < 0)
    throw Error("a time limit is not a number of seconds", "--time 2h");
}

// The same on every machine, and another one for each step.
uint64_t dropout_seed(uint64_t seed, uint64_t step) {
  const auto words = Random(seed, kDropoutStream).at(step);
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace

Trainer::Trainer(const Parts& parts, const TrainOptions& options, const TrainEvents& events)
    : parts_(parts),
      options_(options),
      events_(events),
      rates_(rates_of(options)),
      optimizer_(parts.learner, options),
      batches_(parts.learner, parts.ranks, parts.heads,
               {.batch = options.batch, .accumulate = options.accumulate, .max_length = options.max_length}) {
  check(options);
  if (options_.patience > 0 && (!parts_.held_out || options_.eval_every == 0))
    throw Error(
        "patience counts looks at held-out data, and this run makes none",
        "data with a held-out part (bertie prepare --held-out 0.01) and an --eval-every above 0, or no "
        "--patience");
  if (parts_.held_out) held_out_start_ = parts_.held_out->cursor();
  begin();
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
  agreed_seconds_ = seconds();
  std::optional<uint64_t> seed;
  if (options_.drops_out) seed = dropout_seed(options_.seed, step_);
  const StepSums sums = batches_.learn(parts_.source, seed, agreed_seconds_);
  const double rate = options_.rate * rates_.factor(fraction_at(agreed_seconds_));
  const StepTaken taken = optimizer_.step(rate, value_of_rank_0(parts_.ranks, optimizer_.norm()));
  ++step_;
  tokens_ += sums.read;
  report(sums, taken, rate);
  if (!taken.taken) tell_skipped(taken);
}

void Trainer::report(const StepSums& sums, const StepTaken& taken, double rate) {
  since_log_ += sums;
  TrainProgress& p = progress_;
  const double elapsed = seconds();
  p.step = step_, p.steps = options_.steps, p.tokens = tokens_;
  p.fraction = fraction_at(elapsed);
  p.epochs = parts_.source.epochs();
  p.loss = since_log_.loss();
  p.token_loss = StepSums::mean(since_log_.tokens), p.label_loss = StepSums::mean(since_log_.labels);
  p.token_accuracy = StepSums::accuracy(since_log_.tokens);
  p.label_accuracy = StepSums::accuracy(since_log_.labels);
  p.has_labels = since_log_.labels.count > 0;
  p.rate = rate, p.gradient_norm = taken.norm;
  p.tokens_per_second = double(tokens_ - rate_from_.tokens) / std::max(since(rate_from_.at), 1e-9);
  p.seconds = elapsed;
  const double done = p.fraction - session_.fraction;
  p.seconds_left = done > 0 ? since(session_.at) / done * (1 - p.fraction) : 0;
  p.skipped = optimizer_.skipped();
  if (first_rank() && events_.progress) events_.progress(p);
  if (step_ % options_.log_every != 0 && !finished()) return;
  if (log_) log_->write(p);
  since_log_ = {};
  rate_from_ = {Clock::now(), tokens_, p.fraction};
}

void Trainer::tell_skipped(const StepTaken& taken) const {
  tell(events_.warning,
       std::isfinite(taken.norm)
           ? fmt::format(
                 "step {} was not taken: the gradient's norm is {:.3g}, {:.0f} times the median of the "
                 "last ones; {} steps so far were not",
                 step_, taken.norm, taken.norm / taken.median, optimizer_.skipped())
           : fmt::format("step {} was not taken: its gradient has numbers that are not finite; {} steps so "
                         "far were not",
                         step_, optimizer_.skipped()));
  if (optimizer_.skipped_in_a_row() >= kGiveUp)
    throw Error(fmt::format("{} steps in a row could not be taken: the model no longer computes finite "
                            "numbers, or its gradients have exploded",
                            kGiveUp),
                "a lower --rate or a longer --warmup; checkpoints from before are whole");
}

bool Trainer::eval_due() const {
  return parts_.held_out && options_.eval_every > 0 && step_ > 0 && evaluated_step_ != step_ &&
         (step_ % options_.eval_every == 0 || finished());
}

EvalResult Trainer::evaluate() {
  open_log();
  parts_.held_out->seek(held_out_start_);
  StepSums sums;
  for (size_t done = 0; done < options_.eval_sequences;) {
    const size_t count = std::min(options_.batch, options_.eval_sequences - done);
    sums += batches_.evaluate(*parts_.held_out, count);
    done += count;
  }
  evaluated_step_ = step_;
  saved_step_.reset();  // a checkpoint of this step does not know of this look
  EvalResult r{.step = step_,
               .loss = sums.loss(),
               .token_loss = StepSums::mean(sums.tokens),
               .label_loss = StepSums::mean(sums.labels),
               .token_accuracy = StepSums::accuracy(sums.tokens),
               .label_accuracy = StepSums::accuracy(sums.labels),
               .sequences = options_.eval_sequences,
               .has_labels = sums.labels.count > 0};
  r.best = std::isfinite(r.loss) && (best_step_ == 0 || r.loss < best_loss_);
  if (r.best)
    best_loss_ = r.loss, best_step_ = step_, waited_ = 0;
  else
    ++waited_;
  if (log_) log_->write(r);
  if (first_rank() && events_.evaluated) events_.evaluated(r);
  return r;
}

bool Trainer::save_due() const {
  if (saved_step_ == step_ || step_ == 0) return false;
  if (options_.save_every > 0 && step_ % options_.save_every == 0) return true;
  return options_.save_seconds > 0 && clock_ - saved_at_ >= options_.save_seconds;
}

// What leads to meetings of ranks is decided by rank 0's clock, and a stop by whoever is asked to.
bool Trainer::agree_to_stop() {
  double said[] = {events_.stop && events_.stop() ? 1.0 : 0.0, first_rank() ? now() : 0.0};
  parts_.ranks.sum(said);
  clock_ = said[1];
  return said[0] > 0;
}

TrainResult Trainer::run() {
  TrainResult result;
  // What is due after a step comes first: a run that was stopped between a step and its look goes on there,
  // and one that has ended ends again.
  for (bool stop = false;; stop = agree_to_stop()) {
    const bool best = !stop && eval_due() && evaluate().best;
    if (best || save_due()) save(best);
    if (stop) {
      result.end = TrainEnd::kStopped;
      break;
    }
    if (options_.patience > 0 && waited_ >= options_.patience) {
      result.end = TrainEnd::kPatience;
      break;
    }
    if (finished()) break;
    step();
  }
  if (saved_step_ != step_) save();
  result.step = step_, result.tokens = tokens_, result.skipped = optimizer_.skipped();
  result.seconds = seconds(), result.loss = progress_.loss;
  result.best_loss = best_loss_, result.best_step = best_step_;
  result.checkpoint = checkpoint_;
  return result;
}

void Trainer::tell(const std::function<void(std::string_view)>& who, const std::string& what) const {
  if (first_rank() && who) who(what);
}

}  // namespace bertie
