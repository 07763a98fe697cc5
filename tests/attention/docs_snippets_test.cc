// The C++ on the pages of docs/attention/ is the text between "// NAME.md" and "// end" here: it compiles, it
// runs, and the last test compares the pages with this file.
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "bertie/attention.h"
#include "bertie/attention_reference.h"
#include "support/data.h"
#include "support/numbers.h"

namespace bertie {
namespace {

// What the snippets find around them: 128 tokens, 12 heads of 64.
class Page : public testing::Test {
 protected:
  Matrix<float> matrix(size_t rows, float size) {
    auto& numbers = memory_.emplace_back(test::random_floats(rows * 768, memory_.size(), -size, size));
    return {numbers.data(), rows, 768};
  }
  std::deque<std::vector<float>> memory_;
  Matrix<const float> q = matrix(128, 1), k = matrix(128, 1), v = matrix(128, 1), d_out = matrix(128, 1),
                      x = matrix(128, 1);
  Matrix<float> out = matrix(128, 0), dq = matrix(128, 0), dk = matrix(128, 0), dv = matrix(128, 0),
                dx = matrix(128, 0);
  Matrix<const float> wq = matrix(768, .03f), wk = matrix(768, .03f), wv = matrix(768, .03f),
                      wo = matrix(768, .03f);
  Matrix<float> dwq = matrix(768, 0), dwk = matrix(768, 0), dwv = matrix(768, 0), dwo = matrix(768, 0);
};

TEST_F(Page, Readme) {
  // README.md
  attention(q, k, v, out, {.heads = 12});  // forward

  const AttentionOptions options{.heads = 12, .look = Look::causal(), .dropout = {.rate = 0.1f, .seed = 1}};
  AttentionSaved saved;  // and for training
  attention(q, k, v, out, saved, options);
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv}, options);
  // end
}

TEST_F(Page, ScaledDotProduct) {
  // scaled-dot-product.md
  attention(q, k, v, out, {.heads = 12});                                   // q·k/√D
  attention(q, k, v, out, {.heads = 12, .score = Score::dot()});            // q·k
  attention(q, k, v, out, {.heads = 12, .score = Score::scaled_by(0.1f)});  // q·k·0.1

  AttentionSaved saved;
  attention(q, k, v, out, saved, {.heads = 12});
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv}, {.heads = 12});
  // end
}

TEST_F(Page, General) {
  // general.md
  std::vector<float> w(12 * 64 * 64), dw(w.size());  // a matrix of 64 × 64 for each head
  const AttentionOptions options{.heads = 12, .score = Score::general({w.data(), 12 * 64, 64})};
  AttentionSaved saved;
  attention(q, k, v, out, saved, options);
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv, .w = {dw.data(), 12 * 64, 64}},
                     options);
  // end
}

TEST_F(Page, Additive) {
  // additive.md
  const size_t a = 16;  // numbers in the hidden layer, for each head
  std::vector<float> w1(12 * a * 64), w2(12 * a * 64), u(12 * a), dw1(w1.size()), dw2(w2.size()),
      du(u.size());
  const AttentionOptions options{
      .heads = 12,
      .score = Score::additive({w1.data(), 12 * a, 64}, {w2.data(), 12 * a, 64}, {u.data(), 12, a})};
  AttentionSaved saved;
  attention(q, k, v, out, saved, options);
  attention_backward(q, k, v, out, saved, d_out,
                     {.q = dq,
                      .k = dk,
                      .v = dv,
                      .w1 = {dw1.data(), 12 * a, 64},
                      .w2 = {dw2.data(), 12 * a, 64},
                      .additive_v = {du.data(), 12, a}},
                     options);
  // end
}

TEST(PageOfItsOwn, CustomScores) {
  // custom-scores.md
  using reference::Table;
  Table<double> q(4, 2), k(6, 2), v(6, 3), weights(4, 6), out(4, 3);
  Table<double> d_out(4, 3), dq(4, 2), dk(6, 2), dv(6, 3);  // gradients are added to: begin with zeros

  const auto distance = reference::with_gradient(
      [&](size_t i, size_t j) {  // s = −|q − k|²
        double sum = 0;
        for (size_t c = 0; c < 2; ++c) sum -= (q(i, c) - k(j, c)) * (q(i, c) - k(j, c));
        return sum;
      },
      [&](size_t i, size_t j, double ds) {  // ∂s/∂q = −2(q − k), ∂s/∂k = 2(q − k)
        for (size_t c = 0; c < 2; ++c) {
          dq(i, c) -= 2 * (q(i, c) - k(j, c)) * ds;
          dk(j, c) += 2 * (q(i, c) - k(j, c)) * ds;
        }
      });
  const auto causal = [](size_t i, size_t j) { return j <= i ? 1.0 : 0.0; };  // where to look, if you like

  reference::softmax_attention<double>(distance, v, weights, out, causal);
  reference::softmax_attention_backward<double>(distance, v, d_out, dv, causal);
  // end
  EXPECT_EQ(weights(1, 0), 0.5);
  EXPECT_EQ(weights(1, 2), 0.0);
}

TEST_F(Page, CrossAttention) {
  // cross-attention.md
  attention(q.slice_rows(0, 20), k, v, out.slice_rows(0, 20), {.heads = 12});  // 20 queries, 128 keys
  // end
}

TEST_F(Page, MultiHead) {
  // multi-head.md
  const MultiHead layer{.wq = wq, .wk = wk, .wv = wv, .wo = wo};  // each 768 × 768, outputs by inputs
  MultiHeadSaved saved;
  multi_head_attention(x, x, layer, out, saved, {.heads = 12});  // self-attention: x asks and x answers
  multi_head_attention_backward(
      x, x, layer, saved, d_out,
      {.x = dx, .y = {}, .wq = dwq, .wk = dwk, .wv = dwv, .wo = dwo},  // no y: all of it goes to x
      {.heads = 12});
  // end
}

TEST_F(Page, PackedBatches) {
  // packed-batches.md
  const int32_t offsets[] = {0, 30, 70, 128};  // three sequences: rows 0–29, 30–69 and 70–127
  Workspace workspace(2);                      // two threads, and memory that the next call finds again
  attention(q, k, v, out, {.heads = 12, .q_offsets = offsets, .workspace = &workspace});
  // end
  std::vector<float> alone(40 * 768);
  attention(q.slice_rows(30, 40), k.slice_rows(30, 40), v.slice_rows(30, 40), {alone.data(), 40, 768},
            {.heads = 12});
  EXPECT_TRUE(test::same_bits({out.row(30), 40 * 768}, alone));
}

TEST_F(Page, Causal) {
  // causal.md
  attention(q, k, v, out, {.heads = 12, .look = Look::causal()});

  Look next = Look::causal();  // generation: one query, beside the last of 128 keys
  next.queries_at_end = true;
  std::vector<float> row(768);
  attention(q.slice_rows(127, 1), k, v, {row.data(), 1, 768}, {.heads = 12, .look = next});
  // end
  EXPECT_TRUE(test::same_bits(row, out[127]));
}

TEST_F(Page, Window) {
  // window.md
  attention(q, k, v, out, {.heads = 12, .look = Look::window(16)});     // 16 on each side
  attention(q, k, v, out, {.heads = 12, .look = Look::window(32, 0)});  // itself and the 32 before
  // end
}

TEST_F(Page, Longformer) {
  // longformer.md
  const int32_t global[] = {0, 64};  // positions, increasing: [CLS], and one in the middle
  attention(q, k, v, out, {.heads = 12, .look = Look::window_and_global(16, global)});
  // end
}

TEST_F(Page, BigBird) {
  // big-bird.md
  const BigBird pattern{.block = 16, .window = 3, .global = 1, .random = 2, .seed = 7};
  attention(q, k, v, out, {.heads = 12, .look = Look::big_bird(pattern)});
  // end
}

TEST_F(Page, SparseTransformer) {
  // sparse-transformer.md
  attention(q, k, v, out, {.heads = 12, .look = Look::strided(11)});   // near √128
  attention(q, k, v, out, {.heads = 12, .look = Look::fixed(16, 2)});  // blocks of 16, two summaries each
  // end
}

TEST_F(Page, Mask) {
  // mask.md
  std::vector<uint8_t> allowed(128 * 128);  // a prefix of 32 that all see; after it, nobody looks ahead
  for (size_t i = 0; i < 128; ++i)
    for (size_t j = 0; j < 128; ++j) allowed[i * 128 + j] = j < 32 || j <= i;
  attention(q, k, v, out, {.heads = 12, .look = Look::mask({allowed.data(), 128, 128})});
  // end
}

TEST_F(Page, AdaptiveSpan) {
  // adaptive-span.md
  std::vector<float> spans(12, 20.0f), d_spans(12);
  const AttentionOptions options{.heads = 12, .look = Look::adaptive_span(spans, 8)};  // ramp of 8
  AttentionSaved saved;
  attention(q, k, v, out, saved, options);
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv, .spans = d_spans}, options);
  const float penalty = adaptive_span_penalty(spans, 1e-3f, d_spans);  // to add to the loss
  // end
  EXPECT_FLOAT_EQ(penalty, 0.02f);
}

TEST_F(Page, Dropout) {
  // dropout.md
  const uint64_t seed = 17;  // another one for every step and layer
  const AttentionOptions options{.heads = 12, .dropout = {.rate = 0.1f, .seed = seed}};
  AttentionSaved saved;
  attention(q, k, v, out, saved, options);
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv}, options);  // drops the same
  // end
}

TEST_F(Page, ExactAndTiled) {
  // exact-and-tiled.md
  attention(q, k, v, out, {.heads = 12});  // tiled: no weights in memory

  std::vector<float> weights(12 * 128 * 128);
  attention(q, k, v, out, weights, {.heads = 12});  // whole rows, and the weights (H, n, m)

  AttentionSaved saved;  // tiled, and one number a row and head for the way back
  attention(q, k, v, out, saved, {.heads = 12});
  attention_backward(q, k, v, out, saved, d_out, {.q = dq, .k = dk, .v = dv}, {.heads = 12});
  // end
}

TEST_F(Page, Linear) {
  // linear.md
  attention(q, k, v, out, {.heads = 12, .compute = Compute::linear()});
  attention(q, k, v, out, {.heads = 12, .look = Look::causal(), .compute = Compute::linear()});
  // end
}

TEST_F(Page, Performer) {
  // performer.md
  attention(q, k, v, out, {.heads = 12, .compute = Compute::performer({.features = 256, .seed = 7})});
  // end
}

TEST_F(Page, Linformer) {
  // linformer.md
  const size_t r = 32, longest = 512;  // rows to project to; the longest sequence
  std::vector<float> e(r * longest), f(r * longest), de(e.size()), df(f.size());
  const AttentionOptions options{
      .heads = 12, .compute = Compute::linformer({e.data(), r, longest}, {f.data(), r, longest})};
  AttentionSaved saved;
  attention(q, k, v, out, saved, options);
  attention_backward(q, k, v, out, saved, d_out,
                     {.q = dq, .k = dk, .v = dv, .e = {de.data(), r, longest}, .f = {df.data(), r, longest}},
                     options);
  // end
}

TEST_F(Page, Nystrom) {
  // nystrom.md
  attention(q, k, v, out, {.heads = 12, .compute = Compute::nystrom({.landmarks = 32, .iterations = 6})});
  // end
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The text between "  // NAME.md" and "  // end" of this file by name, two spaces of indentation taken off.
std::map<std::string, std::string> snippets() {
  std::istringstream lines(read(test::source_dir() / "tests/attention/docs_snippets_test.cc"));
  std::map<std::string, std::string> found;
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  // ") && line.ends_with(".md"))
      name = line.substr(5);
    else if (line == "  // end")
      name.clear();
    else if (!name.empty())
      found[name] += line.substr(std::min<size_t>(2, line.size())) + '\n';
  }
  return found;
}

TEST(Pages, ShowTheCodeThatIsTestedHere) {
  const auto known = snippets();
  EXPECT_GE(known.size(), 21u);
  size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "docs/attention")) {
    const std::string name = entry.path().filename(), fence = "```cpp\n";
    if (entry.path().extension() != ".md" || name == "worked-example.md") continue;
    const std::string page = read(entry.path());
    const size_t begin = page.find(fence);
    ASSERT_NE(begin, page.npos) << name << " shows no code";
    ASSERT_EQ(page.find(fence, begin + 1), page.npos) << name << " shows code that nobody compiles";
    const std::string code = page.substr(begin + fence.size(), page.find("```", begin + 3) - begin - 7);
    ASSERT_TRUE(known.contains(name)) << name;
    EXPECT_EQ(code, known.at(name)) << name;
    ++pages;
  }
  EXPECT_EQ(pages, known.size());
}

}  // namespace
}  // namespace bertie
