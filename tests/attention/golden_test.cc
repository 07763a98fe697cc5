// The public functions in float against PyTorch in float64, gradients included.
#include <gtest/gtest.h>

#include "attention/golden_cases.h"
#include "attention/reference_batch.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::GoldenCase;

// Of the largest output, or the largest entry of a gradient. Measured: 8·10⁻⁷ at most (Nyström), and 2·10⁻⁶
// for gradients that do not vanish.
constexpr double kForward = 1e-5, kBackward = 1e-4;

// The largest absolute number of the tensors that a case has of these.
double largest(const GoldenCase& c, std::initializer_list<const char*> tensors) {
  double most = 0;
  for (const char* name : tensors)
    if (c.has(name))
      for (double x : c.expected(name)) most = std::max(most, std::abs(x));
  return most;
}

double worst(std::span<const float> actual, const std::vector<double>& expected) {
  if (actual.size() != expected.size()) return test::kInf;
  test::Worst w;
  for (size_t i = 0; i < actual.size(); ++i) w.see(std::abs(double(actual[i]) - expected[i]));
  return std::isnan(w.error) ? test::kInf : w.error;
}

// A gradient's memory, 0 at first, and its view.
struct Gradient {
  explicit Gradient(Matrix<const float> of)
      : memory(of.rows() * of.cols()), rows(of.rows()), cols(of.cols()) {}
  operator Matrix<float>() { return {memory.data(), rows, cols}; }
  std::vector<float> memory;
  size_t rows, cols;
};

// All but Performer's, whose random numbers are torch's in the golden file.
std::vector<size_t> cases() {
  std::vector<size_t> all;
  for (size_t i = 0; i < test::golden_cases().size(); ++i)
    if (!test::golden_cases()[i].name.starts_with("performer")) all.push_back(i);
  return all;
}

class GoldenAttention : public testing::TestWithParam<size_t> {};

TEST_P(GoldenAttention, IsPyTorchsForwardAndBackward) {
  const test::Golden& golden = test::golden_cases()[GetParam()];
  GoldenCase c(golden.file, golden.name);
  AttentionOptions options = golden.options(c);
  options.heads = test::kGoldenHeads;
  const auto q = c.matrix("q"), k = c.matrix("k"), v = c.matrix("v"), d_out = c.matrix("d_out");
  const double scale = largest(c, {"out"});
  const double gradient_scale =
      largest(c, {"d.q", "d.k", "d.v", "d.w", "d.w1", "d.w2", "d.additive_v", "d.spans", "d.e", "d.f"});
  test::on_every_target([&] {
    Gradient out(d_out), dq(q), dk(k), dv(v), dw(options.score.w), dw1(options.score.w1),
        dw2(options.score.w2), dva(options.score.v), de(options.compute.e), df(options.compute.f);
    std::vector<float> d_spans(options.look.spans.size());
    AttentionSaved saved;
    attention(q, k, v, out, saved, options);
    EXPECT_LE(worst(out.memory, c.expected("out")), kForward * scale) << "out";
    if (c.has("weights")) {
      Gradient same(d_out);
      std::vector<float> weights(c.expected("weights").size());
      attention(q, k, v, same, weights, options);
      EXPECT_LE(worst(weights, c.expected("weights")), kForward) << "weights";
      EXPECT_LE(worst(same.memory, c.expected("out")), kForward * scale) << "out beside weights";
    }
    attention_backward(q, k, v, Matrix<float>(out), saved, d_out,
                       {.q = dq,
                        .k = dk,
                        .v = dv,
                        .w = dw,
                        .w1 = dw1,
                        .w2 = dw2,
                        .additive_v = dva,
                        .spans = d_spans,
                        .e = de,
                        .f = df},
                       options);
    const std::pair<const char*, const std::vector<float>&> gradients[] = {
        {"d.q", dq.memory},   {"d.k", dk.memory},   {"d.v", dv.memory},           {"d.w", dw.memory},
        {"d.w1", dw1.memory}, {"d.w2", dw2.memory}, {"d.additive_v", dva.memory}, {"d.spans", d_spans},
        {"d.e", de.memory},   {"d.f", df.memory}};
    for (const auto& [name, gradient] : gradients) {
      ASSERT_EQ(c.has(name), !gradient.empty()) << name;
      if (!c.has(name)) continue;
      // Against its own largest entry; where it vanishes, against rounding of the largest of all.
      const double own = std::max(largest(c, {name}), 1e-2 * gradient_scale);
      EXPECT_LE(worst(gradient, c.expected(name)), kBackward * own) << name;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Every, GoldenAttention, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<size_t>& which) {
                           const test::Golden& golden = test::golden_cases()[which.param];
                           return golden.file + "_" + golden.name + "_" + std::to_string(which.param);
                         });

TEST(Golden, MultiHeadIsPyTorchsForwardAndBackward) {
  for (const char* name : {"self", "cross"}) {
    SCOPED_TRACE(name);
    GoldenCase c("torch_multi_head", name);
    const bool self = !c.has("y");
    const auto x = c.matrix("x"), y = self ? x : c.matrix("y"), d_out = c.matrix("d_out");
    const MultiHead weights{.wq = c.matrix("wq"),
                            .wk = c.matrix("wk"),
                            .wv = c.matrix("wv"),
                            .wo = c.matrix("wo"),
                            .bq = c.numbers("bq"),
                            .bk = c.numbers("bk"),
                            .bv = c.numbers("bv"),
                            .bo = c.numbers("bo")};
    const double gradient_scale =
        largest(c, {"d.x", "d.y", "d.wq", "d.wk", "d.wv", "d.wo", "d.bq", "d.bk", "d.bv", "d.bo"});
    test::on_every_target([&] {
      Gradient out(d_out), dx(x), dy(y), dwq(weights.wq), dwk(weights.wk), dwv(weights.wv), dwo(weights.wo);
      std::vector<float> dbq(weights.bq.size()), dbk(weights.bk.size()), dbv(weights.bv.size()),
          dbo(weights.bo.size());
      MultiHeadSaved saved;
      const AttentionOptions options{.heads = test::kGoldenHeads};
      multi_head_attention(x, y, weights, out, saved, options);
      EXPECT_LE(worst(out.memory, c.expected("out")), kForward * largest(c, {"out"}));
      multi_head_attention_backward(x, y, weights, saved, d_out,
                                    {.x = dx,
                                     .y = self ? Matrix<float>() : Matrix<float>(dy),
                                     .wq = dwq,
                                     .wk = dwk,
                                     .wv = dwv,
                                     .wo = dwo,
                                     .bq = dbq,
                                     .bk = dbk,
                                     .bv = dbv,
                                     .bo = dbo},
                                    options);
      const std::pair<const char*, const std::vector<float>&> gradients[] = {
          {"d.x", dx.memory},   {"d.wq", dwq.memory}, {"d.wk", dwk.memory}, {"d.wv", dwv.memory},
          {"d.wo", dwo.memory}, {"d.bq", dbq},        {"d.bk", dbk},        {"d.bv", dbv},
          {"d.bo", dbo},        {"d.y", dy.memory}};
      for (const auto& [tensor, gradient] : gradients) {
        if (self && tensor == std::string("d.y")) continue;
        const double own = std::max(largest(c, {tensor}), 1e-2 * gradient_scale);
        EXPECT_LE(worst(gradient, c.expected(tensor)), kBackward * own) << tensor;
      }
    });
  }
}

}  // namespace
}  // namespace bertie
