#include "attention/nystrom.h"

#include <gtest/gtest.h>

#include "attention/linear_time_cases.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::LinearTimeCase;
using test::LinearTimeErrors;
using test::LinearTimeResult;
using test::LinearTimeShape;

LinearTimeResult run(const LinearTimeCase& c, Workspace& workspace) {
  return test::run(c, nystrom::forward, nystrom::backward, workspace);
}

TEST(Nystrom, EqualsTheReferenceForwardAndBackward) {
  Workspace workspace;
  LinearTimeErrors worst;
  test::on_every_target([&] {
    for (Compute::Nystrom options : {Compute::Nystrom{1, 6}, Compute::Nystrom{6, 6}, Compute::Nystrom{20, 4},
                                     Compute::Nystrom{64, 6}, Compute::Nystrom{5, 0}})
      for (const LinearTimeShape& shape :
           {LinearTimeShape{{1}, {1}}, LinearTimeShape{{0}, {3}}, LinearTimeShape{{3}, {0}},
            LinearTimeShape{{7, 1, 20}, {7, 1, 20}, 2, 8, 8},
            LinearTimeShape{{5, 0, 90, 130}, {130, 4, 0, 70}, 3, 16, 5},
            LinearTimeShape{{200, 10}, {10, 130}, 2, 32, 40, 2}}) {
        const LinearTimeCase c(shape, Compute::nystrom(options));
        const LinearTimeErrors e = test::errors(c, run(c, workspace));
        EXPECT_LE(e.out, 1e-5) << options.landmarks << ", " << options.iterations << ", " << shape.d << ", "
                               << shape.dv;
        EXPECT_LE(e.gradient, 1e-4) << options.landmarks << ", " << options.iterations << ", " << shape.d
                                    << ", " << shape.dv;
        worst.out = std::max(worst.out, e.out), worst.gradient = std::max(worst.gradient, e.gradient);
      }
  });
  std::printf("nystrom: worst error %.1e of the largest output, %.1e of the largest gradient\n", worst.out,
              worst.gradient);
}

TEST(Nystrom, TakesMoreSequencesThanAGroup) {
  Workspace workspace(2);
  const LinearTimeCase c({std::vector<int32_t>(150, 5), std::vector<int32_t>(150, 4), 2},
                         Compute::nystrom({.landmarks = 3}));
  const LinearTimeErrors e = test::errors(c, run(c, workspace));
  EXPECT_LE(e.out, 1e-5);
  EXPECT_LE(e.gradient, 1e-4);
}

TEST(Nystrom, GivesTheSameBitsWithAnyNumberOfThreadsAndAloneOrInABatch) {
  Workspace one(1), three(3);
  test::on_every_target([&] {
    const LinearTimeCase both({{70, 90}, {80, 175}, 2, 8, 9}, Compute::nystrom({.landmarks = 12}));
    const auto all = run(both, one);
    EXPECT_TRUE(test::same_bits(run(both, three), all));
    LinearTimeCase second({{90}, {175}, 2, 8, 9}, both.options.compute);
    test::take_last(both, second);
    test::expect_same_at_the_end(all, run(second, one));
  });
}

TEST(Nystrom, ComesCloserToTheSoftmaxWithMoreLandmarks) {
  Workspace workspace;
  double before = 1e9;
  for (size_t landmarks : {2, 4, 8}) {
    // Neighbors that are alike, as landmarks suppose: a smooth walk.
    LinearTimeCase c({{256}, {256}, 1, 8, 8}, Compute::nystrom({.landmarks = landmarks, .iterations = 20}));
    for (auto* x : {&c.q, &c.k})
      for (size_t i = 0; i < 256; ++i)
        for (size_t d = 0; d < 8; ++d)
          (*x)[i * (8 + LinearTimeCase::kGap) + d] =
              0.5f * std::sin(0.005f * float(i) * float(d + 1) + float(x == &c.q));
    const auto approximate = run(c, workspace).out;
    c.options.compute = Compute::softmax();
    const double error = test::difference(approximate, c);
    std::printf("nystrom, %zu landmarks: root mean square error %.5f\n", landmarks, error);
    EXPECT_LT(error, before / 2);
    before = error;
  }
}

}  // namespace
}  // namespace bertie
