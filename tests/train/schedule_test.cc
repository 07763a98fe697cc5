#include "train/loop/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "support/expect_error.h"

namespace bertie {
namespace {

using test::expect_error;

TrainOptions options(Schedule schedule, uint64_t steps, double warmup) {
  TrainOptions o;
  o.schedule = schedule, o.steps = steps, o.warmup = warmup;
  return o;
}

// transformers' get_linear_schedule_with_warmup and get_cosine_schedule_with_warmup, step by step.
TEST(Schedule, LinearAndCosineAreTransformers) {
  const Rates linear = rates_of(options(Schedule::kLinear, 100, 10)),
              cosine = rates_of(options(Schedule::kCosine, 100, 10));
  for (int step = 0; step < 100; ++step) {
    const double p = step / 100.0, after = (step - 10) / 90.0;
    EXPECT_NEAR(linear.factor(p), step < 10 ? step / 10.0 : (100 - step) / 90.0, 1e-12) << step;
    EXPECT_NEAR(cosine.factor(p), step < 10 ? step / 10.0 : 0.5 * (1 + std::cos(std::numbers::pi * after)),
                1e-12)
        << step;
  }
  EXPECT_EQ(linear.factor(1), 0);
}

// BERT's create_optimizer: tf.train.polynomial_decay over all steps, and the warm-up in its place while it
// lasts.
TEST(Schedule, BertLinearDecaysFromTheStart) {
  const Rates rates = rates_of(options(Schedule::kBertLinear, 1000, 100));
  for (int step = 0; step < 1000; ++step)
    EXPECT_NEAR(rates.factor(step / 1000.0), step < 100 ? step / 100.0 : 1 - step / 1000.0, 1e-12) << step;
}

TEST(Schedule, ConstantStaysAndStableFallsAtTheEnd) {
  const Rates constant = rates_of(options(Schedule::kConstant, 100, 0.1));
  EXPECT_EQ(constant.factor(0.05), 0.5);
  EXPECT_EQ(constant.factor(0.1), 1);
  EXPECT_EQ(constant.factor(1), 1);
  TrainOptions o = options(Schedule::kStable, 100, 0.1);
  o.cooldown = 0.25;
  const Rates stable = rates_of(o);
  EXPECT_EQ(stable.factor(0.05), 0.5);
  EXPECT_EQ(stable.factor(0.5), 1);
  EXPECT_NEAR(stable.factor(0.875), 0.5, 1e-12);
  EXPECT_EQ(stable.factor(1), 0);
}

TEST(Schedule, WithoutAWarmUpTheFirstStepIsWhole) {
  for (Schedule s : {Schedule::kLinear, Schedule::kBertLinear, Schedule::kCosine, Schedule::kConstant})
    EXPECT_EQ(rates_of(options(s, 10, 0)).factor(0), 1);
}

TEST(Schedule, IsBetween0And1AndFollowsAnyLimit) {
  for (Schedule s :
       {Schedule::kLinear, Schedule::kBertLinear, Schedule::kCosine, Schedule::kConstant, Schedule::kStable})
    for (double p = -0.5; p <= 1.5; p += 0.01) {
      TrainOptions o = options(s, 0, 0.3);
      o.seconds = 60;
      const double factor = rates_of(o).factor(p);
      EXPECT_TRUE(factor >= 0 && factor <= 1) << p;
    }
}

TEST(Schedule, WhatMakesNoSenseIsAnError) {
  expect_error("makes no sense", [] { rates_of(options(Schedule::kLinear, 10, -1)); });
  expect_error("makes no sense", [] { rates_of(options(Schedule::kLinear, 10, NAN)); });
  expect_error("longer than the run", [] { rates_of(options(Schedule::kLinear, 10, 11)); });
  TrainOptions o = options(Schedule::kLinear, 0, 100);
  o.tokens = 1000;
  expect_error("limited by steps alone", [&] { rates_of(o); });
  o = options(Schedule::kStable, 10, 0.9);
  expect_error("longer than the run", [&] { rates_of(o); });
  o.cooldown = 2;
  expect_error("no share", [&] { rates_of(o); });
}

}  // namespace
}  // namespace bertie
