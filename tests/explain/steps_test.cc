// Every number of the steps follows from the ones before it, and they are what the model computes.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bertie/error.h"
#include "bertie/explain.h"
#include "support/data.h"
#include "support/numbers.h"
#include "tasks/made_up_model.h"

namespace bertie {
namespace {

using test::MadeUpModel;

// Worst difference between y and x·w + b, computed in double.
double off(const Grid& y, const Grid& x, const Grid& w, std::span<const float> b) {
  EXPECT_EQ(y.rows, x.rows);
  EXPECT_EQ(y.cols, w.cols);
  EXPECT_EQ(x.cols, w.rows);
  EXPECT_EQ(b.size(), w.cols);
  test::Worst worst;
  for (size_t i = 0; i < y.rows; ++i)
    for (size_t j = 0; j < y.cols; ++j) {
      double sum = b[j];
      for (size_t c = 0; c < x.cols; ++c) sum += double(x(i, c)) * double(w(c, j));
      worst.see(std::abs(sum - y(i, j)));
    }
  return worst.error;
}

Grid transposed(const Grid& m) {
  Grid t(m.cols, m.rows);
  for (size_t r = 0; r < m.rows; ++r)
    for (size_t c = 0; c < m.cols; ++c) t(c, r) = m(r, c);
  return t;
}

void expect_that_each_step_follows(const AttentionSteps& s) {
  constexpr double kClose = 1e-5;
  const size_t n = s.n();
  EXPECT_LE(off(s.q, s.x, s.w_q, s.b_q), kClose);
  EXPECT_LE(off(s.k, s.x, s.w_k, s.b_k), kClose);
  EXPECT_LE(off(s.v, s.x, s.w_v, s.b_v), kClose);
  EXPECT_LE(off(s.scores, s.q, transposed(s.k), std::vector<float>(n)), kClose);
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      EXPECT_NEAR(s.scaled(i, j), s.scores(i, j) / std::sqrt(double(s.q.cols)), kClose);
      sum += std::exp(double(s.scaled(i, j)));
    }
    for (size_t j = 0; j < n; ++j)
      EXPECT_NEAR(s.weights(i, j), std::exp(double(s.scaled(i, j))) / sum, kClose);
  }
  EXPECT_LE(off(s.output, s.weights, s.v, std::vector<float>(s.v.cols)), kClose);
  for (size_t i = 0; i < n; ++i)
    for (size_t c = 0; c < s.v.cols; ++c) EXPECT_EQ(s.output(i, c), s.concatenated(i, s.head * s.v.cols + c));
  EXPECT_EQ(s.concatenated.cols, s.heads * s.v.cols);
  EXPECT_LE(off(s.result, s.concatenated, s.w_o, s.b_o), kClose);
}

void expect_near(const Grid& got, const std::vector<std::vector<double>>& expected, double close) {
  ASSERT_EQ(got.rows, expected.size());
  for (size_t r = 0; r < got.rows; ++r) {
    ASSERT_EQ(got.cols, expected[r].size());
    for (size_t c = 0; c < got.cols; ++c) EXPECT_NEAR(got(r, c), expected[r][c], close) << r << ", " << c;
  }
}

TEST(YouFoundMe, ComesOutAsPublished) {
  const AttentionSteps s = explain_you_found_me();
  EXPECT_EQ(s.tokens, (std::vector<std::string>{"You", "found", "me"}));
  expect_near(s.x, {{.1, .2, .3, .4}, {.5, .6, .7, .8}, {.9, 1.0, 1.1, 1.2}}, 1e-7);
  expect_near(s.q, {{.06, .08}, {.14, .24}, {.22, .40}}, 1e-7);
  expect_near(s.k, {{.04, .08}, {.12, .20}, {.20, .32}}, 1e-7);
  expect_near(s.v, {{.03, .03}, {.11, .11}, {.19, .19}}, 1e-7);
  expect_near(s.output, {{.1105, .1105}, {.1115, .1115}, {.1125, .1125}}, 5e-5);
}

TEST(YouFoundMe, HasProjectionsOfOneDigitThatGiveItExactly) {
  // In whole tenths, and so in hundredths, there is no rounding at all.
  const AttentionSteps s = explain_you_found_me();
  const auto tenths = [](float value) {
    EXPECT_NEAR(value * 10, double(std::lround(value * 10)), 1e-6);
    return std::lround(value * 10);
  };
  for (auto [w, y] : {std::pair(&s.w_q, &s.q), std::pair(&s.w_k, &s.k), std::pair(&s.w_v, &s.v)})
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 2; ++j) {
        long hundredths = 0;
        for (size_t c = 0; c < 4; ++c) {
          EXPECT_LE(std::abs(tenths((*w)(c, j))), 9);
          hundredths += tenths(s.x(i, c)) * tenths((*w)(c, j));
        }
        EXPECT_EQ(float(double(hundredths) / 100), float(double(std::lround((*y)(i, j) * 100)) / 100));
      }
}

TEST(YouFoundMe, EachStepFollowsFromTheOneBeforeInBothHeads) {
  for (size_t head : {0u, 1u}) {
    SCOPED_TRACE(head);
    expect_that_each_step_follows(explain_you_found_me(head));
  }
  EXPECT_THROW(explain_you_found_me(2), Error);
}

TEST(YouFoundMe, InTheSecondHeadTheFirstWordLooksAheadAndTheLastOneBack) {
  const AttentionSteps s = explain_you_found_me(1);
  EXPECT_GT(s.weights(0, 2), .5f);
  EXPECT_GT(s.weights(2, 0), .5f);
  for (size_t j = 0; j < 3; ++j) EXPECT_NEAR(s.weights(1, j), 1.0 / 3, 1e-6);
  EXPECT_EQ(s.concatenated.values, explain_you_found_me(0).concatenated.values);
}

TEST(Explain, ShowsWhatTheModelComputesInEveryLayerAndHead) {
  for (const std::string name : {"plain", "twelve_heads", "head_of_64", "bfloat16", "no_pooler"}) {
    SCOPED_TRACE(name);
    const MadeUpModel model(name);
    const TextModel encoder = model.load();
    const std::string text = "you found me";
    const Attention attention = encoder.attend(text);
    for (size_t layer = 0; layer < attention.layers; ++layer)
      for (size_t head = 0; head < attention.heads; ++head) {
        const AttentionSteps s = explain(encoder, text, {.layer = layer, .head = head});
        EXPECT_EQ(s.tokens, attention.tokens);
        EXPECT_EQ(s.ids, attention.encoding.ids);
        EXPECT_EQ(s.layer, layer);
        EXPECT_EQ(s.layers, attention.layers);
        EXPECT_TRUE(test::same_bits(s.weights.values, test::copy_of(attention.at(layer, head))));
        expect_that_each_step_follows(s);
      }
  }
}

TEST(Explain, TakesPairs) {
  const MadeUpModel model;
  const TextModel encoder = model.load();
  const AttentionSteps s = explain(encoder, "you", "me", {.layer = 1, .head = 1});
  const Attention attention = encoder.attend("you", "me");
  EXPECT_EQ(s.tokens, attention.tokens);
  EXPECT_TRUE(test::same_bits(s.weights.values, test::copy_of(attention.at(1, 1))));
}

TEST(Explain, WhatDoesNotFitIsAnError) {
  const MadeUpModel model;
  const TextModel encoder = model.load();
  EXPECT_THROW(explain(encoder, "you", {.layer = 2}), Error);
  EXPECT_THROW(explain(encoder, "you", {.head = 2}), Error);
  EXPECT_THROW(explain(encoder, std::string(40, 'a')), Error);
  const std::vector<float> numbers(64, 1.0f);
  const auto matrix = [&](size_t rows, size_t cols) {
    return Matrix<const float>(numbers.data(), rows, cols);
  };
  const MultiHead good{.wq = matrix(4, 4), .wk = matrix(4, 4), .wv = matrix(4, 4), .wo = matrix(4, 4)};
  EXPECT_NO_THROW(explain(matrix(3, 4), good, 2, 1));
  EXPECT_THROW(explain(matrix(3, 4), good, 0), Error);
  EXPECT_THROW(explain(matrix(3, 4), good, 2, 2), Error);
  EXPECT_THROW(explain(matrix(3, 4), good, 3), Error);
  EXPECT_THROW(explain(matrix(0, 4), good, 2), Error);
  EXPECT_THROW(explain(matrix(3, 5), good, 2), Error);
  MultiHead bad = good;
  bad.wk = matrix(2, 4);
  EXPECT_THROW(explain(matrix(3, 4), bad, 2), Error);
  bad = good, bad.wo = matrix(4, 2);
  EXPECT_THROW(explain(matrix(3, 4), bad, 2), Error);
  bad = good, bad.bv = std::span(numbers).first(3);
  EXPECT_THROW(explain(matrix(3, 4), bad, 2), Error);
}

TEST(Explain, AgreesWithMiniLM) {
  const auto folder = test::data("models/all-MiniLM-L6-v2");
  BERTIE_NEEDS(folder);
  const TextModel encoder = load(folder, {.threads = 1});
  const std::string text = "The bank deposited the money near the river bank.";
  const Attention attention = encoder.attend(text);
  for (const auto& [layer, head] : {std::pair(0u, 0u), std::pair(2u, 4u), std::pair(5u, 11u)}) {
    const AttentionSteps s = explain(encoder, text, {.layer = layer, .head = head});
    EXPECT_TRUE(test::same_bits(s.weights.values, test::copy_of(attention.at(layer, head))));
    expect_that_each_step_follows(s);
  }
}

}  // namespace
}  // namespace bertie
