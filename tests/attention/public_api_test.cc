#include <gtest/gtest.h>

#include "bertie/attention.h"
#include "bertie/attention_reference.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::expect_error;

TEST(AttentionApi, ComputesYouFoundMeToFourPlaces) {
  test::on_every_target([&] {
    const float q[] = {.06f, .08f, .14f, .24f, .22f, .40f}, k[] = {.04f, .08f, .12f, .20f, .20f, .32f},
                v[] = {.03f, .03f, .11f, .11f, .19f, .19f};
    const double expected[] = {.1105, .1105, .1115, .1115, .1125, .1125};
    float out[6], same[6], weights[9];
    attention({q, 3, 2}, {k, 3, 2}, {v, 3, 2}, {out, 3, 2});
    attention({q, 3, 2}, {k, 3, 2}, {v, 3, 2}, {same, 3, 2}, weights);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(std::round(out[i] * 1e4) / 1e4, expected[i]);
      EXPECT_EQ(std::round(same[i] * 1e4) / 1e4, expected[i]);
    }
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(weights[3 * i] + weights[3 * i + 1] + weights[3 * i + 2], 1, 1e-6);
  });
}

TEST(AttentionApi, LaysHeadsOutAsItsHeaderSays) {
  const size_t n = 5, m = 7, heads = 3, d = 4, dv = 2;
  const auto q = test::random_floats(n * heads * d, 1), k = test::random_floats(m * heads * d, 2),
             v = test::random_floats(m * heads * dv, 3);
  std::vector<float> out(n * heads * dv), weights(heads * n * m);
  attention({q.data(), n, heads * d}, {k.data(), m, heads * d}, {v.data(), m, heads * dv},
            {out.data(), n, heads * dv}, weights, {.heads = heads});
  for (size_t h = 0; h < heads; ++h) {
    const auto part = [&](const std::vector<float>& x, size_t rows, size_t width) {
      return test::to_double(
          test::copy_of(Matrix<const float>(x.data(), rows, heads * width).slice_cols(h * width, width)));
    };
    const auto qh = part(q, n, d), kh = part(k, m, d), vh = part(v, m, dv), oh = part(out, n, dv);
    std::vector<double> w(n * m), o(n * dv);
    reference::attention<double>({qh.data(), n, d}, {kh.data(), m, d}, {vh.data(), m, dv}, 0.5,
                                 {w.data(), n, m}, {o.data(), n, dv});
    for (size_t i = 0; i < n * m; ++i) EXPECT_NEAR(weights[h * n * m + i], w[i], 1e-6);
    for (size_t i = 0; i < n * dv; ++i) EXPECT_NEAR(oh[i], o[i], 1e-6);
  }
}

TEST(AttentionApi, UsesTheScaleItIsGiven) {
  const float q[] = {1}, k[] = {0, 1}, v[] = {0, 1};
  float out = 0;
  attention({q, 1, 1}, {k, 2, 1}, {v, 2, 1}, {&out, 1, 1}, {.score = Score::scaled_by(3)});
  EXPECT_NEAR(out, 1 / (1 + std::exp(-3.0)), 1e-6);
}

TEST(AttentionApi, TakesNothingAndGivesNothing) {
  float out[4] = {5, 5, 5, 5};
  const float q[4] = {};
  attention({q, 0, 2}, {q, 2, 2}, {q, 2, 2}, {out, 0, 2});
  EXPECT_EQ(out[0], 5.0f);
  attention({q, 2, 2}, {q, 0, 2}, {q, 0, 2}, {out, 2, 2});  // nothing to look at
  for (float x : out) EXPECT_EQ(x, 0.0f);
}

TEST(AttentionApi, ReturnsWeightsEvenIfValuesHaveNoColumns) {
  const float q[] = {1, 2}, k[] = {1, 1};
  float weights[4] = {9, 9, 9, 9};
  attention({q, 2, 1}, {k, 2, 1}, {k, 2, 0, 1}, {weights, 2, 0, 1}, weights);
  for (float w : weights) EXPECT_EQ(w, 0.5f);
}

TEST(AttentionApi, ErrorsNameTheArgument) {
  std::vector<float> memory(100);
  const auto m = [&](size_t rows, size_t cols) { return Matrix<float>(memory.data(), rows, cols); };
  expect_error("heads is 0", [&] { attention(m(2, 2), m(2, 2), m(2, 2), m(2, 2), {.heads = 0}); });
  expect_error("q has 3 columns", [&] { attention(m(2, 3), m(2, 3), m(2, 2), m(2, 2), {.heads = 2}); });
  expect_error("v has 3 columns", [&] { attention(m(2, 2), m(2, 2), m(2, 3), m(2, 3), {.heads = 2}); });
  expect_error("but k has 3", [&] { attention(m(2, 2), m(2, 3), m(2, 2), m(2, 2)); });
  expect_error("k has 3 rows but v has 2", [&] { attention(m(2, 2), m(3, 2), m(2, 2), m(2, 2)); });
  expect_error("out has 3 rows", [&] { attention(m(2, 2), m(2, 2), m(2, 2), m(3, 2)); });
  expect_error("out has 1 columns", [&] { attention(m(2, 2), m(2, 2), m(2, 2), m(2, 1)); });
  expect_error("q has no columns", [&] { attention(m(2, 0), m(2, 0), m(2, 2), m(2, 2)); });
  expect_error("weights has 4 numbers", [&] {
    attention(m(2, 2), m(3, 2), m(3, 2), m(2, 2), {memory.data(), 4});
  });
  const size_t huge = size_t{1} << 40;  // never touched: the check comes first
  expect_error("rows", [&] { attention(m(huge, 1), m(1, 1), m(1, 1), m(huge, 1)); });
}

}  // namespace
}  // namespace bertie
