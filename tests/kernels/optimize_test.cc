#include "kernels/optimize.h"

#include <gtest/gtest.h>

#include "kernels/reference_optimize.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

using Update = void (*)(const AdamStep&, std::span<float>, std::span<float>, std::span<float>,
                        std::span<float>, Team&);

// Parameters, moments, and the same in double.
struct Case {
  explicit Case(size_t count, uint64_t seed = 1)
      : n(count), p(test::random_floats(n, seed)), m(n), v(n), p2(p.begin(), p.end()), m2(n), v2(n), u2(n) {}

  AdamStep step_at(int t) const {
    AdamStep s{.rate = 1e-2, .decay = 0.01, .scale = 0.7};
    s.correction1 = 1 / (1 - std::pow(s.beta1, t)), s.correction2 = 1 / (1 - std::pow(s.beta2, t));
    return s;
  }
  std::vector<float> gradient(int t) const { return test::random_floats(n, 100 + uint64_t(t), -2, 2); }

  size_t n;
  std::vector<float> p, m, v;
  std::vector<double> p2, m2, v2, u2;
};

// The worst error as a share of the number, or of `terms`: what a sum is of. Where terms of both signs
// cancel, rounding is a share of them and not of what is left.
double worst(std::span<const float> a, std::span<const double> b, double terms) {
  test::Worst w;
  for (size_t i = 0; i < a.size(); ++i) w.see(std::abs(a[i] - b[i]) / std::max(terms, std::abs(b[i])));
  return w.error;
}

void expect_like_the_reference(Update update, bool lamb) {
  Team team;
  test::on_every_target([&] {
    for (size_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1000}) {
      Case c(n);
      for (int t = 1; t <= 20; ++t) {
        std::vector<float> g = c.gradient(t);
        const std::vector<double> g2(g.begin(), g.end());
        test::Guarded p(c.p, 3), m(c.m, 1), v(c.v, 2), gradients(g, 5);
        update(c.step_at(t), p.span(), gradients.span(), m.span(), v.span(), team);
        ASSERT_TRUE(p.intact() && m.intact() && v.intact() && gradients.intact()) << n;
        c.p.assign(p.data(), p.data() + n), c.m.assign(m.data(), m.data() + n);
        c.v.assign(v.data(), v.data() + n);
        if (lamb)
          reference::lamb(c.step_at(t), c.p2, g2, c.m2, c.v2, c.u2);
        else
          reference::adam(c.step_at(t), c.p2, g2, c.m2, c.v2);
        for (float x : gradients.span()) ASSERT_EQ(x, 0.0f) << "used up";
        // (1 − β₁)·2·0.7 is the largest term of m, and v has no terms below 0.
        ASSERT_LT(worst(c.m, c.m2, 0.14), 3e-6) << n << " numbers, step " << t;
        ASSERT_LT(worst(c.v, c.v2, 1e-6), 3e-6) << n << " numbers, step " << t;
        // Up to 20 roundings of a p of up to 1, and a direction that is off by some 1e-6 in each step of
        // 1e-2.
        ASSERT_LT(worst(c.p, c.p2, 1), 2e-6) << n << " numbers, step " << t;
      }
    }
  });
}

TEST(Optimize, AdamIsTheReference) { expect_like_the_reference(adam_update, false); }
TEST(Optimize, LambIsTheReference) { expect_like_the_reference(lamb_update, true); }

// What PyTorch 2's torch.optim.AdamW gives for p = [0.5, -1, 2], gradients [0.1t, -0.3, 2/t] in steps t = 1
// to 3, lr 0.1, betas (0.9, 0.999), eps 1e-6, weight_decay 0.01.
TEST(Optimize, AdamIsPyTorchsAdamW) {
  std::vector<float> p{0.5f, -1, 2}, m(3), v(3);
  Team team;
  for (int t = 1; t <= 3; ++t) {
    std::vector<float> g{0.1f * float(t), -0.3f, 2.0f / float(t)};
    adam_update({.rate = 0.1,
                 .decay = 0.01,
                 .correction1 = 1 / (1 - std::pow(0.9, t)),
                 .correction2 = 1 / (1 - std::pow(0.999, t))},
                p, g, m, v, team);
  }
  const float expected[] = {0.20648165f, -0.697303891f, 1.71376574f};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(p[i], expected[i], 3e-7) << i;
}

// The formula of BERT's own AdamWeightDecayOptimizer worked out in double, apart from this program: the same
// parameters and gradients, no bias correction, decay beside the update.
TEST(Optimize, WithoutCorrectionAdamIsBertsOwn) {
  std::vector<float> p{0.5f, -1, 2}, m(3), v(3);
  Team team;
  for (int t = 1; t <= 3; ++t) {
    std::vector<float> g{0.1f * float(t), -0.3f, 2.0f / float(t)};
    adam_update({.rate = 0.1, .eps = 1e-6, .decay = 0.01}, p, g, m, v, team);
  }
  const double expected[] = {-0.700882268774182, 0.23805532102149907, 0.8504506553940916};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(p[i], expected[i], 1e-6) << i;
}

// Likewise the formula of LAMB's paper, with bias correction.
TEST(Optimize, LambIsThePapers) {
  std::vector<float> p{0.5f, -1, 2}, m(3), v(3);
  Team team;
  for (int t = 1; t <= 3; ++t) {
    std::vector<float> g{0.1f * float(t), -0.3f, 2.0f / float(t)};
    lamb_update({.rate = 0.1,
                 .eps = 1e-6,
                 .decay = 0.01,
                 .correction1 = 1 / (1 - std::pow(0.9, t)),
                 .correction2 = 1 / (1 - std::pow(0.999, t))},
                p, g, m, v, team);
  }
  const double expected[] = {0.13738185284739363, -0.6263591882114571, 1.6457469305094992};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(p[i], expected[i], 1e-6) << i;
}

TEST(Optimize, TheSameBitsForAnyTeam) {
  const size_t n = 200'003;
  for (Update update : {adam_update, lamb_update}) {
    std::vector<std::vector<float>> results;
    for (int threads : {1, 2, 3}) {
      Team team(threads);
      Case c(n);
      for (int t = 1; t <= 3; ++t) {
        std::vector<float> g = c.gradient(t);
        update(c.step_at(t), c.p, g, c.m, c.v, team);
      }
      results.push_back(c.p);
    }
    EXPECT_TRUE(test::same_bits(results[0], results[1]));
    EXPECT_TRUE(test::same_bits(results[0], results[2]));
  }
}

TEST(Optimize, LambTakesTheWholeStepWhereATensorIsZero) {
  std::vector<float> p(40), g(40, 1.0f), m(40), v(40);
  Team team;
  lamb_update({.rate = 0.5, .correction1 = 10, .correction2 = 1000}, p, g, m, v, team);
  for (float x : p) EXPECT_NEAR(x, -0.5f, 1e-5);
  std::vector<float> q(40, 2.0f), none(40), m2(40), v2(40);
  lamb_update({.rate = 0.5}, q, none, m2, v2, team);  // nothing to do: not 0/0
  for (float x : q) EXPECT_EQ(x, 2.0f);
}

TEST(Optimize, MoveMeanIsTheReference) {
  Team team;
  test::on_every_target([&] {
    for (size_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1000}) {
      const std::vector<float> p = test::random_floats(n, 1), before = test::random_floats(n, 2);
      test::Guarded mean(before, 3);
      std::vector<double> mean2(before.begin(), before.end());
      move_mean(0.01f, p, mean.span(), team);
      reference::move_mean(0.01f, std::vector<double>(p.begin(), p.end()), mean2);
      ASSERT_TRUE(mean.intact()) << n;
      ASSERT_LT(worst(mean.span(), mean2, 1), 2e-7) << n;
    }
  });
  // Where nothing moved, to the bit; and whatever the threads.
  const std::vector<float> p = test::random_floats(100'000, 3), q = test::random_floats(100'000, 4);
  std::vector<float> same = p, one = q, three = q;
  Team few(1), more(3);
  move_mean(0.3f, p, same, few);
  EXPECT_EQ(same, p);
  move_mean(0.3f, p, one, few), move_mean(0.3f, p, three, more);
  EXPECT_EQ(one, three);
}

TEST(Optimize, SumOfSquaresIsExactToDoubleAndTheSameForAnyTeam) {
  test::on_every_target([&] {
    for (size_t n : {0, 1, 5, 16, 31, 64, 1000, 70'001}) {
      const std::vector<float> x = test::random_floats(n, n + 1, -3, 3);
      double expected = 0;
      for (float f : x) expected += double(f) * f;
      Team one, three(3);
      EXPECT_NEAR(sum_of_squares(x, one), expected, 1e-12 * expected) << n;
      EXPECT_EQ(sum_of_squares(x, one), sum_of_squares(x, three)) << n;
    }
  });
}

TEST(Optimize, SumOfSquaresTellsWhatIsNotFiniteWhereverItIs) {
  Team team(2);
  for (size_t n : {1, 17, 40'000})
    for (size_t at : {size_t{0}, n / 2, n - 1}) {
      std::vector<float> x(n, 1.0f);
      x[at] = test::kNaN;
      EXPECT_TRUE(std::isnan(sum_of_squares(x, team)));
      x[at] = -test::kInf;
      EXPECT_TRUE(std::isinf(sum_of_squares(x, team)));
      x[at] = 3e38f;
      EXPECT_TRUE(std::isfinite(sum_of_squares(x, team))) << "a square that float could not hold";
    }
}

TEST(Optimize, ClearClearsAllOfItAndNothingElse) {
  Team team(2);
  for (size_t n : {0, 1, 100, 40'000}) {
    test::Guarded x(test::random_floats(n, 1, 1, 2), 1);
    clear(x.span(), team);
    for (float f : x.span()) ASSERT_EQ(f, 0.0f);
    EXPECT_TRUE(x.intact());
  }
}

}  // namespace
}  // namespace bertie::kernels
