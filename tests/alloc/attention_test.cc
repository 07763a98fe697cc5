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
        if (look.kind == Look::Kind::mask) o.look = Look::mask({allowed.data(), fewer, n});
        EXPECT_EQ(test::allocations_of([&] { run(fewer, o); }), 0u)
            << int(score.kind) << " " << int(look.kind);
      }
}

}  // namespace
}  // namespace bertie
