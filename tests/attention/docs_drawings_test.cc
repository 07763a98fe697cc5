// The drawings of patterns in docs/attention/ are the definitions', and the numbers that a page works out by
// hand are what the functions give.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "attention/dropout.h"
#include "attention/reference_look.h"
#include "bertie/attention.h"
#include "support/data.h"

namespace bertie {
namespace {

// Queries by rows, keys by columns.
std::string draw(size_t n, size_t m, const std::function<std::string(size_t, size_t)>& cell) {
  std::string text = "     ";
  for (size_t j = 0; j < m; ++j) text += ' ' + std::to_string(j % 10);
  text += '\n';
  for (size_t i = 0; i < n; ++i) {
    text += (i < 10 ? "    " : "   ") + std::to_string(i);
    for (size_t j = 0; j < m; ++j) text += ' ' + cell(i, j);
    text += '\n';
  }
  return text;
}

// `mark` says how a key that is seen is drawn.
std::string draw(
    const Look& look, size_t n, size_t m,
    const std::function<std::string(size_t, size_t)>& mark = [](size_t, size_t) { return "■"; }) {
  return draw(n, m, [&](size_t i, size_t j) {
    return reference::sees(look, 0, i, i, j, n, m) ? mark(i, j) : std::string("·");
  });
}

void expect_drawn(const std::string& page, const std::string& drawing) {
  std::ostringstream text;
  text << std::ifstream(test::source_dir() / "docs/attention" / page).rdbuf();
  EXPECT_NE(text.str().find("```text\n" + drawing + "```\n"), std::string::npos)
      << page << " has no such drawing:\n"
      << drawing;
}

TEST(Drawings, OfWhereToLook) {
  expect_drawn("scaled-dot-product.md", draw(Look::full(), 8, 8));
  expect_drawn("cross-attention.md", draw(Look::full(), 4, 10));
  expect_drawn("causal.md", draw(Look::causal(), 8, 8));
  Look at_end = Look::causal();
  at_end.queries_at_end = true;
  expect_drawn("causal.md", draw(at_end, 3, 8));
  expect_drawn("window.md", draw(Look::window(2), 12, 12));
  expect_drawn("window.md", draw(Look::window(3, 0), 12, 12));

  const int32_t global[] = {0, 7};
  const auto is_global = [](size_t t) { return t == 0 || t == 7; };
  expect_drawn("longformer.md", draw(Look::window_and_global(1, global), 12, 12, [&](size_t i, size_t j) {
                 return is_global(i) || is_global(j) ? "G" : "W";
               }));

  const BigBird pattern{.block = 2, .window = 3, .global = 1, .random = 1, .seed = 7};
  expect_drawn("big-bird.md", draw(Look::big_bird(pattern), 16, 16, [&](size_t i, size_t j) {
                 const size_t from = i / 2, to = j / 2;
                 return from == 0 || to == 0 ? "G" : from <= to + 1 && to <= from + 1 ? "W" : "R";
               }));

  expect_drawn("sparse-transformer.md",
               draw(Look::strided(4), 16, 16, [](size_t i, size_t j) { return i - j < 4 ? "■" : "○"; }));
  expect_drawn("sparse-transformer.md", draw(Look::fixed(4, 1), 16, 16,
                                             [](size_t i, size_t j) { return i / 4 == j / 4 ? "■" : "○"; }));

  std::vector<uint8_t> allowed(10 * 10);
  for (size_t i = 0; i < 10; ++i)
    for (size_t j = 0; j < 10; ++j) allowed[i * 10 + j] = j < 4 || j <= i;
  expect_drawn("mask.md", draw(Look::mask({allowed.data(), 10, 10}), 10, 10));
}

TEST(Drawings, OfAPackedBatch) {
  const size_t sequence[] = {0, 0, 0, 1, 1, 1, 1, 1, 2, 2};
  expect_drawn("packed-batches.md",
               draw(10, 10, [&](size_t i, size_t j) { return sequence[i] == sequence[j] ? "■" : "·"; }));
}

TEST(Drawings, OfAnAdaptiveSpan) {
  const float spans[] = {2};
  const Look look = Look::adaptive_span(spans, 4);
  expect_drawn("adaptive-span.md", draw(look, 12, 12, [&](size_t i, size_t j) {
                 const double f = reference::span_factor<double>(look, 2.0, i, j, 12, 12);
                 return f == 1 ? "■" : f == 0.75 ? "▓" : f == 0.5 ? "▒" : f == 0.25 ? "░" : "?";
               }));
}

TEST(Drawings, OfDropout) {
  const Dropout dropout{.rate = 0.25f, .seed = 17};
  expect_drawn("dropout.md", draw(8, 16, [&](size_t i, size_t j) {
                 return dropout_keeps(dropout, 0, 0, i, j) ? "■" : "·";
               }));
}

// One query, two keys, numbers of one digit: docs/attention/scaled-dot-product.md.
TEST(ByHand, TheGradientsOfOneQueryAndTwoKeys) {
  const float q[] = {1}, k[] = {0, 1}, v[] = {0, 1}, d_out[] = {1};
  float out[1], dq[1], dk[2], dv[2];
  AttentionSaved saved;
  attention({q, 1, 1}, {k, 2, 1}, {v, 2, 1}, {out, 1, 1}, saved);
  attention_backward({q, 1, 1}, {k, 2, 1}, {v, 2, 1}, Matrix<float>(out, 1, 1), saved, {d_out, 1, 1},
                     {.q = {dq, 1, 1}, .k = {dk, 2, 1}, .v = {dv, 2, 1}});
  EXPECT_NEAR(out[0], .7311, 5e-5);
  EXPECT_NEAR(dv[0], .2689, 5e-5);
  EXPECT_NEAR(dv[1], .7311, 5e-5);
  EXPECT_NEAR(dq[0], .1966, 5e-5);
  EXPECT_NEAR(dk[0], -.1966, 5e-5);
  EXPECT_NEAR(dk[1], .1966, 5e-5);
}

// The last of three queries; scores 0, span 0.5, ramp 1: docs/attention/adaptive-span.md.
TEST(ByHand, TheGradientOfASpan) {
  const float q[] = {0}, k[] = {0, 0, 0}, v[] = {0, 1, 0}, d_out[] = {1}, spans[] = {.5f};
  float out[1], dq[1], dk[3], dv[3], d_spans[] = {0};
  AttentionOptions options{.look = Look::adaptive_span(spans, 1)};
  options.look.queries_at_end = true;
  AttentionSaved saved;
  attention({q, 1, 1}, {k, 3, 1}, {v, 3, 1}, {out, 1, 1}, saved, options);
  attention_backward({q, 1, 1}, {k, 3, 1}, {v, 3, 1}, Matrix<float>(out, 1, 1), saved, {d_out, 1, 1},
                     {.q = {dq, 1, 1}, .k = {dk, 3, 1}, .v = {dv, 3, 1}, .spans = d_spans}, options);
  EXPECT_NEAR(out[0], 1 / 3.0, 1e-6);
  EXPECT_NEAR(d_spans[0], 4 / 9.0, 1e-6);
}

// Two keys with features 2 and 3 for a query with feature 1: docs/attention/linear.md.
TEST(ByHand, TheGradientsOfLinearAttention) {
  const float q[] = {0}, k[] = {1, 2}, v[] = {0, 1}, d_out[] = {1};  // φ = 1; 2, 3
  float out[1], dq[1], dk[2], dv[2];
  AttentionSaved saved;
  const AttentionOptions options{.compute = Compute::linear()};
  attention({q, 1, 1}, {k, 2, 1}, {v, 2, 1}, {out, 1, 1}, saved, options);
  attention_backward({q, 1, 1}, {k, 2, 1}, {v, 2, 1}, Matrix<float>(out, 1, 1), saved, {d_out, 1, 1},
                     {.q = {dq, 1, 1}, .k = {dk, 2, 1}, .v = {dv, 2, 1}}, options);
  EXPECT_NEAR(out[0], .6, 1e-6);
  EXPECT_NEAR(dv[0], .4, 1e-6);
  EXPECT_NEAR(dv[1], .6, 1e-6);
  EXPECT_NEAR(dk[0], -.12, 1e-6);
  EXPECT_NEAR(dk[1], .08, 1e-6);
  EXPECT_NEAR(dq[0], 0, 1e-6);
}

}  // namespace
}  // namespace bertie
