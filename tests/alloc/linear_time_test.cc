// After the largest call the linear-time attentions take no memory from anywhere but their workspace.
#include <gtest/gtest.h>

#include "alloc/allocations.h"
#include "attention/linear.h"
#include "attention/linformer.h"
#include "attention/nystrom.h"
#include "attention/workspace.h"
#include "support/numbers.h"

namespace bertie {
namespace {

void expect_none_after_the_first(const auto& forward, const auto& backward, const Compute& compute,
                                 const Look& look) {
  const size_t n = 9000, cols = 2 * 8;  // more than one segment of 4096
  const int32_t whole[] = {0, int32_t(n)}, parts[] = {0, 10, 10, 3000, 5000};
  const auto values = test::random_floats(n * cols, 1);
  std::vector<float> out(n * cols), dq(n * cols), dk(n * cols), dv(n * cols);
  const auto run = [&](std::span<const int32_t> offsets, Workspace& workspace) {
    const size_t rows = size_t(offsets.back());
    const Matrix<const float> x{values.data(), rows, cols};
    const AttentionBatch b{
        .q = x, .k = x, .v = x, .q_offsets = offsets, .k_offsets = offsets, .heads = 2, .look = look};
    const Matrix<float> o{out.data(), rows, cols};
    forward(b, compute, o, workspace.parts());
    backward(b, compute, o, x,
             {.q = {dq.data(), rows, cols}, .k = {dk.data(), rows, cols}, .v = {dv.data(), rows, cols}},
             workspace.parts());
  };
  for (int threads : {1, 3}) {
    Workspace workspace(threads);
    run(whole, workspace);
    EXPECT_EQ(test::allocations_of([&] { run(whole, workspace); }), 0u) << threads << " threads";
    EXPECT_EQ(test::allocations_of([&] { run(parts, workspace); }), 0u) << threads << " threads";
  }
}

TEST(Allocations, OfTheLinearTimeAttentionsAreNoneAfterTheLargestCall) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has malloc";
#endif
  for (const Look& look : {Look::full(), Look::causal()}) {
    expect_none_after_the_first(linear_attention::forward, linear_attention::backward, Compute::linear(),
                                look);
    expect_none_after_the_first(linear_attention::forward, linear_attention::backward,
                                Compute::performer({.features = 16}), look);
  }
  const auto e = test::random_floats(5 * 9000, 2, -0.01f, 0.01f);
  const Matrix<const float> projection{e.data(), 5, 9000};
  expect_none_after_the_first(linformer::forward, linformer::backward,
                              Compute::linformer(projection, projection), {});
  expect_none_after_the_first(nystrom::forward, nystrom::backward, Compute::nystrom({.landmarks = 16}), {});
}

}  // namespace
}  // namespace bertie
