// After the largest call attention takes no memory from anywhere but its workspace, wherever it looks.
#include "bertie/attention.h"

#include <gtest/gtest.h>

#include "alloc/allocations.h"
#include "support/numbers.h"

namespace bertie {
namespace {

TEST(Allocations, OfAttentionAreNoneAfterTheLargestCall) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has replaced malloc";
#endif
  const size_t n = 700, heads = 2, cols = heads * 8;
  const auto values = test::random_floats(n * cols, 1), w = test::random_floats(heads * 8 * 8, 2);
  const std::vector<float> spans = {20, 3};
  const std::vector<int32_t> global = {0, 5};
  const std::vector<uint8_t> allowed(n * n, 1);
  std::vector<float> out(n * cols), dq(n * cols), dk(n * cols), dv(n * cols);
  AttentionSaved saved;
  Workspace workspace(2);
  const Matrix<const float> square(w.data(), heads * 8, 8), additive(w.data(), heads, 8);
  const auto run = [&](size_t rows, const AttentionOptions& o) {
    const Matrix<const float> x(values.data(), rows, cols);
    const Matrix<float> y(out.data(), rows, cols);
    attention(x, x, x, y, saved, o);
    attention_backward(
        x, x, x, y, saved, x,
        {.q = {dq.data(), rows, cols}, .k = {dk.data(), rows, cols}, .v = {dv.data(), rows, cols}}, o);
  };
  const Look looks[] = {Look::full(),
                        Look::causal(),
                        Look::window(30),
                        Look::window_and_global(10, global),
                        Look::big_bird({.block = 16, .seed = 3}),
                        Look::strided(40),
                        Look::fixed(40, 2),
                        Look::mask({allowed.data(), n, n}),
                        Look::adaptive_span(spans, 8)};
  for (const Score& score :
       {Score::scaled_dot(), Score::general(square), Score::additive(square, square, additive)})
    for (const Look& look : looks)
      for (float rate : {0.0f, 0.1f}) {
        AttentionOptions o{
            .heads = heads, .score = score, .look = look, .dropout = {.rate = rate}, .workspace = &workspace};
        run(n, o);
        EXPECT_EQ(test::allocations_of([&] { run(n, o); }), 0u) << int(score.kind) << " " << int(look.kind);
        const size_t fewer = 300;
        if (look.kind == Look::Kind::kMask) o.look = Look::mask({allowed.data(), fewer, n});
        EXPECT_EQ(test::allocations_of([&] { run(fewer, o); }), 0u)
            << int(score.kind) << " " << int(look.kind);
      }
}

TEST(Allocations, OfMultiHeadAndOfTheWeightsOfApproximationsAreNoneEither) {
#if !BERTIE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "a sanitizer has replaced malloc";
#endif
  const size_t n = 150, heads = 2, cols = heads * 8;
  const auto values = test::random_floats(n * cols, 1), w = test::random_floats(cols * cols, 2);
  const Matrix<const float> x(values.data(), n, cols), square(w.data(), cols, cols);
  std::vector<float> out(n * cols), dx(n * cols), weights(heads * n * n);
  const Matrix<float> y(out.data(), n, cols), to_x(dx.data(), n, cols);
  const MultiHead layer{.wq = square, .wk = square, .wv = square, .wo = square};
  Workspace workspace(2);
  MultiHeadSaved saved;
  const AttentionOptions plain{.heads = heads, .workspace = &workspace};
  const auto multi_head = [&] {
    multi_head_attention(x, x, layer, y, saved, plain);
    multi_head_attention_backward(x, x, layer, saved, x, {.x = to_x}, plain);
  };
  multi_head();
  EXPECT_EQ(test::allocations_of(multi_head), 0u);

  const Matrix<const float> e(values.data(), 4, n);
  for (const Compute& compute : {Compute::linear(), Compute::performer({.features = 16}),
                                 Compute::linformer(e, e), Compute::nystrom({.landmarks = 8})}) {
    const AttentionOptions o{.heads = heads, .compute = compute, .workspace = &workspace};
    const auto with_weights = [&] { attention(x, x, x, y, weights, o); };
    with_weights();
    EXPECT_EQ(test::allocations_of(with_weights), 0u) << int(compute.kind);
  }
}

}  // namespace
}  // namespace bertie
