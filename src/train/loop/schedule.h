#pragma once
// How the learning rate goes: a pure function of how much of the run is done, so that limits by steps, tokens
// and time all drive it. Formulae: bertie/train.h.
#include <string_view>

#include "bertie/train.h"

namespace bertie {

struct Rates {
  Schedule schedule = Schedule::kLinear;
  double warmup = 0, cooldown = 0;  // shares of the run

  // What the rate is multiplied with for the step that begins when `progress` (0 … 1) is done.
  double factor(double progress) const;
};

// Throws Error for shares that make no sense, and for a warm-up in steps where the run is not limited by
// them.
Rates rates_of(const TrainOptions& options);

// As options call them: "linear", "adamw".
std::string_view name_of(Schedule schedule);
std::string_view name_of(OptimizerMethod method);

}  // namespace bertie
