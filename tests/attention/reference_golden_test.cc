// The reference in double against PyTorch in float64, gradients included.
#include <gtest/gtest.h>

#include "attention/golden_cases.h"
#include "attention/reference_batch.h"
#include "support/numbers.h"

namespace bertie {
namespace {

using test::double_table;
using test::GoldenCase;
using test::numbers_of;
using test::relative_error;
using test::Table;

constexpr double kTolerance = 1e-10;  // of the largest number; measured: below 4·10⁻¹⁵

// The random features that a golden file holds, (H, R, D).
test::ReferenceBatch::Omega omega_of(GoldenCase& c, size_t d) {
  if (!c.has("omega")) return {};
  const auto all = c.numbers("omega");
  const size_t features = all.size() / (test::kGoldenHeads * d);
  return
      [=](size_t h) { return double_table(Matrix<const float>(all.data() + h * features * d, features, d)); };
}

TEST(ReferenceGolden, AttentionIsPyTorchsForwardAndBackward) {
  for (const test::Golden& golden : test::golden_cases()) {
    SCOPED_TRACE(golden.file + "." + golden.name);
    GoldenCase c(golden.file, golden.name);
    AttentionOptions options = golden.options(c);
    options.heads = test::kGoldenHeads;
    const Table<double> q = double_table(c.matrix("q")), k = double_table(c.matrix("k")),
                        v = double_table(c.matrix("v")), d_out = double_table(c.matrix("d_out"));
    const test::ReferenceBatch batch(q, k, v, options, omega_of(c, q.cols() / test::kGoldenHeads));
    EXPECT_LE(relative_error(numbers_of(batch.out), c.expected("out")), kTolerance);
    if (c.has("weights")) {
      EXPECT_LE(relative_error(batch.weights, c.expected("weights")), kTolerance);
    }
    const test::ReferenceGradients g = batch.backward(d_out);
    const std::pair<const char*, const Table<double>&> gradients[] = {{"q", g.q},
                                                                      {"k", g.k},
                                                                      {"v", g.v},
                                                                      {"w", g.w},
                                                                      {"w1", g.w1},
                                                                      {"w2", g.w2},
                                                                      {"additive_v", g.additive_v},
                                                                      {"e", g.e},
                                                                      {"f", g.f},
                                                                      {"spans", g.spans}};
    for (const auto& [name, gradient] : gradients) {
      const std::string d = std::string("d.") + name;
      EXPECT_EQ(c.has(d), gradient.rows() > 0) << name;
      if (!c.has(d)) continue;
      const auto expected = c.expected(d);
      // One key: nothing that q or k do matters, and both gradients are 0 but for rounding.
      double largest = 0;
      for (double x : expected) largest = std::max(largest, std::abs(x));
      if (largest < 1e-15) {
        for (double x : numbers_of(gradient)) EXPECT_LE(std::abs(x), 1e-15) << name;
        continue;
      }
      EXPECT_LE(relative_error(numbers_of(gradient), expected), kTolerance) << name;
    }
  }
}

TEST(ReferenceGolden, MultiHeadIsPyTorchsForwardAndBackward) {
  for (const char* name : {"self", "cross"}) {
    SCOPED_TRACE(name);
    GoldenCase c("torch_multi_head", name);
    const bool self = !c.has("y");
    const auto table = [&](const char* tensor) { return double_table(c.matrix(tensor)); };
    const auto bias = [&](const char* tensor) { return test::to_double(c.numbers(tensor)); };
    const Table<double> x = table("x"), y = table(self ? "x" : "y"), wq = table("wq"), wk = table("wk"),
                        wv = table("wv"), wo = table("wo"), d_out = table("d_out");
    const auto bq = bias("bq"), bk = bias("bk"), bv = bias("bv"), bo = bias("bo");
    const reference::MultiHeadWeights<const double> weights{wq, wk, wv, wo, bq, bk, bv, bo};
    const AttentionOptions options{.heads = test::kGoldenHeads};
    std::vector<double> looked;
    const auto mechanism = [&](auto q, auto k, auto v, auto context) {
      const test::ReferenceBatch batch(q, k, v, options);
      looked = batch.weights;
      for (size_t r = 0; r < context.rows(); ++r)
        for (size_t col = 0; col < context.cols(); ++col) context(r, col) = batch.out(r, col);
    };
    const auto backward = [&](auto q, auto k, auto v, auto d_context, const reference::Gradients<double>& g) {
      const auto d = test::ReferenceBatch(q, k, v, options).backward(d_context);
      for (const auto& [from, to] : {std::pair(&d.q, g.q), {&d.k, g.k}, {&d.v, g.v}})
        for (size_t r = 0; r < to.rows(); ++r) reference::add<double>(to[r], 1, (*from)[r]);
    };
    Table<double> out(x.rows(), wo.rows());
    reference::multi_head_attention<double>(x, y, weights, mechanism, out);
    EXPECT_LE(relative_error(numbers_of(out), c.expected("out")), kTolerance);
    EXPECT_LE(relative_error(looked, c.expected("weights")), kTolerance);

    const auto like = [](const Table<double>& t) { return Table<double>(t.rows(), t.cols()); };
    Table<double> dx = like(x), dy = like(y), dwq = like(wq), dwk = like(wk), dwv = like(wv), dwo = like(wo);
    std::vector<double> dbq(bq.size()), dbk(bk.size()), dbv(bv.size()), dbo(bo.size());
    reference::multi_head_attention_backward<double>(x, y, weights, mechanism, backward, d_out, dx,
                                                     self ? dx : dy,
                                                     {dwq, dwk, dwv, dwo, dbq, dbk, dbv, dbo});
    const std::pair<const char*, const Table<double>&> matrices[] = {
        {"d.x", dx}, {"d.wq", dwq}, {"d.wk", dwk}, {"d.wv", dwv}, {"d.wo", dwo}};
    for (const auto& [tensor, gradient] : matrices)
      EXPECT_LE(relative_error(numbers_of(gradient), c.expected(tensor)), kTolerance) << tensor;
    if (!self) {
      EXPECT_LE(relative_error(numbers_of(dy), c.expected("d.y")), kTolerance);
    }
    EXPECT_LE(relative_error(dbq, c.expected("d.bq")), kTolerance);
    EXPECT_LE(relative_error(dbv, c.expected("d.bv")), kTolerance);
    EXPECT_LE(relative_error(dbo, c.expected("d.bo")), kTolerance);
    // What is added to all keys is added to all scores of a row, so b^K does nothing: 0 but for rounding.
    for (double x_ : dbk) EXPECT_LE(std::abs(x_), 1e-14);
    for (double x_ : c.expected("d.bk")) EXPECT_LE(std::abs(x_), 1e-14);
  }
}

}  // namespace
}  // namespace bertie
