// Multi-head attention by the public functions, against the reference in double.
#include <gtest/gtest.h>

#include "attention/mechanism_cases.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::double_table;
using test::MechanismCase;
using test::MechanismShape;
using test::numbers_of;
using test::Table;

double worst(std::span<const float> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return test::kInf;
  test::Worst w;
  for (size_t i = 0; i < actual.size(); ++i) w.see(std::abs(double(actual[i]) - expected[i]));
  return std::isnan(w.error) ? test::kInf : w.error;
}

double largest(std::span<const double> x) {
  double most = 0;
  for (double a : x) most = std::max(most, std::abs(a));
  return most;
}

struct Gradient {
  explicit Gradient(Matrix<const float> of, float begin)
      : memory(of.rows() * of.cols(), begin), rows(of.rows()), cols(of.cols()) {}
  operator Matrix<float>() { return {memory.data(), rows, cols}; }
  std::vector<float> memory;
  size_t rows, cols;
};

// Weights for a case's shape; x and y have widths of their own, or are the same.
struct MultiHeadCase {
  MultiHeadCase(MechanismCase& c, bool self_, bool biased) : self(self_) {
    const size_t h = c.shape.heads, cx = 10, cy = self ? cx : 6, out = 9;
    weights.wq = c.random(h * c.shape.d, cx), weights.wk = c.random(h * c.dk, cy);
    weights.wv = c.random(h * c.shape.dv, cy), weights.wo = c.random(out, h * c.shape.dv);
    if (biased) {
      weights.bq = c.random(1, h * c.shape.d)[0], weights.bk = c.random(1, h * c.dk)[0];
      weights.bv = c.random(1, h * c.shape.dv)[0], weights.bo = c.random(1, out)[0];
    }
    x = c.random(size_t(c.q_offsets.back()), cx);
    y = self ? x : c.random(size_t(c.k_offsets.back()), cy);
    d_out = c.random(x.rows(), out);
  }
  bool self;
  MultiHead weights;
  Matrix<const float> x, y, d_out;
};

struct MultiHeadRun {
  MultiHeadRun(const MechanismCase& c, const MultiHeadCase& h, Workspace* workspace)
      : out(h.d_out, test::kNaN),
        dx(h.x, test::kNaN),
        dy(h.y, test::kNaN),
        dwq(h.weights.wq, 0),
        dwk(h.weights.wk, 0),
        dwv(h.weights.wv, 0),
        dwo(h.weights.wo, 0),
        dbq(h.weights.bq.size()),
        dbk(h.weights.bk.size()),
        dbv(h.weights.bv.size()),
        dbo(h.weights.bo.size()),
        mechanism(c) {
    AttentionOptions options = c.options;
    options.workspace = workspace;
    multi_head_attention(h.x, h.y, h.weights, out, saved, options);
    AttentionGradients own = mechanism.views(c);
    own.q = own.k = own.v = {};
    multi_head_attention_backward(h.x, h.y, h.weights, saved, h.d_out,
                                  {.x = dx,
                                   .y = h.self ? Matrix<float>() : Matrix<float>(dy),
                                   .wq = dwq,
                                   .wk = dwk,
                                   .wv = dwv,
                                   .wo = dwo,
                                   .bq = dbq,
                                   .bk = dbk,
                                   .bv = dbv,
                                   .bo = dbo,
                                   .mechanism = own},
                                  options);
  }
  // Every gradient, in the order of reference_gradients.
  std::vector<std::pair<std::string, std::span<const float>>> gradients(bool self) const {
    std::vector<std::pair<std::string, std::span<const float>>> all{
        {"x", dx.memory}, {"wq", dwq.memory}, {"wk", dwk.memory}, {"wv", dwv.memory}, {"wo", dwo.memory},
        {"bq", dbq},      {"bk", dbk},        {"bv", dbv},        {"bo", dbo}};
    if (!self) all.emplace_back("y", dy.memory);
    for (const auto& [name, g] : mechanism.all())
      if (std::string(name) != "q" && std::string(name) != "k" && std::string(name) != "v")
        all.emplace_back(name, *g);
    return all;
  }
  Gradient out, dx, dy, dwq, dwk, dwv, dwo;
  std::vector<float> dbq, dbk, dbv, dbo;
  test::FastGradients mechanism;
  MultiHeadSaved saved;
};

struct MultiHeadReference {
  MultiHeadReference(const MechanismCase& c, const MultiHeadCase& h) : out(h.d_out.rows(), h.d_out.cols()) {
    const Table<double> x = double_table(h.x), y = double_table(h.y), wq = double_table(h.weights.wq),
                        wk = double_table(h.weights.wk), wv = double_table(h.weights.wv),
                        wo = double_table(h.weights.wo), d_out = double_table(h.d_out);
    const auto bq = test::to_double(h.weights.bq), bk = test::to_double(h.weights.bk),
               bv = test::to_double(h.weights.bv), bo = test::to_double(h.weights.bo);
    const reference::MultiHeadWeights<const double> weights{wq, wk, wv, wo, bq, bk, bv, bo};
    const auto mechanism = [&](auto q, auto k, auto v, auto context) {
      const test::ReferenceBatch batch(q, k, v, c.options, c.omega());
      for (size_t r = 0; r < context.rows(); ++r) reference::add<double>(context[r], 1, batch.out[r]);
    };
    std::vector<std::pair<const char*, std::vector<double>>> own;
    const auto backward = [&](auto q, auto k, auto v, auto d_context, const reference::Gradients<double>& g) {
      const auto d = test::ReferenceBatch(q, k, v, c.options, c.omega()).backward(d_context);
      for (const auto& [from, to] : {std::pair(&d.q, g.q), {&d.k, g.k}, {&d.v, g.v}})
        for (size_t r = 0; r < to.rows(); ++r) reference::add<double>(to[r], 1, (*from)[r]);
      own = test::all_of(d);
    };
    reference::multi_head_attention<double>(x, y, weights, mechanism, out);
    const auto like = [](const Table<double>& t) { return Table<double>(t.rows(), t.cols()); };
    Table<double> dx = like(x), dy = like(y), dwq = like(wq), dwk = like(wk), dwv = like(wv), dwo = like(wo);
    std::vector<double> dbq(bq.size()), dbk(bk.size()), dbv(bv.size()), dbo(bo.size());
    reference::multi_head_attention_backward<double>(x, y, weights, mechanism, backward, d_out, dx,
                                                     h.self ? dx : dy,
                                                     {dwq, dwk, dwv, dwo, dbq, dbk, dbv, dbo});
    gradients = {numbers_of(dx),
                 numbers_of(dwq),
                 numbers_of(dwk),
                 numbers_of(dwv),
                 numbers_of(dwo),
                 dbq,
                 dbk,
                 dbv,
                 dbo};
    if (!h.self) gradients.push_back(numbers_of(dy));
    for (size_t t = 3; t < own.size(); ++t) gradients.push_back(own[t].second);
  }
  Table<double> out;
  std::vector<std::vector<double>> gradients;
};

class MultiHeadWith : public testing::TestWithParam<size_t> {
 protected:
  const test::Mechanism& mechanism() const { return test::mechanisms()[GetParam()]; }
};

INSTANTIATE_TEST_SUITE_P(Every, MultiHeadWith, testing::Range(size_t{0}, test::mechanisms().size()),
                         [](const testing::TestParamInfo<size_t>& which) {
                           return test::test_name(test::mechanisms()[which.param].name);
                         });

TEST_P(MultiHeadWith, GivesTheReferencesOutputAndGradients) {
  const MechanismShape self_shape{"self", {6, 0, 1, 21}, {6, 0, 1, 21}, 2, 4, 3};
  const MechanismShape cross_shape{"cross", {6, 2, 3}, {15, 0, 40}, 2, 4, 3};
  for (bool self : {true, false})
    for (bool biased : {true, false}) {
      SCOPED_TRACE(mechanism().name + (self ? ", self" : ", cross") + (biased ? ", biases" : ""));
      MechanismCase c(self ? self_shape : cross_shape, 50);
      mechanism().set(c);
      const MultiHeadCase h(c, self, biased);
      const MultiHeadReference expected(c, h);
      double most = 0;
      for (const auto& g : expected.gradients) most = std::max(most, largest(g));
      test::on_every_target([&] {
        const MultiHeadRun run(c, h, nullptr);
        const auto out = numbers_of(expected.out);
        EXPECT_LE(worst(run.out.memory, out), 1e-5 * largest(out)) << "out";
        const auto gradients = run.gradients(self);
        ASSERT_EQ(gradients.size(), expected.gradients.size());
        for (size_t t = 0; t < gradients.size(); ++t)
          EXPECT_LE(worst(gradients[t].second, expected.gradients[t]),
                    1e-4 * std::max(largest(expected.gradients[t]), 1e-2 * most))
              << "gradient of " << gradients[t].first;
      });
    }
}

TEST_P(MultiHeadWith, GivesTheSameBitsWithAnyNumberOfThreads) {
  Workspace three(3);
  MechanismCase c({"self", {40, 0, 1, 90}, {40, 0, 1, 90}, 2, 8, 8}, 50);
  mechanism().set(c);
  const MultiHeadCase h(c, true, true);
  const MultiHeadRun a(c, h, nullptr), b(c, h, &three);
  EXPECT_TRUE(test::same_bits(a.out.memory, b.out.memory));
  const auto x = a.gradients(true), y = b.gradients(true);
  for (size_t t = 0; t < x.size(); ++t) EXPECT_TRUE(test::same_bits(x[t].second, y[t].second)) << x[t].first;
}

TEST(MultiHead, OfNothingToLookAtIsTheOutputsBias) {
  MechanismCase c({"nothing", {5}, {0}, 2, 4, 3}, 50);
  const MultiHeadCase h(c, false, true);
  MultiHeadRun run(c, h, nullptr);
  for (size_t i = 0; i < run.out.memory.size(); ++i)
    EXPECT_EQ(run.out.memory[i], h.weights.bo[i % h.weights.bo.size()]);
  for (float x : run.dx.memory) EXPECT_EQ(x, 0.0f);
}

// "You found me" with X of rank 2: weights that make the example's Q, K and V of it, in two heads of which
// the second's values are three times as large; Wᴼ swaps the heads and doubles one column.
TEST(MultiHead, ComputesYouFoundMeToFourPlaces) {
  const float x[] = {.1f, .2f, .3f, .4f, .5f, .6f, .7f, .8f, .9f, 1.0f, 1.1f, 1.2f};
  // Each row gives one column (f, f + g, f + 2g): w₀ + w₁ = g/0.4 and 0.1·w₀ + 0.2·w₁ = f.
  const auto row = [](double f, double g) {
    const double sum = g / 0.4, w1 = (f - 0.1 * sum) / 0.1;
    return std::vector<float>{float(sum - w1), float(w1), 0, 0};
  };
  std::vector<float> wq, wk, wv;
  for (int head : {0, 1}) {
    for (auto [f, g] : {std::pair(.06, .08), {.08, .16}}) {
      const auto w = row(f, g);
      wq.insert(wq.end(), w.begin(), w.end());
    }
    for (auto [f, g] : {std::pair(.04, .08), {.08, .12}}) {
      const auto w = row(f, g);
      wk.insert(wk.end(), w.begin(), w.end());
    }
    for (size_t c = 0; c < 2; ++c) {
      const auto w = row(head == 0 ? .03 : .09, head == 0 ? .08 : .24);
      wv.insert(wv.end(), w.begin(), w.end());
    }
  }
  const float wo[] = {0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0};
  const double expected[] = {.1105, .1115, .1125}, size[] = {3, 3, 2, 1};
  float out[12];
  MultiHeadSaved saved;
  test::on_every_target([&] {
    multi_head_attention(
        {x, 3, 4}, {x, 3, 4},
        {.wq = {wq.data(), 4, 4}, .wk = {wk.data(), 4, 4}, .wv = {wv.data(), 4, 4}, .wo = {wo, 4, 4}},
        {out, 3, 4}, saved, {.heads = 2});
    for (size_t i = 0; i < 3; ++i)
      for (size_t c = 0; c < 4; ++c)
        EXPECT_EQ(std::round(double(out[i * 4 + c]) / size[c] * 1e4) / 1e4, expected[i]);
  });
}

}  // namespace
}  // namespace bertie
