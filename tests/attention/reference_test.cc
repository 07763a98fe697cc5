// The reference of softmax attention: every hand-written gradient against Dual numbers, and where to look
// against lists written by hand.
#include <gtest/gtest.h>

#include <set>

#include "attention/derivatives.h"
#include "attention/dropout.h"
#include "attention/reference_look.h"
#include "bertie/attention.h"
#include "bertie/attention_reference.h"

namespace bertie {
namespace {

using reference::Table;
using test::expect_exact_gradients;
using test::random_tables;
using test::Tables;
using test::TableShape;

struct Shape {
  size_t n, m, d, dv;
};
const Shape kShapes[] = {{3, 5, 4, 2}, {4, 4, 3, 3}, {1, 6, 2, 5}, {5, 1, 3, 2},
                         {1, 1, 1, 1}, {0, 3, 2, 2}, {3, 0, 2, 2}, {6, 2, 1, 4}};

// A mask with holes; with more than two queries, one sees nothing.
double hole(size_t i, size_t j) { return i == 2 ? 0 : (3 * i + 5 * j) % 4 != 0; }
double drop(size_t i, size_t j) { return dropout_factor({.rate = 0.3f, .seed = 7}, 1, 2, i, j); }

// Softmax attention with a score made from the inputs by `score`, and its gradients into `d`.
template <class MakeScore>
void expect_exact_softmax_gradients(const Shape& s, std::vector<TableShape> shapes, const MakeScore& make,
                                    bool masked) {
  shapes.push_back({"v", s.m, s.dv});
  const size_t v = shapes.size() - 1;
  const auto factor = [masked](size_t i, size_t j) { return masked ? hole(i, j) : 1.0; };
  const auto dropout = [masked](size_t i, size_t j) { return masked ? drop(i, j) : 1.0; };
  expect_exact_gradients(
      shapes, random_tables(shapes, s.n * 100 + s.m),
      [&]<class T>(const Tables<T>& in) {
        Table<T> weights(s.n, s.m), out(s.n, s.dv);
        reference::softmax_attention<T>(make.template operator()<T>(in, nullptr), in[v], weights, out, factor,
                                        dropout);
        return out;
      },
      [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& d) {
        reference::softmax_attention_backward<double>(make.template operator()<double>(in, &d), in[v], d_out,
                                                      d[v], factor, dropout);
      });
}

template <class T>
Matrix<T> gradient(Tables<T>* d, size_t t) {
  return d ? Matrix<T>((*d)[t]) : Matrix<T>();
}

TEST(ReferenceGradients, OfTheDotProductAreExact) {
  for (const Shape& s : kShapes)
    for (bool masked : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.n << " queries, " << s.m << " keys, masked " << masked);
      expect_exact_softmax_gradients(
          s, {{"q", s.n, s.d}, {"k", s.m, s.d}},
          [&]<class T>(const Tables<T>& in, Tables<T>* d) {
            return reference::DotScore<T>{in[0], in[1], T(0.7), gradient(d, 0), gradient(d, 1)};
          },
          masked);
    }
}

TEST(ReferenceGradients, OfTheGeneralScoreAreExact) {
  for (const Shape& s : kShapes)
    for (bool masked : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.n << " queries, " << s.m << " keys, masked " << masked);
      expect_exact_softmax_gradients(
          s, {{"q", s.n, s.d}, {"k", s.m, s.d + 1}, {"w", s.d, s.d + 1}},
          [&]<class T>(const Tables<T>& in, Tables<T>* d) {
            return reference::GeneralScore<T>{in[0],          in[1],          in[2],
                                              gradient(d, 0), gradient(d, 1), gradient(d, 2)};
          },
          masked);
    }
}

TEST(ReferenceGradients, OfTheAdditiveScoreAreExact) {
  for (const Shape& s : kShapes)
    for (bool masked : {false, true}) {
      SCOPED_TRACE(testing::Message() << s.n << " queries, " << s.m << " keys, masked " << masked);
      const size_t a = s.d + 2;
      expect_exact_softmax_gradients(
          s, {{"q", s.n, s.d}, {"k", s.m, s.d + 1}, {"w1", a, s.d}, {"w2", a, s.d + 1}, {"v_a", 1, a}},
          [&]<class T>(const Tables<T>& in, Tables<T>* d) {
            return reference::AdditiveScore<T>{in[0],          in[1],
                                               in[2],          in[3],
                                               in[4][0],       gradient(d, 0),
                                               gradient(d, 1), gradient(d, 2),
                                               gradient(d, 3), d ? gradient(d, 4)[0] : std::span<T>()};
          },
          masked);
    }
}

// s = −|q − k|², which none of the built-in scores can be.
TEST(ReferenceGradients, OfAScoreOfOnesOwnAreExact) {
  for (const Shape& s : kShapes)
    for (bool masked : {false, true})
      expect_exact_softmax_gradients(
          s, {{"q", s.n, s.d}, {"k", s.m, s.d}},
          [&]<class T>(const Tables<T>& in, Tables<T>* d) {
            const Matrix<const T> q = in[0], k = in[1];
            const Matrix<T> dq = gradient(d, 0), dk = gradient(d, 1);
            return reference::with_gradient(
                [=](size_t i, size_t j) {
                  T sum = T(0);
                  for (size_t c = 0; c < q.cols(); ++c) sum -= (q(i, c) - k(j, c)) * (q(i, c) - k(j, c));
                  return sum;
                },
                [=](size_t i, size_t j, T ds) {
                  for (size_t c = 0; c < q.cols(); ++c) {
                    dq(i, c) -= T(2) * (q(i, c) - k(j, c)) * ds;
                    dk(j, c) += T(2) * (q(i, c) - k(j, c)) * ds;
                  }
                });
          },
          masked);
}

TEST(ReferenceGradients, OfTheAdaptiveSpanAreExact) {
  for (const Shape& s : kShapes)
    for (bool both_sides : {false, true})
      for (bool at_end : {false, true}) {
        const float spans[] = {0.4f};
        Look look = Look::adaptive_span(spans, 2.5f, both_sides);
        look.queries_at_end = at_end;
        const std::vector<TableShape> shapes{
            {"q", s.n, s.d}, {"k", s.m, s.d}, {"v", s.m, s.dv}, {"span", 1, 1}};
        Tables<double> inputs = random_tables(shapes, 5);
        inputs[3](0, 0) = spans[0];
        expect_exact_gradients(
            shapes, inputs,
            [&]<class T>(const Tables<T>& in) {
              Table<T> weights(s.n, s.m), out(s.n, s.dv);
              reference::softmax_attention<T>(
                  reference::DotScore<T>{in[0], in[1], T(0.7)}, in[2], weights, out,
                  [&](size_t i, size_t j) {
                    return reference::span_factor<T>(look, in[3](0, 0), i, j, s.n, s.m);
                  },
                  drop);
              return out;
            },
            [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& d) {
              const double span = in[3](0, 0);
              Table<double> d_factor(s.n, s.m);
              reference::softmax_attention_backward<double>(
                  reference::DotScore<double>{in[0], in[1], 0.7, d[0], d[1]}, in[2], d_out, d[2],
                  [&](size_t i, size_t j) {
                    return reference::span_factor<double>(look, span, i, j, s.n, s.m);
                  },
                  drop, d_factor);
              for (size_t i = 0; i < s.n; ++i)
                for (size_t j = 0; j < s.m; ++j)
                  d[3](0, 0) += d_factor(i, j) * reference::span_slope(look, span, i, j, s.n, s.m);
            });
      }
}

TEST(Reference, RowsThatSeeNothingAreZeroAndGetNoGradient) {
  const auto none = [](size_t, size_t) { return 0.0; };
  const auto in = random_tables({{"q", 2, 3}, {"k", 3, 3}, {"v", 3, 2}, {"d_out", 2, 2}}, 1);
  Table<double> weights(2, 3), out(2, 2), dq(2, 3), dk(3, 3), dv(3, 2);
  reference::softmax_attention<double>(reference::DotScore<double>{in[0], in[1]}, in[2], weights, out, none);
  reference::softmax_attention_backward<double>(reference::DotScore<double>{in[0], in[1], 1, dq, dk}, in[2],
                                                in[3], dv, none);
  for (const auto* t : {&weights, &out, &dq, &dk, &dv})
    for (size_t r = 0; r < t->rows(); ++r)
      for (double x : (*t)[r]) EXPECT_EQ(x, 0);
}

// "You found me": X, and weights that make of it the Q, K and V of a well-known example.
class YouFoundMe : public testing::Test {
 protected:
  static constexpr double kX[3][4] = {{.1, .2, .3, .4}, {.5, .6, .7, .8}, {.9, 1.0, 1.1, 1.2}};
  static constexpr double kQ[3][2] = {{.06, .08}, {.14, .24}, {.22, .40}};
  static constexpr double kK[3][2] = {{.04, .08}, {.12, .20}, {.20, .32}};
  static constexpr double kV[3][2] = {{.03, .03}, {.11, .11}, {.19, .19}};
  static constexpr double kOut[3] = {.1105, .1115, .1125};

  // X's rows are u + t·(1,1,1,1)·0.4 with u = (.1,.2,.3,.4) and t = 0, 1, 2: W = α·eᵢ-combinations that give
  // a column (f₀, f₀ + g, f₀ + 2g) are those with w·u = f₀ and 0.4·Σw = g. Two entries are enough: w₀, w₁.
  static Table<double> weights_for(const double (&columns)[3][2]) {
    Table<double> w(2, 4);
    for (size_t c = 0; c < 2; ++c) {
      const double f = columns[0][c], sum = (columns[1][c] - columns[0][c]) / 0.4;
      w(c, 1) = (f - 0.1 * sum) / 0.1;  // 0.1·w₀ + 0.2·w₁ = f, w₀ + w₁ = sum
      w(c, 0) = sum - w(c, 1);
    }
    return w;
  }
  static double to_four_places(double x) { return std::round(x * 1e4) / 1e4; }
};

TEST_F(YouFoundMe, ComesOutToFourPlaces) {
  Table<double> weights(3, 3), out(3, 2);
  reference::attention<double>({&kQ[0][0], 3, 2}, {&kK[0][0], 3, 2}, {&kV[0][0], 3, 2}, 1 / std::sqrt(2.0),
                               weights, out);
  for (size_t i = 0; i < 3; ++i)
    for (size_t c = 0; c < 2; ++c) EXPECT_EQ(to_four_places(out(i, c)), kOut[i]);
}

// Two heads, each the example, side by side; Wᴼ swaps the heads' columns and doubles the first.
TEST_F(YouFoundMe, ComesOutOfTwoHeadsTheirConcatenationAndTheOutputMatrix) {
  const Matrix<const double> x(&kX[0][0], 3, 4);
  const Table<double> wq1 = weights_for(kQ), wk1 = weights_for(kK), wv1 = weights_for(kV);
  const Table<double> q1 = reference::project<double>(x, wq1, {}),
                      k1 = reference::project<double>(x, wk1, {}),
                      v1 = reference::project<double>(x, wv1, {});
  for (size_t i = 0; i < 3; ++i)
    for (size_t c = 0; c < 2; ++c) {
      ASSERT_NEAR(q1(i, c), kQ[i][c], 1e-12);
      ASSERT_NEAR(k1(i, c), kK[i][c], 1e-12);
      ASSERT_NEAR(v1(i, c), kV[i][c], 1e-12);
    }
  Table<double> wq(4, 4), wk(4, 4), wv(4, 4), wo(4, 4), out(3, 4);
  for (size_t r = 0; r < 4; ++r)
    for (size_t c = 0; c < 4; ++c) {
      wq(r, c) = wq1(r % 2, c), wk(r, c) = wk1(r % 2, c);
      wv(r, c) = (r < 2 ? 1.0 : 3.0) * wv1(r % 2, c);  // the second head's values three times as large
    }
  wo(0, 2) = 1, wo(1, 3) = 1, wo(2, 0) = 2, wo(3, 1) = 1;
  reference::multi_head_attention<double>(
      x, x, {wq, wk, wv, wo},
      [](auto q, auto k, auto v, auto context) {
        for (size_t h = 0; h < 2; ++h) {
          Table<double> weights(3, 3);
          reference::attention<double>(q.slice_cols(2 * h, 2), k.slice_cols(2 * h, 2), v.slice_cols(2 * h, 2),
                                       1 / std::sqrt(2.0), weights, context.slice_cols(2 * h, 2));
        }
      },
      out);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(to_four_places(out(i, 0) / 3), kOut[i]);
    EXPECT_EQ(to_four_places(out(i, 1) / 3), kOut[i]);
    EXPECT_EQ(to_four_places(out(i, 2) / 2), kOut[i]);
    EXPECT_EQ(to_four_places(out(i, 3)), kOut[i]);
  }
}

// The keys that a query sees, as text: "0 1 3".
std::string seen(const Look& look, size_t i, size_t n, size_t m, size_t head = 0, size_t row = 0) {
  std::string text;
  for (size_t j = 0; j < m; ++j)
    if (reference::sees(look, head, row, i, j, n, m)) text += std::to_string(j) += ' ';
  if (!text.empty()) text.pop_back();
  return text;
}

TEST(Look, SeesWhatItsCommentSays) {
  EXPECT_EQ(seen(Look::full(), 1, 2, 3), "0 1 2");
  EXPECT_EQ(seen(Look::causal(), 1, 3, 3), "0 1");
  EXPECT_EQ(seen(Look::causal(), 4, 5, 3), "0 1 2");
  EXPECT_EQ(seen(Look::window(1, 2), 3, 9, 9), "2 3 4 5");
  EXPECT_EQ(seen(Look::window(1), 0, 9, 9), "0 1");
  EXPECT_EQ(seen(Look::window(0), 5, 9, 4), "");
  EXPECT_EQ(seen(Look::window(size_t(-1)), 2, 4, 4), "0 1 2 3");
  const int32_t global[] = {0, 6};
  EXPECT_EQ(seen(Look::window_and_global(1, global), 3, 8, 8), "0 2 3 4 6");
  EXPECT_EQ(seen(Look::window_and_global(1, global), 6, 8, 8), "0 1 2 3 4 5 6 7");
  EXPECT_EQ(seen(Look::strided(3), 7, 9, 9), "1 4 5 6 7");
  EXPECT_EQ(seen(Look::strided(1), 3, 9, 9), "0 1 2 3");
  EXPECT_EQ(seen(Look::fixed(3), 7, 9, 9), "2 5 6 7");
  EXPECT_EQ(seen(Look::fixed(4, 2), 9, 12, 12), "2 3 6 7 8 9");
  const uint8_t allowed[] = {1, 0, 1, 0, 0, 5};
  EXPECT_EQ(seen(Look::mask({allowed, 2, 3}), 0, 1, 3, 0, 1), "2");
  EXPECT_EQ(seen(Look::mask({allowed, 2, 3}), 0, 1, 2, 0, 0), "0");
  const float spans[] = {0, 2};
  EXPECT_EQ(seen(Look::adaptive_span(spans, 1), 4, 9, 9), "4");
  EXPECT_EQ(seen(Look::adaptive_span(spans, 1), 4, 9, 9, 1), "2 3 4");
  EXPECT_EQ(seen(Look::adaptive_span(spans, 1, true), 4, 9, 9, 1), "2 3 4 5 6");
}

TEST(Look, WithQueriesAtTheEndStandsBesideTheLastKeys) {
  Look look = Look::causal();
  look.queries_at_end = true;
  EXPECT_EQ(seen(look, 0, 2, 5), "0 1 2 3");
  EXPECT_EQ(seen(look, 1, 2, 5), "0 1 2 3 4");
  EXPECT_EQ(seen(look, 0, 3, 2), "");  // before the first key
  EXPECT_EQ(seen(look, 1, 3, 2), "0");
  look = Look::window(1);
  look.queries_at_end = true;
  EXPECT_EQ(seen(look, 0, 2, 5), "2 3 4");
  EXPECT_EQ(seen(look, 0, 3, 2), "0");  // position −1
  look = Look::big_bird({.block = 2, .window = 1, .global = 0, .random = 0});
  look.queries_at_end = true;
  EXPECT_EQ(seen(look, 0, 2, 7), "4 5");
  EXPECT_EQ(seen(look, 0, 5, 4), "");  // position −1 is in block −1
}

TEST(Look, AdaptiveSpanFadesOverItsRamp) {
  const float spans[] = {1};
  const Look look = Look::adaptive_span(spans, 4);
  const double expected[] = {0, 0.25, 0.5, 0.75, 1, 1, 0};  // keys at distance 5, 4, 3, 2, 1, 0 and after
  for (size_t j = 0; j < 7; ++j)
    EXPECT_EQ(reference::span_factor<double>(look, 1.0, 5, j, 7, 7), expected[j]) << j;
}

TEST(BigBird, SeesWindowGlobalAndAsManyRandomBlocksAsAsked) {
  const BigBird pattern{.block = 4, .window = 3, .global = 1, .random = 2, .seed = 3};
  const size_t n = 41;  // 11 blocks, the last of one key
  std::vector<int32_t> random;
  for (size_t head : {0, 1}) {
    for (size_t i = 0; i < n; ++i) {
      const int64_t block = int64_t(i) / 4;
      std::set<int64_t> expected{0};
      for (int64_t b = std::max(block - 1, int64_t{0}); b <= std::min(block + 1, int64_t{10}); ++b)
        expected.insert(b);
      const size_t certain = expected.size();
      random_blocks(pattern, head, block, 11, random);
      EXPECT_TRUE(std::is_sorted(random.begin(), random.end()));
      expected.insert(random.begin(), random.end());
      EXPECT_EQ(expected.size(), certain + 2) << "different, and neither global nor in the window";
      for (size_t j = 0; j < n; ++j)
        EXPECT_EQ(reference::sees(Look::big_bird(pattern), head, 0, i, j, n, n),
                  block == 0 || expected.contains(int64_t(j) / 4));
    }
  }
}

TEST(BigBird, DrawsNoMoreBlocksThanThereAreAndAllOfThemAlike) {
  std::vector<int32_t> random;
  random_blocks({.window = 3, .global = 2, .random = 50}, 0, 5, 10, random);
  EXPECT_EQ(random, (std::vector<int32_t>{2, 3, 7, 8, 9}));
  random_blocks({.window = 3, .global = 2, .random = 3}, 0, 1, 2, random);
  EXPECT_TRUE(random.empty());
  random_blocks({.window = 3, .global = 9, .random = 3}, 0, 0, 4, random);
  EXPECT_TRUE(random.empty());
  random_blocks({.window = 1, .global = 0, .random = 2}, 0, 30, 3, random);  // a query beyond the keys
  EXPECT_EQ(random.size(), 2u);
  size_t counts[10] = {};
  for (size_t head = 0; head < 2000; ++head) {
    random_blocks({.window = 1, .global = 1, .random = 2, .seed = 11}, head, 4, 10, random);
    for (int32_t b : random) ++counts[b];
  }
  for (size_t b = 0; b < 10; ++b)  // 500 of each on average, standard deviation 19
    EXPECT_TRUE(b == 0 || b == 4 ? counts[b] == 0 : counts[b] > 400 && counts[b] < 600) << b;
}

TEST(DropoutMask, DropsTheShareItIsAskedTo) {
  EXPECT_EQ(dropout_threshold(0), 0u);
  EXPECT_EQ(dropout_threshold(0.1f), 6554u);
  EXPECT_EQ(dropout_threshold(0.5f), 32768u);
  EXPECT_EQ(dropout_threshold(0.999999f), 65535u);
  size_t kept = 0, kept_elsewhere = 0;
  for (size_t i = 0; i < 100; ++i)
    for (size_t j = 0; j < 300; ++j) {
      kept += dropout_keeps({.rate = 0.25f, .seed = 5}, 0, 0, i, j);
      kept_elsewhere += dropout_keeps({.rate = 0.25f, .seed = 5}, 0, 0, i, j) &&
                        dropout_keeps({.rate = 0.25f, .seed = 5}, 0, 1, i, j);
      EXPECT_TRUE(dropout_keeps({.rate = 0, .seed = 5}, 0, 0, i, j));
    }
  EXPECT_NEAR(double(kept), 22500, 4 * 75);            // standard deviation 75
  EXPECT_NEAR(double(kept_elsewhere), 16875, 4 * 86);  // heads are independent
  EXPECT_EQ(dropout_growth(dropout_threshold(0.25f)), 1 / 0.75);
}

}  // namespace
}  // namespace bertie
