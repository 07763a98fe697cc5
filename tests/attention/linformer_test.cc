#include "attention/linformer.h"

#include <gtest/gtest.h>

#include "attention/linear_time_cases.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::LinearTimeCase;
using test::LinearTimeErrors;
using test::LinearTimeResult;
using test::LinearTimeShape;

// E and F of their own, with gaps between the rows that hold NaN.
struct Projections {
  Projections(size_t rank, size_t positions, uint64_t seed = 5)
      : e_values(rank * (positions + 2), test::kNaN), f_values(e_values) {
    const float size = 1 / std::sqrt(float(positions));
    for (auto [to, s] : {std::pair(&e_values, seed), std::pair(&f_values, seed + 1)}) {
      const auto random = test::random_floats(rank * positions, s, -size, size);
      for (size_t r = 0; r < rank; ++r)
        std::copy_n(random.data() + r * positions, positions, to->data() + r * (positions + 2));
    }
    compute = Compute::linformer({e_values.data(), rank, positions, positions + 2},
                                 {f_values.data(), rank, positions, positions + 2});
  }
  std::vector<float> e_values, f_values;
  Compute compute;
};

LinearTimeResult run(const LinearTimeCase& c, Workspace& workspace) {
  return test::run(c, linformer::forward, linformer::backward, workspace);
}

TEST(Linformer, EqualsTheReferenceForwardAndBackward) {
  Workspace workspace;
  LinearTimeErrors worst;
  test::on_every_target([&] {
    for (size_t rank : {1, 7, 40})
      for (const LinearTimeShape& shape :
           {LinearTimeShape{{1}, {1}}, LinearTimeShape{{0}, {3}}, LinearTimeShape{{3}, {0}},
            LinearTimeShape{{7, 1, 20}, {7, 1, 20}, 2, 8, 8},
            LinearTimeShape{{5, 0, 90, 130}, {130, 4, 0, 70}, 3, 16, 5},
            LinearTimeShape{{200, 10}, {10, 130}, 2, 32, 40, 2}}) {
        const Projections p(rank, 130);
        const LinearTimeCase c(shape, p.compute);
        const LinearTimeErrors e = test::errors(c, run(c, workspace));
        ASSERT_LE(e.out, 1e-5) << rank << ", " << shape.d << ", " << shape.dv;
        ASSERT_LE(e.gradient, 1e-4) << rank << ", " << shape.d << ", " << shape.dv;
        worst.out = std::max(worst.out, e.out), worst.gradient = std::max(worst.gradient, e.gradient);
      }
  });
  std::printf("linformer: worst error %.1e of the largest output, %.1e of the largest gradient\n", worst.out,
              worst.gradient);
}

TEST(Linformer, TakesMoreSequencesThanAGroupAndLongOnes) {
  Workspace workspace(2);
  const Projections few(3, 40), tall(4097, 10), wide(2, 4300);
  for (const auto& [shape, p] :
       {std::pair(LinearTimeShape{std::vector<int32_t>(150, 3), std::vector<int32_t>(150, 4), 2}, &few),
        std::pair(LinearTimeShape{{5, 6}, {7, 8}, 1, 4, 4}, &tall),
        std::pair(LinearTimeShape{{5}, {4300}, 1, 4, 4}, &wide)}) {
    const LinearTimeCase c(shape, p->compute);
    const LinearTimeErrors e = test::errors(c, run(c, workspace));
    EXPECT_LE(e.out, 1e-5);
    EXPECT_LE(e.gradient, 1e-4);
  }
}

TEST(Linformer, GivesTheSameBitsWithAnyNumberOfThreadsAndAloneOrInABatch) {
  Workspace one(1), three(3);
  test::on_every_target([&] {
    const Projections p(33, 200);
    const LinearTimeCase both({{70, 90}, {80, 175}, 2, 8, 9}, p.compute);
    const auto all = run(both, one);
    EXPECT_TRUE(test::same_bits(run(both, three), all));
    LinearTimeCase second({{90}, {175}, 2, 8, 9}, p.compute);
    test::take_last(both, second);
    test::expect_same_at_the_end(all, run(second, one));
  });
}

TEST(Linformer, AddsToTheGradientsOfItsProjectionsAndLeavesThemOutWhenNotWanted) {
  Workspace workspace;
  const Projections p(3, 6);
  const LinearTimeCase c({{4}, {5}}, p.compute);
  const auto once = run(c, workspace);
  const AttentionBatch b = c.batch();
  std::vector<float> out(4 * 8), dq(4 * 8), dk(5 * 8), dv(5 * 8), de(3 * 6, 1.0f);
  linformer::backward(
      b, p.compute, {out.data(), 4, 8}, c.view(c.d_out, 8),
      {.q = {dq.data(), 4, 8}, .k = {dk.data(), 5, 8}, .v = {dv.data(), 5, 8}, .e = {de.data(), 3, 6}},
      workspace.parts());
  EXPECT_TRUE(test::same_bits(dk, once.dk));
  for (size_t i = 0; i < de.size(); ++i) EXPECT_NEAR(de[i], 1 + once.de[i], 1e-6);
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(de[r * 6 + 5], 1.0f) << "a column beyond the keys";
}

}  // namespace
}  // namespace bertie
