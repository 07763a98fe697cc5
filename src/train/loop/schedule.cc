#include "train/loop/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "bertie/error.h"

namespace bertie {

double Rates::factor(double progress) const {
  const double p = std::clamp(progress, 0.0, 1.0);
  if (p < warmup) return p / warmup;
  const double after = warmup < 1 ? (p - warmup) / (1 - warmup) : 1;  // of what follows the warm-up
  switch (schedule) {
    case Schedule::kLinear:
      return 1 - after;
    case Schedule::kBertLinear:
      return 1 - p;
    case Schedule::kCosine:
      return (1 + std::cos(std::numbers::pi * after)) / 2;
    case Schedule::kConstant:
      return 1;
    case Schedule::kStable:
      return cooldown > 0 ? std::min(1.0, (1 - p) / cooldown) : 1;
  }
  return 1;
}

Rates rates_of(const TrainOptions& o) {
  Rates rates{.schedule = o.schedule, .warmup = o.warmup, .cooldown = o.cooldown};
  constexpr const char* kShare = "a share of the run, such as 0.1";
  if (!(o.warmup >= 0) || !std::isfinite(o.warmup))
    throw Error(fmt::format("a warm-up of {} makes no sense", o.warmup), kShare, "warmup");
  if (o.warmup >= 1) {
    if (o.steps == 0 || o.tokens > 0 || o.seconds > 0)
      throw Error(fmt::format("a warm-up of {} steps needs a run that is limited by steps alone", o.warmup),
                  kShare, "warmup");
    if (o.warmup > double(o.steps))
      throw Error(fmt::format("a warm-up of {} steps is longer than the run of {}", o.warmup, o.steps),
                  kShare, "warmup");
    rates.warmup = o.warmup / double(o.steps);
  }
  if (!(o.cooldown >= 0 && o.cooldown <= 1))
    throw Error(fmt::format("a cool-down of {} is no share of the run", o.cooldown), "a number from 0 to 1",
                "cooldown");
  if (o.schedule == Schedule::kStable && rates.warmup + rates.cooldown > 1)
    throw Error(fmt::format("a warm-up of {} and a cool-down of {} are longer than the run", rates.warmup,
                            rates.cooldown),
                "shares that add up to 1 at most", "cooldown");
  return rates;
}

std::string_view name_of(Schedule schedule) {
  constexpr std::string_view kNames[] = {"linear", "bert-linear", "cosine", "constant", "stable"};
  return kNames[size_t(schedule)];
}

std::string_view name_of(OptimizerMethod method) {
  constexpr std::string_view kNames[] = {"adamw", "bert-adam", "lamb", "muon"};
  return kNames[size_t(method)];
}

}  // namespace bertie
