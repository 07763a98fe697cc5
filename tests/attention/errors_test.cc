// Every bad argument gives an Error that names it, and nothing is written.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "bertie/attention.h"
#include "support/expect_error.h"
#include "support/numbers.h"

namespace bertie {
namespace {

using test::expect_error;

class Errors : public testing::Test {
 protected:
  // Memory of its own for every argument, until the program ends.
  static Matrix<float> m(size_t rows, size_t cols) {
    static std::deque<std::vector<float>> memory;
    return {memory.emplace_back(rows * cols + 1).data(), rows, cols};
  }
  // Two heads of 4, five queries and keys.
  static void call(const AttentionOptions& o) { attention(m(5, 8), m(5, 8), m(5, 8), m(5, 8), o); }
  static void expect_look(const std::string& text, const Look& look) {
    expect_error(text, [&] { call({.heads = 2, .look = look}); });
  }
  static void expect_score(const std::string& text, const Score& score) {
    expect_error(text, [&] { call({.heads = 2, .score = score}); });
  }
  static void expect_compute(const std::string& text, const Compute& compute) {
    expect_error(text, [&] { call({.heads = 2, .compute = compute}); });
  }
};

TEST_F(Errors, NameShapesThatDoNotFit) {
  expect_error("heads", [&] { attention(m(2, 2), m(2, 2), m(2, 2), m(2, 2), {.heads = 0}); });
  expect_error("q has 3 columns", [&] { attention(m(2, 3), m(2, 3), m(2, 2), m(2, 2), {.heads = 2}); });
  expect_error("v has 3 columns", [&] { attention(m(2, 2), m(2, 2), m(2, 3), m(2, 3), {.heads = 2}); });
  expect_error("k has 3", [&] { attention(m(2, 2), m(2, 3), m(2, 2), m(2, 2)); });
  expect_error("k has 3 rows", [&] { attention(m(2, 2), m(3, 2), m(2, 2), m(2, 2)); });
  expect_error("out has 3 rows", [&] { attention(m(2, 2), m(2, 2), m(2, 2), m(3, 2)); });
  expect_error("out has 1 columns", [&] { attention(m(2, 2), m(2, 2), m(2, 2), m(2, 1)); });
  expect_error("weights", [&] {
    float weights[3];
    attention(m(2, 2), m(2, 2), m(2, 2), m(2, 2), weights);
  });
}

TEST_F(Errors, NameOffsetsThatAreNone) {
  const auto with_offsets = [&](const std::string& text, std::vector<int32_t> q, std::vector<int32_t> k) {
    expect_error(text, [&] { call({.heads = 2, .q_offsets = q, .k_offsets = k}); });
  };
  with_offsets("q_offsets", {1, 5}, {});
  with_offsets("q_offsets", {0, 3, 2, 5}, {});
  with_offsets("q_offsets", {0, 4}, {});
  with_offsets("q_offsets", {0, 6}, {});
  with_offsets("q_offsets", {0}, {});
  with_offsets("q_offsets", {0, -1, 5}, {});
  with_offsets("k_offsets", {0, 5}, {1, 5});
  with_offsets("k_offsets", {0, 2, 5}, {0, 6, 5});
  with_offsets("k_offsets", {0, 2, 5}, {0, 2, 4});
  with_offsets("k_offsets", {0, 2, 5}, {0, 5});  // two sequences of queries, one of keys
  with_offsets("q_offsets", {}, {0, 2, 5});      // one sequence of queries, two of keys
  // Without k_offsets, the keys are cut as the queries are, and must be as many.
  const int32_t offsets[] = {0, 5};
  expect_error("k_offsets", [&] { attention(m(5, 8), m(6, 8), m(6, 8), m(5, 8), {.q_offsets = offsets}); });
}

TEST_F(Errors, NameWhatIsWrongWithWhereToLook) {
  const int32_t negative[] = {-1, 2}, decreasing[] = {3, 1}, twice[] = {2, 2};
  expect_look("look.global", Look::window_and_global(1, negative));
  expect_look("look.global", Look::window_and_global(1, decreasing));
  expect_look("look.global", Look::window_and_global(1, twice));
  const std::vector<uint8_t> allowed(100, 1);
  expect_look("look.allowed", Look::mask({allowed.data(), 4, 5}));
  expect_look("look.allowed", Look::mask({allowed.data(), 5, 4}));
  expect_look("look.allowed", Look::mask({}));
  const float one[] = {1}, three[] = {1, 1, 1}, two[] = {1, 1}, below[] = {1, -0.5f}, nan[] = {test::kNaN, 1},
              inf[] = {test::kInf, 1};
  expect_look("look.spans", Look::adaptive_span(one, 1));
  expect_look("look.spans", Look::adaptive_span(three, 1));
  expect_look("look.spans", Look::adaptive_span(below, 1));
  expect_look("look.spans", Look::adaptive_span(nan, 1));
  expect_look("look.spans", Look::adaptive_span(inf, 1));
  expect_look("look.ramp", Look::adaptive_span(two, 0));
  expect_look("look.ramp", Look::adaptive_span(two, -1));
  expect_look("look.ramp", Look::adaptive_span(two, test::kNaN));
  expect_look("look.ramp", Look::adaptive_span(two, test::kInf));
  expect_look("stride", Look::strided(0));
  expect_look("stride", Look::fixed(0));
  expect_look("look.summary", Look::fixed(3, 4));
  expect_look("look.blocks.block", Look::big_bird({.block = 0}));
  expect_look("look.blocks.window", Look::big_bird({.window = 2}));
  expect_look("look.blocks.window", Look::big_bird({.window = 0}));
}

TEST_F(Errors, NameWhatIsWrongWithTheScore) {
  expect_score("score.scale", Score::scaled_by(test::kNaN));
  expect_score("score.scale", Score::scaled_by(test::kInf));
  expect_score("score.w is", Score::general(m(7, 4)));  // H·D rows
  expect_score("score.w is", Score::general(m(8, 5)));  // k is (5, 2·4)
  expect_score("score.w is", Score::general({}));
  expect_score("score.w1 is", Score::additive(m(6, 5), m(6, 4), m(2, 3)));
  expect_score("score.w1 is", Score::additive(m(5, 4), m(6, 4), m(2, 3)));
  expect_score("score.w2 is", Score::additive(m(6, 4), m(6, 5), m(2, 3)));
  expect_score("score.w2 is", Score::additive(m(6, 4), m(8, 4), m(2, 3)));
  expect_score("score.v is", Score::additive(m(6, 4), m(6, 4), m(3, 3)));
}

TEST_F(Errors, NameADropoutRateThatIsNone) {
  for (float rate : {-0.1f, 1.0f, 1.5f, test::kNaN, test::kInf})
    expect_error("dropout.rate", [&] { call({.heads = 2, .dropout = {.rate = rate}}); });
}

TEST_F(Errors, NameWhatIsWrongWithTheComputation) {
  expect_compute("compute.features", Compute::performer({.features = 0}));
  expect_compute("compute.landmarks", Compute::nystrom({.landmarks = 0}));
  expect_compute("compute.e", Compute::linformer(m(3, 4), m(3, 5)));  // five keys, four columns
  expect_compute("compute.f", Compute::linformer(m(3, 5), m(3, 4)));
  expect_compute("compute.f", Compute::linformer(m(3, 5), m(2, 5)));
  expect_compute("compute.e", Compute::linformer(m(0, 5), m(0, 5)));
}

TEST_F(Errors, SayWhatAnApproximationCannotDo) {
  const Matrix<const float> p = m(3, 5);
  for (const Compute& compute :
       {Compute::linear(), Compute::performer(), Compute::linformer(p, p), Compute::nystrom()}) {
    expect_error("dropout", [&] { call({.heads = 2, .compute = compute, .dropout = {.rate = 0.1f}}); });
    expect_error("look", [&] { call({.heads = 2, .look = Look::window(1), .compute = compute}); });
    expect_error("score", [&] { call({.heads = 2, .score = Score::general(m(8, 4)), .compute = compute}); });
    expect_error("score", [&] {
      call({.heads = 2, .score = Score::additive(m(6, 4), m(6, 4), m(2, 3)), .compute = compute});
    });
  }
  for (const Compute& compute : {Compute::linformer(p, p), Compute::nystrom()})
    expect_error("look", [&] { call({.heads = 2, .look = Look::causal(), .compute = compute}); });
}

TEST_F(Errors, OfTheBackwardPassNameTheGradient) {
  AttentionSaved saved;
  attention(m(5, 8), m(5, 8), m(5, 8), m(5, 8), saved, {.heads = 2});
  const auto backward = [&](const std::string& text, const AttentionGradients& g, const AttentionSaved& s,
                            const AttentionOptions& o, Matrix<float> d_out) {
    expect_error(text, [&] { attention_backward(m(5, 8), m(5, 8), m(5, 8), m(5, 8), s, d_out, g, o); });
  };
  const AttentionGradients good{.q = m(5, 8), .k = m(5, 8), .v = m(5, 8)};
  const AttentionOptions two{.heads = 2};
  backward("saved", good, {}, two, m(5, 8));
  backward("d_out", good, saved, two, m(4, 8));
  backward("d_out", good, saved, two, m(5, 7));
  backward("gradients.q", {.q = m(4, 8), .k = m(5, 8), .v = m(5, 8)}, saved, two, m(5, 8));
  backward("gradients.k", {.q = m(5, 8), .k = m(5, 6), .v = m(5, 8)}, saved, two, m(5, 8));
  backward("gradients.v", {.q = m(5, 8), .k = m(5, 8), .v = {}}, saved, two, m(5, 8));

  AttentionGradients g = good;
  g.w = m(8, 3);
  backward("gradients.w", g, saved, {.heads = 2, .score = Score::general(m(8, 4))}, m(5, 8));
  const Score additive = Score::additive(m(6, 4), m(6, 4), m(2, 3));
  g = good, g.w1 = m(5, 4);
  backward("gradients.w1", g, saved, {.heads = 2, .score = additive}, m(5, 8));
  g = good, g.w2 = m(6, 5);
  backward("gradients.w2", g, saved, {.heads = 2, .score = additive}, m(5, 8));
  g = good, g.additive_v = m(3, 2);
  backward("gradients.additive_v", g, saved, {.heads = 2, .score = additive}, m(5, 8));
  const float spans[] = {1, 2};
  float d_span[1] = {};
  g = good, g.spans = d_span;
  backward("gradients.spans", g, saved, {.heads = 2, .look = Look::adaptive_span(spans, 1)}, m(5, 8));
  g = good, g.e = m(3, 4);
  backward("gradients.e", g, saved, {.heads = 2, .compute = Compute::linformer(m(3, 5), m(3, 5))}, m(5, 8));
  g = good, g.f = m(2, 5);
  backward("gradients.f", g, saved, {.heads = 2, .compute = Compute::linformer(m(3, 5), m(3, 5))}, m(5, 8));
}

TEST_F(Errors, OfMultiHeadNameTheMatrix) {
  MultiHeadSaved saved;
  const AttentionOptions two{.heads = 2};
  const auto forward = [&](const std::string& text, const MultiHead& w, Matrix<float> out) {
    expect_error(text, [&] { multi_head_attention(m(5, 6), m(5, 7), w, out, saved, two); });
  };
  const MultiHead good{.wq = m(8, 6), .wk = m(8, 7), .wv = m(4, 7), .wo = m(9, 4)};
  multi_head_attention(m(5, 6), m(5, 7), good, m(5, 9), saved, two);
  MultiHead w = good;
  w.wq = m(8, 5);
  forward("wq has", w, m(5, 9));
  w = good, w.wk = m(8, 6);
  forward("wk has", w, m(5, 9));
  w = good, w.wk = m(6, 7);
  forward("k has 6", w, m(5, 9));  // a head of queries is wider than one of keys
  w = good, w.wv = m(4, 6);
  forward("wv has", w, m(5, 9));
  w = good, w.wv = m(5, 7);
  forward("wv has", w, m(5, 9));
  w = good, w.wo = m(9, 5);
  forward("wo has", w, m(5, 9));
  forward("out is", good, m(5, 8));
  forward("out is", good, m(4, 9));
  const float bias[3] = {};
  w = good, w.bq = bias;
  forward("bq has", w, m(5, 9));
  w = good, w.bk = bias;
  forward("bk has", w, m(5, 9));
  w = good, w.bv = bias;
  forward("bv has", w, m(5, 9));
  w = good, w.bo = bias;
  forward("bo has", w, m(5, 9));

  const auto backward = [&](const std::string& text, const MultiHeadGradients& g, const MultiHeadSaved& s,
                            Matrix<float> d_out) {
    expect_error(text, [&] { multi_head_attention_backward(m(5, 6), m(5, 7), good, s, d_out, g, two); });
  };
  const MultiHeadGradients all{
      .x = m(5, 6), .y = m(5, 7), .wq = m(8, 6), .wk = m(8, 7), .wv = m(4, 7), .wo = m(9, 4)};
  backward("saved", all, {}, m(5, 9));
  backward("d_out is", all, saved, m(5, 8));
  MultiHeadGradients g = all;
  g.x = m(4, 6);
  backward("gradients.x is", g, saved, m(5, 9));
  g = all, g.y = m(5, 6);
  backward("gradients.y is", g, saved, m(5, 9));
  g = all, g.wq = m(8, 7);
  backward("gradients.wq is", g, saved, m(5, 9));
  g = all, g.wo = m(4, 9);
  backward("gradients.wo is", g, saved, m(5, 9));
}

TEST_F(Errors, OfThePenaltyNameItsGradient) {
  const float spans[] = {1, 2};
  float gradient[3] = {};
  expect_error("gradient", [&] { adaptive_span_penalty(spans, 0.1f, gradient); });
}

}  // namespace
}  // namespace bertie
