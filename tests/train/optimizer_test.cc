#include "train/loop/optimizer.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "core/random.h"
#include "fake_learner.h"
#include "io/json.h"
#include "support/expect_error.h"
#include "support/numbers.h"

namespace bertie {
namespace {

using test::expect_error;
using test::FakeLearner;

TrainOptions options() {
  TrainOptions o;
  o.rate = 0.1, o.decay = 0, o.clip = 0;
  return o;
}

void set_gradient(FakeLearner& learner, float value) {
  std::fill(learner.gradients().begin(), learner.gradients().end(), value);
}

double norm_of(FakeLearner& learner) { return std::sqrt(double(learner.gradients().size())); }

TEST(Optimizer, CorrectionMakesTheFirstStepAsLongAsTheRate) {
  FakeLearner learner;
  Optimizer optimizer(learner, options());
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  set_gradient(learner, 0.5f);
  const StepTaken taken = optimizer.step(0.1);
  EXPECT_TRUE(taken.taken);
  EXPECT_NEAR(taken.norm, 0.5 * norm_of(learner), 1e-6);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(learner.parameters()[i], before[i] - 0.1f, 1e-5);
  for (float g : learner.gradients()) EXPECT_EQ(g, 0);
}

TEST(Optimizer, BertAdamDoesNotCorrect) {
  FakeLearner learner;
  TrainOptions o = options();
  o.method = OptimizerMethod::kBertAdam;
  Optimizer optimizer(learner, o);
  const float before = learner.parameters()[0];
  set_gradient(learner, 0.5f);
  optimizer.step(0.1);
  // m = 0.05, √v = 0.5·√0.001
  EXPECT_NEAR(learner.parameters()[0], before - 0.1 * 0.05 / (0.5 * std::sqrt(0.001) + 1e-6), 1e-5);
}

TEST(Optimizer, DecaysWeightsButNotBiases) {
  FakeLearner learner;
  TrainOptions o = options();
  o.decay = 0.5;
  Optimizer optimizer(learner, o);
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  optimizer.step(0.1);  // gradients are 0
  for (size_t i = 0; i + 1 < before.size(); ++i)
    EXPECT_NEAR(learner.parameters()[i], before[i] * 0.95f, 1e-6);
  EXPECT_EQ(learner.parameters().back(), before.back());
}

TEST(Optimizer, ClipsToTheGlobalNorm) {
  FakeLearner a, b;
  TrainOptions o = options();
  o.method = OptimizerMethod::kBertAdam;  // whose step shows the gradient's length
  Optimizer free(a, o);
  o.clip = 1;
  Optimizer clipped(b, o);
  set_gradient(a, float(1 / norm_of(a)));
  set_gradient(b, 3);
  EXPECT_NEAR(free.step(0.1).norm, 1, 1e-6);
  EXPECT_NEAR(clipped.step(0.1).norm, 3 * norm_of(b), 1e-4);
  for (size_t i = 0; i < a.parameters().size(); ++i) EXPECT_NEAR(a.parameters()[i], b.parameters()[i], 1e-5);
  for (size_t i = 0; i < a.parameters().size(); ++i)
    EXPECT_NEAR(free.first_moments()[i], clipped.first_moments()[i], 1e-6);
}

TEST(Optimizer, WhatIsNotFiniteIsSkippedAndCounted) {
  FakeLearner learner;
  Optimizer optimizer(learner, options());
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  for (float bad : {test::kNaN, test::kInf}) {
    set_gradient(learner, 1);
    learner.gradients()[7] = bad;
    EXPECT_FALSE(optimizer.step(0.1).taken);
    for (float g : learner.gradients()) ASSERT_EQ(g, 0);
  }
  EXPECT_TRUE(test::same_bits(learner.parameters(), before));
  for (float m : optimizer.first_moments()) ASSERT_EQ(m, 0);
  EXPECT_EQ(optimizer.skipped(), 2u);
  EXPECT_EQ(optimizer.skipped_in_a_row(), 2u);
  EXPECT_EQ(optimizer.updates(), 0u);
  set_gradient(learner, 1);
  EXPECT_TRUE(optimizer.step(0.1).taken);
  EXPECT_EQ(optimizer.skipped_in_a_row(), 0u);
}

TEST(Optimizer, OutliersAreSkippedUntilTheyAreUsual) {
  FakeLearner learner;
  Optimizer optimizer(learner, options());
  const auto step = [&](float g) {
    set_gradient(learner, g);
    return optimizer.step(0.001).taken;
  };
  EXPECT_TRUE(step(1));
  EXPECT_TRUE(step(1000)) << "too few to judge";
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(step(1));
  EXPECT_TRUE(step(19));
  EXPECT_FALSE(step(21));
  size_t skipped = 1;
  while (!step(21)) ASSERT_LT(++skipped, 64u);
  EXPECT_GT(skipped, 16u);
  EXPECT_EQ(optimizer.skipped(), skipped);
}

TEST(Optimizer, WhatTheClipLetsThroughIsNoOutlier) {
  FakeLearner learner;
  TrainOptions o = options();
  o.clip = 1000;
  Optimizer optimizer(learner, o);
  const auto step = [&](float g) {
    set_gradient(learner, g);
    return optimizer.step(0.001).taken;
  };
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(step(1e-4f));
  EXPECT_TRUE(step(1));
  EXPECT_FALSE(step(1e6f));
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(step(0));
  EXPECT_TRUE(step(1e6f)) << "no median to measure by";
}

TEST(Optimizer, OutliersArePartOfTheRunWhereTheFactorIs0) {
  FakeLearner learner;
  TrainOptions o = options();
  o.outlier = 0;
  Optimizer optimizer(learner, o);
  for (int i = 0; i < 50; ++i) {
    set_gradient(learner, i == 40 ? 1e6f : 1);
    EXPECT_TRUE(optimizer.step(0.001).taken);
  }
}

TEST(Optimizer, GoesOnToTheSameBitsFromItsState) {
  FakeLearner a, b;
  Optimizer first(a, options()), second(b, options());
  const auto step = [](FakeLearner& learner, Optimizer& optimizer, int i) {
    for (size_t k = 0; k < learner.gradients().size(); ++k)
      learner.gradients()[k] = float(std::sin(double(k) + i)) * (i == 70 ? 1000.0f : 1.0f);
    optimizer.step(0.01);
  };
  for (int i = 0; i < 60; ++i) step(a, first, i);
  std::copy(a.parameters().begin(), a.parameters().end(), b.parameters().begin());
  std::copy(first.first_moments().begin(), first.first_moments().end(), second.first_moments().begin());
  std::copy(first.second_moments().begin(), first.second_moments().end(), second.second_moments().begin());
  second.set_counters(io::parse_json(first.counters().dump(), "state"), "state");
  for (int i = 60; i < 160; ++i) step(a, first, i), step(b, second, i);
  EXPECT_TRUE(test::same_bits(a.parameters(), b.parameters()));
  EXPECT_EQ(first.skipped(), 1u);
  EXPECT_EQ(first.counters(), second.counters());
}

TEST(Optimizer, TheMeanFollowsTheParametersSoonerAtTheStart) {
  FakeLearner learner;
  TrainOptions o = options();
  o.average = 0.5;
  Optimizer optimizer(learner, o);
  ASSERT_EQ(optimizer.mean().size(), learner.parameters().size());
  std::vector<double> expected(learner.parameters().begin(), learner.parameters().end());
  std::copy(expected.begin(), expected.end(), optimizer.mean().begin());
  for (int t = 1; t <= 20; ++t) {
    set_gradient(learner, float(t % 3) - 1);
    optimizer.step(0.1);
    const double kept = std::min(0.5, (1.0 + t) / (10.0 + t));  // 0.5 from step 8 on
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = kept * expected[i] + (1 - kept) * double(learner.parameters()[i]);
      ASSERT_NEAR(optimizer.mean()[i], expected[i], 1e-6) << t;
    }
  }
  set_gradient(learner, NAN);
  const std::vector<float> before(optimizer.mean().begin(), optimizer.mean().end());
  optimizer.step(0.1);
  EXPECT_TRUE(test::same_bits(before, optimizer.mean())) << "a step that is skipped is none";
  EXPECT_TRUE(Optimizer(learner, options()).mean().empty());
}

TEST(Optimizer, LambsStepIsAsLongAsTheTensor) {
  FakeLearner learner;
  TrainOptions o = options();
  o.method = OptimizerMethod::kLamb;
  Optimizer optimizer(learner, o);
  const std::vector<float> before(learner.parameters().begin(), learner.parameters().end());
  set_gradient(learner, 1e-3f);
  optimizer.step(0.1);
  double length = 0, moved = 0;
  for (size_t i = 0; i + 1 < before.size(); ++i) {
    length += std::pow(double(before[i]), 2);
    moved += std::pow(double(learner.parameters()[i] - before[i]), 2);
  }
  EXPECT_NEAR(std::sqrt(moved), 0.1 * std::sqrt(length), 1e-5);
  EXPECT_NEAR(learner.parameters().back(), before.back() - 0.1, 1e-3) << "a bias goes Adam's way";
}

// Of a real learner, because what goes which way is its segments' business.
struct RealStep {
  OptimizerMethod method = OptimizerMethod::kMuon;
  int threads = 1;
  std::optional<size_t> frozen = {};
  std::string family = "bert";
};
std::unique_ptr<Learner> fresh(const RealStep& s) {
  Config c;
  c.model_type = s.family;
  c.layers = 2, c.hidden = 24, c.heads = 3, c.intermediate = 40, c.vocabulary = 50, c.positions = 20;
  if (s.family == "albert") c.embedding = 10, c.groups = 1, c.activation = "gelu_new";
  if (s.family == "gpt2") c.types = 0, c.activation = "gelu_new", c.pad_id = -1, c.bos_id = c.eos_id = 49;
  const std::vector<Head> heads = {s.family == "gpt2" ? Head::kCausalLm : Head::kMaskedLm};
  return make_learner(c, heads, 1, {.threads = s.threads, .frozen_layers = s.frozen});
}
std::unique_ptr<Learner> stepped(const RealStep& s) {
  auto learner = fresh(s);
  TrainOptions o = options();
  o.method = s.method;
  Optimizer optimizer(*learner, o);
  Random random(2);
  for (int t = 0; t < 2; ++t) {
    for (float& g : learner->gradients()) g = random.normal();
    optimizer.step(0.1);
    for (const Segment& segment : learner->segments()) {
      if (segment.rate == 0) continue;
      for (float g : learner->gradients().subspan(segment.first, segment.count)) EXPECT_EQ(g, 0) << "used up";
    }
  }
  return learner;
}

TEST(Optimizer, MuonMovesLayersMatricesByTheirDirectionAndAllElseAsAdam) {
  const auto muon = stepped({}), adam = stepped({.method = OptimizerMethod::kAdamW}), before = fresh({});
  size_t matrices = 0;
  for (const Segment& s : muon->segments()) {
    const auto of = [&](Learner& learner) { return learner.parameters().subspan(s.first, s.count); };
    matrices += s.hidden.count;
    if (s.hidden.count == 0) {
      EXPECT_TRUE(test::same_bits(of(*muon), of(*adam))) << s.name;
      continue;
    }
    EXPECT_NE(s.name.find("layer."), std::string::npos) << s.name;
    // Of the matrix alone: what panels have too much is no weight. Two steps, each as long as a matrix whose
    // singular values are 0.65 to 1.25, but for the least of them; together up to twice that.
    double moved = 0;
    for (size_t i = 0; i < s.count; ++i)
      if (i % kernels::kPanel + i / (kernels::kPanel * s.hidden.cols) * kernels::kPanel <
          s.hidden.count * s.hidden.rows)
        moved += std::pow(double(of(*muon)[i] - of(*before)[i]), 2);
    const size_t low = std::min(s.hidden.rows, s.hidden.cols), high = std::max(s.hidden.rows, s.hidden.cols);
    const double one = 0.1 * 0.2 * std::sqrt(double(high * low * s.hidden.count));
    EXPECT_GT(std::sqrt(moved), 0.8 * one) << s.name;
    EXPECT_LT(std::sqrt(moved), 2.5 * one) << s.name;
  }
  EXPECT_EQ(matrices, 2 * 6u) << "queries, keys, values, output, up, down";
}

TEST(Optimizer, MuonIsTheSameBitsForAnyTeam) {
  for (const char* family : {"bert", "albert", "gpt2"}) {
    const auto one = stepped({.family = family}), three = stepped({.threads = 3, .family = family});
    EXPECT_TRUE(test::same_bits(one->parameters(), three->parameters())) << family;
    size_t matrices = 0;
    for (const Segment& s : one->segments()) matrices += s.hidden.count;
    EXPECT_EQ(matrices, std::string(family) == "albert" ? 6u : 12u) << family;
  }
}

TEST(Optimizer, MuonLeavesFrozenLayersAlone) {
  const auto muon = stepped({.frozen = 1}), before = fresh({.frozen = 1});
  size_t frozen = 0, moved = 0;
  for (const Segment& s : muon->segments()) {
    const bool same = test::same_bits(muon->parameters().subspan(s.first, s.count),
                                      before->parameters().subspan(s.first, s.count));
    EXPECT_EQ(same, s.rate == 0) << s.name;
    if (s.hidden.count > 0) ++(same ? frozen : moved);
  }
  EXPECT_EQ(frozen, 4u);
  EXPECT_EQ(moved, 4u);
}

TEST(Optimizer, WhatForgotItsMomentsStepsAsAtTheStart) {
  FakeLearner a, b;
  Optimizer old(a, options()), fresh(b, options());
  for (int i = 0; i < 10; ++i) set_gradient(a, float(i)), old.step(0.1);
  std::copy(a.parameters().begin(), a.parameters().end(), b.parameters().begin());
  old.forget_moments();
  for (int i = 0; i < 3; ++i) {
    set_gradient(a, 0.5f), set_gradient(b, 0.5f);
    old.step(0.1), fresh.step(0.1);
  }
  EXPECT_TRUE(test::same_bits(a.parameters(), b.parameters()));
  EXPECT_EQ(old.updates(), 13u);
}

TEST(Optimizer, OptionsAndStatesThatMakeNoSenseAreErrors) {
  FakeLearner learner;
  const auto with = [&](auto member, double value) {
    TrainOptions o = options();
    o.*member = value;
    expect_error("makes no sense", [&] { Optimizer optimizer(learner, o); });
  };
  with(&TrainOptions::rate, 0.0), with(&TrainOptions::rate, NAN), with(&TrainOptions::beta1, 1.0);
  with(&TrainOptions::beta2, -0.1), with(&TrainOptions::eps, 0.0), with(&TrainOptions::decay, -1.0);
  with(&TrainOptions::average, 1.0), with(&TrainOptions::average, -0.5);
  with(&TrainOptions::clip, -1.0), with(&TrainOptions::outlier, 0.5);
  Optimizer optimizer(learner, options());
  nlohmann::json counters = io::parse_json(optimizer.counters().dump(), "state");
  counters["norms_seen"] = 5;
  expect_error("norms", [&] { optimizer.set_counters(counters, "state"); });
  counters.erase("updates");
  expect_error("updates", [&] { optimizer.set_counters(counters, "state"); });
}

}  // namespace
}  // namespace bertie
