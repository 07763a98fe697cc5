#include "attention/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/linear_time_cases.h"
#include "bertie/attention.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::LinearTimeCase;
using test::LinearTimeErrors;
using test::LinearTimeResult;
using test::LinearTimeShape;

LinearTimeResult run(const LinearTimeCase& c, Workspace& workspace) {
  return test::run(c, linear_attention::forward, linear_attention::backward, workspace);
}

Look causal(bool at_end) {
  Look look = Look::causal();
  look.queries_at_end = at_end;
  return look;
}
const Look kLooks[] = {Look::full(), causal(false), causal(true)};

const Compute kComputes[] = {Compute::linear(), Compute::performer({.features = 24, .seed = 3}),
                             Compute::performer({.features = 5, .seed = 4})};

TEST(LinearAttention, EqualsTheReferenceForwardAndBackward) {
  Workspace workspace;
  LinearTimeErrors worst;
  test::on_every_target([&] {
    for (const Compute& compute : kComputes)
      for (const Look& look : kLooks)
        for (const LinearTimeShape& shape :
             {LinearTimeShape{{1}, {1}}, LinearTimeShape{{0}, {3}}, LinearTimeShape{{3}, {0}},
              LinearTimeShape{{7, 1, 20}, {7, 1, 20}, 2, 8, 8},
              LinearTimeShape{{63, 64, 65}, {63, 64, 65}, 1, 9, 33},
              LinearTimeShape{{5, 0, 90, 130}, {130, 4, 0, 70}, 3, 16, 5},
              LinearTimeShape{{200, 10}, {10, 200}, 2, 32, 40, 2}}) {
          const LinearTimeCase c(shape, compute, look);
          const LinearTimeErrors e = test::errors(c, run(c, workspace));
          ASSERT_LE(e.out, 1e-5) << shape.d << ", " << shape.dv << ", look " << int(look.kind)
                                 << look.queries_at_end;
          ASSERT_LE(e.gradient, 1e-4)
              << shape.d << ", " << shape.dv << ", look " << int(look.kind) << look.queries_at_end;
          worst.out = std::max(worst.out, e.out), worst.gradient = std::max(worst.gradient, e.gradient);
        }
  });
  std::printf("linear-time attention: worst error %.1e of the largest output, %.1e of the largest gradient\n",
              worst.out, worst.gradient);
}

TEST(LinearAttention, EqualsTheReferenceOverManySegments) {
  Workspace workspace(3);
  for (const Compute& compute : {kComputes[0], kComputes[2]})
    for (const Look& look : kLooks) {
      const LinearTimeCase c({{4200}, {4300}, 1, 3, 2}, compute, look);
      const LinearTimeErrors e = test::errors(c, run(c, workspace));
      EXPECT_LE(e.out, 1e-5) << int(look.kind) << look.queries_at_end;
      EXPECT_LE(e.gradient, 1e-4) << int(look.kind) << look.queries_at_end;
    }
}

TEST(LinearAttention, GivesTheSameBitsWithAnyNumberOfThreads) {
  Workspace one(1), three(3);
  const auto expect_same = [&](const LinearTimeShape& shape, const Compute& compute, const Look& look) {
    const LinearTimeCase c(shape, compute, look);
    EXPECT_TRUE(test::same_bits(run(c, three), run(c, one))) << int(look.kind) << look.queries_at_end;
  };
  test::on_every_target([&] {
    for (const Look& look : kLooks)
      for (const Compute& compute : kComputes)
        expect_same({{5, 0, 90, 130}, {130, 4, 0, 70}, 3, 16, 5}, compute, look);
  });
  // Few heads and more than one segment: threads share a sequence.
  for (const Look& look : kLooks)
    for (const Compute& compute : {kComputes[0], kComputes[2]})
      for (const LinearTimeShape& shape :
           {LinearTimeShape{{9000}, {9000}, 1, 4, 4}, LinearTimeShape{{100}, {9000}, 2, 4, 4},
            LinearTimeShape{{9000}, {100}, 2, 4, 4}})
        expect_same(shape, compute, look);
}

TEST(LinearAttention, GivesASequenceTheSameBitsAloneAndInABatch) {
  Workspace workspace;
  test::on_every_target([&] {
    for (const Compute& compute : kComputes)
      for (const Look& look : kLooks) {
        const LinearTimeCase both({{70, 90}, {80, 75}, 2, 8, 8}, compute, look);
        LinearTimeCase second({{90}, {75}, 2, 8, 8}, compute, look);
        test::take_last(both, second);
        const auto all = run(both, workspace), alone = run(second, workspace);
        const auto end = [](const std::vector<float>& x, size_t n) { return std::span(x).last(n); };
        EXPECT_TRUE(test::same_bits(end(all.out, alone.out.size()), alone.out));
        EXPECT_TRUE(test::same_bits(end(all.dq, alone.dq.size()), alone.dq));
        EXPECT_TRUE(test::same_bits(end(all.dk, alone.dk.size()), alone.dk));
        EXPECT_TRUE(test::same_bits(end(all.dv, alone.dv.size()), alone.dv));
      }
  });
}

TEST(LinearAttention, CausalRowsDoNotDependOnLaterKeysWhateverTheyHold) {
  Workspace workspace;
  test::on_every_target([&] {
    for (const Compute& compute : kComputes)
      for (size_t last : {0, 1, 62, 63, 64, 70, 140}) {
        LinearTimeCase c({{150}, {150}, 2, 8, 8}, compute, Look::causal());
        const auto clean = run(c, workspace);
        const size_t row = 2 * 8 + LinearTimeCase::kGap;
        for (size_t j = last + 1; j < 150; ++j) {
          c.k[j * row + j % 16] = j % 2 ? test::kNaN : test::kInf;
          c.v[j * row + j % 16] = j % 3 ? test::kNaN : -test::kInf;
        }
        const auto r = run(c, workspace);
        EXPECT_TRUE(test::same_bits(std::span(r.out).first((last + 1) * 16),
                                    std::span(clean.out).first((last + 1) * 16)));
        EXPECT_TRUE(test::same_bits(std::span(r.dq).first((last + 1) * 16),
                                    std::span(clean.dq).first((last + 1) * 16)));
        EXPECT_TRUE(std::isnan(r.out[149 * 16 + 149 % 16])) << "what a row does see must show";
      }
  });
}

TEST(LinearAttention, CausalRowsOfAPrefixAreTheSameBits) {
  Workspace workspace;
  test::on_every_target([&] {
    for (const Compute& compute : kComputes) {
      const LinearTimeCase whole({{4500}, {4500}, 1, 8, 8}, compute, Look::causal());
      const auto expected = run(whole, workspace);
      for (int32_t n : {1, 60, 130, 4097}) {
        LinearTimeCase part({{n}, {n}, 1, 8, 8}, compute, Look::causal());
        part.q.assign(whole.q.begin(), whole.q.begin() + ptrdiff_t(part.q.size()));
        part.k.assign(whole.k.begin(), whole.k.begin() + ptrdiff_t(part.k.size()));
        part.v.assign(whole.v.begin(), whole.v.begin() + ptrdiff_t(part.v.size()));
        const auto r = run(part, workspace);
        EXPECT_TRUE(test::same_bits(r.out, std::span(expected.out).first(r.out.size()))) << n;
      }
    }
  });
}

TEST(LinearAttention, RowsThatSeeNothingAreZeroAndHaveNoGradient) {
  Workspace workspace;
  test::on_every_target([&] {
    for (const Compute& compute : kComputes) {
      const LinearTimeCase c({{100}, {20}, 1, 8, 8}, compute,
                             causal(true));  // queries 0..79 come before key 0
      const auto r = run(c, workspace);
      for (size_t i = 0; i < 80 * 8; ++i) {
        ASSERT_EQ(r.out[i], 0.0f);
        ASSERT_EQ(r.dq[i], 0.0f);
      }
      EXPECT_NE(r.out[80 * 8], 0.0f);
    }
  });
}

TEST(LinearAttention, TakesKeysWhoseFeaturesAreOutOfFloatsRange) {
  Workspace workspace;
  test::on_every_target([&] {
    LinearTimeCase far({{4}, {3}, 1, 8, 8}, Compute::performer({.features = 16, .seed = 1}));
    for (float& x : far.k) x *= 1e4f;  // |k|²/2 alone is beyond e^−87: every weight is 0
    const auto r = run(far, workspace);
    for (float x : r.out) EXPECT_EQ(x, 0.0f);
    for (float x : r.dk) EXPECT_EQ(x, 0.0f);
    LinearTimeCase negative({{4}, {3}, 1, 8, 8}, Compute::linear());
    for (float& x : negative.k) x = -1e3f;
    for (float x : run(negative, workspace).out) EXPECT_EQ(x, 0.0f);
  });
}

// Exponents above 60 need ω·k' > 60 + |k'|²/2: a feature much longer than usual.
TEST(LinearAttention, BoundsTheExponentsOfKeysAndStopsTheirGradientThere) {
  Workspace workspace;
  const Compute compute = Compute::performer({.features = 256, .seed = 11});
  test::on_every_target([&] {
    LinearTimeCase c({{6}, {5}, 1, 128, 4}, compute);
    reference::Table<float> omega(256, 128);
    orthogonal_features(256, 128, 11, omega);
    size_t longest = 0;
    const auto square = [&](size_t f) {
      return reference::dot<float>(std::as_const(omega)[f], std::as_const(omega)[f]);
    };
    for (size_t f = 0; f < 256; ++f)
      if (square(f) > square(longest)) longest = f;
    ASSERT_GT(square(longest), 2 * 62);
    for (size_t j = 0; j < 4; ++j)  // k' = ω_f has the exponent |ω_f|²/2
      for (size_t d = 0; d < 128; ++d)
        c.k[j * (128 + LinearTimeCase::kGap) + d] =
            omega(longest, d) * std::pow(128.0f, 0.25f) * (1 + 0.01f * float(j));
    const auto e = test::errors(c, run(c, workspace));
    EXPECT_LE(e.out, 1e-5);
    EXPECT_LE(e.gradient, 1e-4);
  });
}

TEST(OrthogonalFeatures, AreOrthogonalWithinABlockAndAsLongAsGaussianVectors) {
  const size_t d = 16, features = 4096;
  reference::Table<float> omega(features, d);
  orthogonal_features(features, d, 5, omega);
  const auto row = [&](size_t f) { return std::as_const(omega)[f]; };
  double mean_square = 0, mean_fourth = 0;
  for (size_t f = 0; f < features; ++f) {
    for (size_t g = f / d * d; g < f; ++g)
      ASSERT_NEAR(double(reference::dot<float>(row(f), row(g))), 0, 2e-5) << f << ", " << g;
    const double square = double(reference::dot<float>(row(f), row(f)));
    mean_square += square / double(features), mean_fourth += square * square / double(features);
  }
  EXPECT_NEAR(mean_square, double(d), 0.5);                                  // of χ² with d degrees
  EXPECT_NEAR(mean_fourth - mean_square * mean_square, 2 * double(d), 4.0);  // its variance
}

TEST(OrthogonalFeatures, DependOnTheSeedAndNotOnHowManyAreAskedFor) {
  reference::Table<float> few(10, 8), many(20, 8), other(10, 8);
  orthogonal_features(10, 8, 5, few);
  orthogonal_features(20, 8, 5, many);
  orthogonal_features(10, 8, 6, other);
  size_t same = 0;
  for (size_t f = 0; f < 10; ++f)
    for (size_t c = 0; c < 8; ++c) {
      EXPECT_EQ(few(f, c), many(f, c));
      same += few(f, c) == other(f, c);
    }
  EXPECT_EQ(same, 0u);
}

TEST(Performer, ComesCloserToTheSoftmaxWithMoreFeatures) {
  Workspace workspace;
  double before = 1e9;
  for (size_t features : {16, 256, 4096}) {
    double error = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      LinearTimeCase c({{40}, {50}, 2, 16, 16}, Compute::performer({.features = features, .seed = seed}));
      const auto approximate = run(c, workspace).out;
      c.options.compute = Compute::softmax();
      error += test::difference(approximate, c) / 8;
    }
    std::printf("performer, %zu features: root mean square error %.5f\n", features, error);
    EXPECT_LT(error, before / 2);
    before = error;
  }
}

}  // namespace
}  // namespace bertie
