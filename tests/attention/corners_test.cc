// Faults that were found by trying to break attention; each of these failed once.
#include <gtest/gtest.h>

#include <cmath>

#include "bertie/attention.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::expect_error, test::random_floats;

struct Tensor {
  Tensor(size_t r, size_t c, uint64_t seed) : rows(r), cols(c), memory(random_floats(r * c, seed)) {}
  Tensor(size_t r, size_t c) : rows(r), cols(c), memory(r * c) {}
  operator Matrix<float>() { return {memory.data(), rows, cols}; }
  operator Matrix<const float>() const { return {memory.data(), rows, cols}; }
  size_t rows, cols;
  std::vector<float> memory;
};

TEST(Corners, CrossAttentionWithoutTheAnsweringSidesGradientIsNotSelfAttention) {
  for (size_t m : {5, 2}) {
    const Tensor x(2, 4, 1), y(m, 4, 2), wq(4, 4, 3), wk(4, 4, 4), wv(4, 4, 5), wo(4, 4, 6), d_out(2, 4, 7);
    const MultiHead w{.wq = wq, .wk = wk, .wv = wv, .wo = wo};
    MultiHeadSaved saved;
    Tensor out(2, 4), with(2, 4), without(2, 4), dy(m, 4);
    multi_head_attention(x, y, w, out, saved);
    multi_head_attention_backward(x, y, w, saved, d_out, {.x = with, .y = dy});
    multi_head_attention_backward(x, y, w, saved, d_out, {.x = without});
    EXPECT_TRUE(test::same_bits(without.memory, with.memory));
  }
}

TEST(Corners, AFailedMultiHeadBackwardAddsNothing) {
  const Tensor x(3, 4, 1), w(4, 4, 3), d_out(3, 4, 7);
  const MultiHead weights{.wq = w, .wk = w, .wv = w, .wo = w};
  const float span[] = {2};
  const AttentionOptions options{.look = Look::adaptive_span(span, 1)};
  MultiHeadSaved saved;
  Tensor out(3, 4), dx(3, 4), dwo(4, 4);
  float wrong[2] = {};
  multi_head_attention(x, x, weights, out, saved, options);
  expect_error("gradients.spans", [&] {
    multi_head_attention_backward(x, x, weights, saved, d_out,
                                  {.x = dx, .wo = dwo, .mechanism = {.spans = wrong}}, options);
  });
  for (float g : dwo.memory) EXPECT_EQ(g, 0.0f);
}

TEST(Corners, ValuesWithoutColumnsGiveGradientsOfZero) {
  test::on_every_target([] {
    const size_t n = 200;
    Workspace workspace;
    const Tensor q(n, 8, 1), k(n, 8, 2), v(n, 8, 3);
    Tensor out(n, 8), dq(n, 8), dk(n, 8), dv(n, 8);
    AttentionSaved saved;
    const AttentionOptions options{.workspace = &workspace};
    attention(q, k, v, out, saved, options);  // leaves its numbers in the workspace
    attention_backward(q, k, v, out, saved, v, {.q = dq, .k = dk, .v = dv}, options);
    float none = 0;
    const Matrix<float> nothing(&none, n, 0);
    attention(q, k, nothing, nothing, saved, options);
    attention_backward(q, k, nothing, nothing, saved, nothing, {.q = dq, .k = dk, .v = nothing}, options);
    for (float g : dq.memory) ASSERT_EQ(g, 0.0f);
    for (float g : dk.memory) ASSERT_EQ(g, 0.0f);
  });
}

TEST(Corners, LargeScoresKeepLargeAndSmallValues) {
  test::on_every_target([] {
    for (float score : {41.0f, -41.0f, 20.0f, -20.0f})
      for (float value : {1e21f, 1e-25f}) {
        const float q[] = {score}, k[] = {1}, v[] = {value};
        float out = 0;
        attention({q, 1, 1}, {k, 1, 1}, {v, 1, 1}, {&out, 1, 1});
        EXPECT_NEAR(out / value, 1, 1e-6) << score << " " << value;
      }
  });
}

TEST(Corners, WeightsOfApproximationsNeedNoTableOfAllKeys) {
  const size_t m = 3000, heads = 2;
  const Tensor q(1, heads * 4, 1), k(m, heads * 4, 2), v(m, heads * 3, 3);
  Tensor out(1, heads * 3);
  std::vector<float> weights(heads * m);
  attention(q, k, v, out, weights, {.heads = heads, .compute = Compute::linear()});
  for (size_t h = 0; h < heads; ++h)
    for (size_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (size_t j = 0; j < m; ++j) sum += double(weights[h * m + j]) * v.memory[j * heads * 3 + h * 3 + c];
      EXPECT_NEAR(out.memory[h * 3 + c], sum, 1e-5);
    }
}

TEST(Corners, WhatIsWrongWithAViewOrAWorkspaceIsAnError) {
  Tensor x(4, 4, 1), out(4, 4);
  const Matrix<const float> nowhere(nullptr, 4, 4), narrow(x.memory.data(), 4, 4, 2);
  expect_error("k has 4 rows and no data", [&] { attention(x, nowhere, x, out); });
  expect_error("v has 4 columns but a stride of 2", [&] { attention(x, x, narrow, out); });
  expect_error("look.stride is 0", [&] { attention(x, x, x, out, {.look = Look::fixed(0)}); });
  Workspace moved, to = std::move(moved);
  expect_error("workspace has been moved from", [&] { attention(x, x, x, out, {.workspace = &moved}); });
}

TEST(Corners, AKeyThatNobodySeesMayHoldNaNInTheBackwardPassToo) {
  test::on_every_target([] {
    const size_t n = 6, m = 40, last = m - 1;
    std::vector<uint8_t> allowed(n * m, 1);
    for (size_t i = 0; i < n; ++i) allowed[i * m + last] = 0;
    const Tensor q(n, 4, 1), d_out(n, 4, 4);
    Tensor k(m, 4, 2), v(m, 4, 3), out(n, 4), dq(n, 4), dk(m, 4), dv(m, 4);
    for (size_t c = 0; c < 4; ++c) k.memory[last * 4 + c] = v.memory[last * 4 + c] = test::kNaN;
    for (const AttentionOptions& o :
         {AttentionOptions{.look = Look::mask({allowed.data(), n, m})},
          AttentionOptions{.look = Look::causal()},
          AttentionOptions{.look = Look::causal(), .compute = Compute::linear()}}) {
      // Causal: of 6 queries the last sees key 5, so key 6 is the first that nobody sees.
      if (o.look.kind == Look::Kind::kCausal)
        for (size_t c = 0; c < 4; ++c) k.memory[n * 4 + c] = v.memory[n * 4 + c] = test::kNaN;
      AttentionSaved saved;
      attention(q, k, v, out, saved, o);
      attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv}, o);
      for (const Tensor* t : {&out, &dq, &dk, &dv})
        for (float x : t->memory) ASSERT_TRUE(std::isfinite(x)) << int(o.look.kind) << int(o.compute.kind);
    }
  });
}

// With small inputs the gradient of an additive query is what is left after nearly everything cancels.
TEST(Corners, AdditiveGradientsOfSmallQueriesAreExact) {
  const size_t m = 50, a = 8;
  Tensor q(1, a, 1), k(m, a, 2), u(1, a, 5), w(a, a);
  const Tensor v(m, a, 3), d_out(1, a, 4);
  for (float& x : q.memory) x *= 0.01f;
  for (float& x : k.memory) x *= 0.01f;
  for (size_t i = 0; i < a; ++i) w.memory[i * a + i] = 1;
  Tensor out(1, a), dq(1, a), dk(m, a), dv(m, a);
  AttentionSaved saved;
  const AttentionOptions o{.score = Score::additive(w, w, u)};
  attention(q, k, v, out, saved, o);
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv}, o);

  std::vector<double> p(m), g(m), expected(a);
  double sum = 0, mean = 0, largest = 0;
  const auto t = [&](size_t j, size_t c) {
    return std::tanh(double(q.memory[c]) + double(k.memory[j * a + c]));
  };
  for (size_t j = 0; j < m; ++j) {
    double s = 0;
    for (size_t c = 0; c < a; ++c)
      s += u.memory[c] * t(j, c), g[j] += double(d_out.memory[c]) * v.memory[j * a + c];
    sum += p[j] = std::exp(s);
  }
  for (size_t j = 0; j < m; ++j) mean += (p[j] /= sum) * g[j];
  for (size_t j = 0; j < m; ++j)
    for (size_t c = 0; c < a; ++c)
      expected[c] += p[j] * (g[j] - mean) * u.memory[c] * (1 - t(j, c) * t(j, c));
  for (double x : expected) largest = std::max(largest, std::abs(x));
  for (size_t c = 0; c < a; ++c) EXPECT_NEAR(dq.memory[c], expected[c], 1e-4 * largest);
}

}  // namespace
}  // namespace bertie
