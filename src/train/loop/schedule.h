#pragma once
// The learning rate's schedule: a pure function of how much of the run is done, so that limits by steps,
// tokens and time all drive it. Formulas: bertie/train.h.
#include "bertie/train.h"

namespace bertie {

struct Rates {
  Schedule schedule = Schedule::kLinear;
  double warmup = 0, cooldown = 0;  // shares of the run

  // The rate's factor for the step that begins when `progress` (0 … 1) of the run is done.
  double factor(double progress) const;
};

// Throws Error for shares that make no sense, and for a warm-up in steps where the run is not limited by
// them.
Rates rates_of(const TrainOptions& options);

}  // namespace bertie
