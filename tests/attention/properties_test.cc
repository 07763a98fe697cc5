// What must hold for any numbers, through the public functions.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "bertie/attention.h"
#include "support/numbers.h"

namespace bertie {
namespace {

using test::kInf;
using test::kNaN;

// One sequence of any shape, with room for whatever a look needs.
struct Any {
  Any()
      : n(*rc::gen::inRange<size_t>(1, 50)),
        m(*rc::gen::inRange<size_t>(1, 100)),
        heads(*rc::gen::inRange<size_t>(1, 4)),
        d(*rc::gen::inRange<size_t>(1, 20)),
        dv(*rc::gen::inRange<size_t>(1, 20)),
        seed(*rc::gen::arbitrary<uint32_t>()) {
    draw();
  }
  explicit Any(size_t length) : n(length), m(length), heads(2), d(8), dv(8), seed(1) { draw(); }
  void draw() {
    q = test::random_floats(n * heads * d, seed, -3, 3);
    k = test::random_floats(m * heads * d, seed + 1, -3, 3);
    v = test::random_floats(m * heads * dv, seed + 2);
  }
  // Any look that fits; global, spans and bytes are kept here.
  Look look() {
    global.clear(), allowed.clear(), spans.clear();
    if (m > 2) global = {0, int32_t(m / 2)};
    const auto numbers = test::random_floats(n * m, seed + 3, 0, 1);
    for (float x : numbers) allowed.push_back(x < 0.3f);
    for (size_t h = 0; h < heads; ++h) spans.push_back(float(h) * 5.5f);
    const auto some = [&] { return *rc::gen::inRange<size_t>(0, 12); };
    Look all[] = {Look::full(),
                  Look::causal(),
                  Look::window(some(), some()),
                  Look::window_and_global(some(), global),
                  Look::big_bird({.block = 1 + some(),
                                  .window = 1 + 2 * (some() / 4),
                                  .global = some() / 6,
                                  .random = some() / 3,
                                  .seed = seed}),
                  Look::strided(1 + some()),
                  Look::fixed(12, 1 + some()),
                  Look::mask({allowed.data(), n, m}),
                  Look::adaptive_span(spans, 0.5f + float(some()), *rc::gen::arbitrary<bool>())};
    Look look = all[*rc::gen::inRange<size_t>(0, std::size(all))];
    look.queries_at_end = *rc::gen::arbitrary<bool>();
    return look;
  }
  Matrix<const float> queries() const { return {q.data(), n, heads * d}; }
  Matrix<const float> keys() const { return {k.data(), m, heads * d}; }
  Matrix<const float> values() const { return {v.data(), m, heads * dv}; }

  std::vector<float> tiled(AttentionOptions o = {}) const {
    std::vector<float> out(n * heads * dv, kNaN);
    o.heads = heads;
    attention(queries(), keys(), values(), {out.data(), n, heads * dv}, o);
    return out;
  }
  struct Exact {
    std::vector<float> out, weights;
  };
  Exact exact(AttentionOptions o = {}) const {
    Exact e{std::vector<float>(n * heads * dv, kNaN), std::vector<float>(heads * n * m, kNaN)};
    o.heads = heads;
    attention(queries(), keys(), values(), {e.out.data(), n, heads * dv}, e.weights, o);
    return e;
  }
  std::span<const float> row(const std::vector<float>& out, size_t i) const {
    return std::span(out).subspan(i * heads * dv, heads * dv);
  }

  size_t n, m, heads, d, dv;
  uint32_t seed;
  std::vector<float> q, k, v;
  std::vector<int32_t> global;
  std::vector<uint8_t> allowed;
  std::vector<float> spans;
};

double worst(std::span<const float> a, std::span<const float> b) {
  test::Worst w;
  for (size_t i = 0; i < a.size(); ++i) w.see(std::abs(double(a[i]) - double(b[i])));
  return w.error;
}

bool all_nan(std::span<const float> x) {
  return std::all_of(x.begin(), x.end(), [](float f) { return std::isnan(f); });
}
bool all_finite(std::span<const float> x) {
  return std::all_of(x.begin(), x.end(), [](float f) { return std::isfinite(f); });
}

// Does query i of any head have a weight for key j?
bool looks_at(const Any& a, const std::vector<float>& weights, size_t i, size_t j) {
  for (size_t h = 0; h < a.heads; ++h)
    if (weights[(h * a.n + i) * a.m + j] > 0) return true;
  return false;
}

RC_GTEST_PROP(AttentionProperties, WeightsOfARowSumToOneOrAreAllZero, ()) {
  Any a;
  const auto [out, weights] = a.exact({.look = a.look()});
  for (size_t r = 0; r < a.heads * a.n; ++r) {
    double sum = 0;
    for (float w : std::span(weights).subspan(r * a.m, a.m)) {
      RC_ASSERT(w >= 0);
      sum += w;
    }
    RC_ASSERT((sum == 0 || std::abs(sum - 1) <= 2e-6));
  }
}

RC_GTEST_PROP(AttentionProperties, OutputIsTheWeightsTimesTheValuesDropoutIncluded, ()) {
  Any a;
  const AttentionOptions o{.look = a.look(),
                           .dropout = {.rate = *rc::gen::element(0.0f, 0.1f, 0.6f), .seed = 5}};
  const auto [out, weights] = a.exact(o);
  RC_ASSERT(worst(a.tiled(o), out) <= 3e-6);
  for (size_t i = 0; i < a.n; ++i)
    for (size_t c = 0; c < a.heads * a.dv; ++c) {
      const size_t h = c / a.dv;
      double sum = 0;
      for (size_t j = 0; j < a.m; ++j)
        sum += double(weights[(h * a.n + i) * a.m + j]) * double(a.v[j * a.heads * a.dv + c]);
      RC_ASSERT(std::abs(sum - double(out[i * a.heads * a.dv + c])) <= 3e-6);
    }
}

RC_GTEST_PROP(AttentionProperties, PermutingKeysAndValuesPermutesTheWeightsAndKeepsTheOutput, ()) {
  Any a;
  Any b = a;
  std::vector<size_t> to(a.m);
  for (size_t j = 0; j < a.m; ++j) to[j] = j;
  Random random(a.seed);
  for (size_t j = a.m; j > 1; --j) std::swap(to[j - 1], to[random.below(uint32_t(j))]);
  const auto move_row = [&](const std::vector<float>& from, std::vector<float>& into, size_t width,
                            size_t j) {
    std::copy_n(from.begin() + ptrdiff_t(j * width), width, into.begin() + ptrdiff_t(to[j] * width));
  };
  for (size_t j = 0; j < a.m; ++j) {
    move_row(a.k, b.k, a.heads * a.d, j);
    move_row(a.v, b.v, a.heads * a.dv, j);
  }
  const auto x = a.exact(), y = b.exact();
  for (size_t r = 0; r < a.heads * a.n; ++r)
    for (size_t j = 0; j < a.m; ++j)
      RC_ASSERT(std::abs(x.weights[r * a.m + j] - y.weights[r * a.m + to[j]]) <= 1e-6f);
  RC_ASSERT(worst(x.out, y.out) <= 3e-6);
  RC_ASSERT(worst(a.tiled(), b.tiled()) <= 3e-6);
}

RC_GTEST_PROP(AttentionProperties, LooksThatHideNothingAreFullToTheBit, ()) {
  Any a;
  const size_t all = std::max(a.n, a.m);
  const std::vector<uint8_t> ones(a.n * a.m, 1);
  std::vector<int32_t> everyone(a.m);
  for (size_t j = 0; j < a.m; ++j) everyone[j] = int32_t(j);
  const Look looks[] = {Look::window(all), Look::mask({ones.data(), a.n, a.m}),
                        Look::window_and_global(0, everyone),
                        Look::big_bird({.block = all, .window = 1, .global = 0, .random = 0})};
  for (const Look& look : looks) {
    RC_ASSERT(test::same_bits(a.tiled(), a.tiled({.look = look})));
    const auto x = a.exact(), y = a.exact({.look = look});
    RC_ASSERT(test::same_bits(x.out, y.out));
    RC_ASSERT(test::same_bits(x.weights, y.weights));
  }
}

RC_GTEST_PROP(AttentionProperties, CausalIsAWindowWithoutAnEndBefore, ()) {
  Any a;
  Look causal = Look::causal(), window = Look::window(a.n + a.m, 0);
  causal.queries_at_end = window.queries_at_end = *rc::gen::arbitrary<bool>();
  RC_ASSERT(test::same_bits(a.tiled({.look = causal}), a.tiled({.look = window})));
}

// Later keys and values, also NaN and Inf, leave no trace in the rows before them.
RC_GTEST_PROP(AttentionProperties, ARowWithCausalLookIsUntouchedByLaterKeys, ()) {
  Any a;
  const size_t from = *rc::gen::inRange<size_t>(0, a.m);
  const float poison = *rc::gen::element(5.0f, kNaN, kInf, -kInf);
  Any b = a;
  std::fill(b.k.begin() + ptrdiff_t(from * a.heads * a.d), b.k.end(), poison);
  std::fill(b.v.begin() + ptrdiff_t(from * a.heads * a.dv), b.v.end(), poison);
  const Compute computes[] = {Compute::softmax(), Compute::linear(), Compute::performer({.features = 16})};
  for (const Compute& compute : computes) {
    const AttentionOptions o{.look = Look::causal(), .compute = compute};
    const auto x = a.tiled(o), y = b.tiled(o);
    for (size_t i = 0; i < std::min(from, a.n); ++i) RC_ASSERT(test::same_bits(a.row(x, i), a.row(y, i)));
  }
  const auto x = a.exact({.look = Look::causal()}), y = b.exact({.look = Look::causal()});
  for (size_t i = 0; i < std::min(from, a.n); ++i)
    RC_ASSERT(test::same_bits(a.row(x.out, i), a.row(y.out, i)));
}

// For any look: a key that nobody of a row sees may be anything.
RC_GTEST_PROP(AttentionProperties, AKeyThatIsNotSeenMayHoldNaN, ()) {
  Any a;
  const Look look = a.look();
  const auto clean = a.exact({.look = look});
  const auto clean_tiled = a.tiled({.look = look});
  const size_t j = *rc::gen::inRange<size_t>(0, a.m);
  std::fill_n(a.k.begin() + ptrdiff_t(j * a.heads * a.d), a.heads * a.d, kNaN);
  std::fill_n(a.v.begin() + ptrdiff_t(j * a.heads * a.dv), a.heads * a.dv, kNaN);
  const auto exact = a.exact({.look = look});
  const auto tiled = a.tiled({.look = look});
  for (size_t i = 0; i < a.n; ++i) {
    for (size_t h = 0; h < a.heads; ++h) {
      const bool seen = clean.weights[(h * a.n + i) * a.m + j] > 0;
      const auto part = [&](const std::vector<float>& out) { return a.row(out, i).subspan(h * a.dv, a.dv); };
      RC_ASSERT((seen ? all_nan(part(exact.out)) : bool(test::same_bits(part(exact.out), part(clean.out)))));
      RC_ASSERT((seen ? all_nan(part(tiled)) : bool(test::same_bits(part(tiled), part(clean_tiled)))));
    }
  }
}

RC_GTEST_PROP(AttentionProperties, NaNInAQueryStaysInItsRow, ()) {
  Any a;
  const Look look = a.look();
  const auto clean = a.exact({.look = look});
  const auto clean_tiled = a.tiled({.look = look});
  const size_t i = *rc::gen::inRange<size_t>(0, a.n);
  std::fill_n(a.q.begin() + ptrdiff_t(i * a.heads * a.d), a.heads * a.d, kNaN);
  const auto exact = a.exact({.look = look});
  const auto tiled = a.tiled({.look = look});
  for (size_t r = 0; r < a.n; ++r) {
    if (r == i) continue;
    RC_ASSERT(test::same_bits(a.row(exact.out, r), a.row(clean.out, r)));
    RC_ASSERT(test::same_bits(a.row(tiled, r), a.row(clean_tiled, r)));
  }
  for (size_t h = 0; h < a.heads; ++h) {  // NaN for every head that sees a key, else zeros
    double sum = 0;
    for (size_t j = 0; j < a.m; ++j) sum += clean.weights[(h * a.n + i) * a.m + j];
    const auto e = a.row(exact.out, i).subspan(h * a.dv, a.dv), t = a.row(tiled, i).subspan(h * a.dv, a.dv);
    RC_ASSERT((sum > 0 ? all_nan(e) && all_nan(t) : e[0] == 0 && t[0] == 0));
  }
}

RC_GTEST_PROP(AttentionProperties, AScoreOfMinusInfinityWeighsNothing, ()) {
  Any a;
  RC_PRE(a.m > 1u);
  for (float& x : a.q) x = std::abs(x) + 0.1f;
  const size_t j = *rc::gen::inRange<size_t>(0, a.m);
  std::fill_n(a.k.begin() + ptrdiff_t(j * a.heads * a.d), a.heads * a.d, -kInf);
  std::vector<uint8_t> others(a.n * a.m, 1);
  for (size_t i = 0; i < a.n; ++i) others[i * a.m + j] = 0;
  const auto x = a.exact();
  for (size_t r = 0; r < a.heads * a.n; ++r) RC_ASSERT(x.weights[r * a.m + j] == 0.0f);
  const AttentionOptions without{.look = Look::mask({others.data(), a.n, a.m})};
  RC_ASSERT(worst(x.out, a.exact(without).out) <= 1e-6);
  RC_ASSERT(worst(a.tiled(), a.tiled(without)) <= 1e-6);
}

RC_GTEST_PROP(AttentionProperties, ScoresOfTenThousandStayFinite, ()) {
  Any a;
  const Look look = a.look();
  for (float& x : a.q) x *= 100;
  for (float& x : a.k) x *= 100;
  const auto x = a.exact({.look = look});
  RC_ASSERT((all_finite(x.out) && all_finite(x.weights) && all_finite(a.tiled({.look = look}))));
}

RC_GTEST_PROP(AttentionProperties, ARowThatSeesNothingGivesZerosAndGetsNoGradient, ()) {
  Any a;
  const Look look = a.look();
  AttentionOptions o{.heads = a.heads, .look = look};
  std::vector<float> out(a.n * a.heads * a.dv, kNaN), dq(a.q.size(), kNaN), dk(a.k.size(), kNaN),
      dv(a.v.size(), kNaN), weights(a.heads * a.n * a.m);
  std::vector<float> d_out = test::random_floats(out.size(), 9);
  attention(a.queries(), a.keys(), a.values(), {out.data(), a.n, a.heads * a.dv}, weights, o);
  // What comes back to a blind query goes nowhere, however large. (Where all heads are blind, for
  // simplicity.)
  std::vector<bool> blind(a.n);
  for (size_t i = 0; i < a.n; ++i) {
    blind[i] = true;
    for (size_t j = 0; j < a.m; ++j) blind[i] = blind[i] && !looks_at(a, weights, i, j);
    if (!blind[i]) continue;
    for (float x : a.row(out, i)) RC_ASSERT(x == 0.0f);
    std::fill_n(d_out.begin() + ptrdiff_t(i * a.heads * a.dv), a.heads * a.dv, 1e30f);
  }
  AttentionSaved saved;
  attention(a.queries(), a.keys(), a.values(), {out.data(), a.n, a.heads * a.dv}, saved, o);
  attention_backward(a.queries(), a.keys(), a.values(), {out.data(), a.n, a.heads * a.dv}, saved,
                     {d_out.data(), a.n, a.heads * a.dv},
                     {.q = {dq.data(), a.n, a.heads * a.d},
                      .k = {dk.data(), a.m, a.heads * a.d},
                      .v = {dv.data(), a.m, a.heads * a.dv}},
                     o);
  for (const auto* gradient : {&dq, &dk, &dv})
    for (float x : *gradient) RC_ASSERT(std::abs(x) < 1e6f);
  for (size_t i = 0; i < a.n; ++i)
    for (size_t c = 0; c < a.heads * a.d && blind[i]; ++c) RC_ASSERT(dq[i * a.heads * a.d + c] == 0.0f);
  for (size_t j = 0; j < a.m; ++j) {  // nor does a key that nobody sees
    bool seen = false;
    for (size_t i = 0; i < a.n; ++i) seen = seen || looks_at(a, weights, i, j);
    for (size_t c = 0; c < a.heads * a.dv && !seen; ++c) RC_ASSERT(dv[j * a.heads * a.dv + c] == 0.0f);
  }
}

RC_GTEST_PROP(AttentionProperties, OneKeyIsWhatEveryoneGets, ()) {
  Any a;
  a.m = 1;
  a.draw();
  const Compute computes[] = {Compute::softmax(), Compute::linear(), Compute::performer({.features = 8}),
                              Compute::nystrom({.landmarks = 4})};
  for (const Compute& compute : computes) {
    const auto out = a.tiled({.compute = compute});
    for (size_t i = 0; i < a.n; ++i) RC_ASSERT(worst(a.row(out, i), a.v) <= 1e-5);
  }
  for (float w : a.exact().weights) RC_ASSERT(std::abs(w - 1) <= 0x1p-23f);  // x·(1/x)
}

TEST(AttentionProperties, NothingToLookAtGivesZerosByEveryComputation) {
  Any a(4);
  a.m = 0;
  a.draw();
  const std::vector<float> e(3 * 8);
  const Matrix<const float> p(e.data(), 3, 8);
  for (const Compute& compute : {Compute::softmax(), Compute::linear(), Compute::performer({.features = 8}),
                                 Compute::linformer(p, p), Compute::nystrom()})
    for (float x : a.tiled({.compute = compute})) EXPECT_EQ(x, 0.0f);
  a.n = 0;
  a.draw();
  for (const Compute& compute : {Compute::softmax(), Compute::linear(), Compute::performer({.features = 8}),
                                 Compute::linformer(p, p), Compute::nystrom()})
    EXPECT_TRUE(a.tiled({.compute = compute}).empty());
}

TEST(AttentionProperties, DropoutKeepsTheMeanAndDropsItsShare) {
  Any a(200);
  for (float& x : a.v) x = 1;
  const auto [out, weights] = a.exact({.dropout = {.rate = 0.25f, .seed = 77}});
  size_t dropped = 0;
  double mean = 0;
  for (float w : weights) dropped += w == 0;
  for (float x : out) mean += double(x) / double(out.size());
  EXPECT_NEAR(double(dropped) / double(weights.size()), 0.25, 0.006);  // standard deviation 0.0015
  EXPECT_NEAR(mean, 1, 0.02);
}

TEST(AdaptiveSpanPenalty, IsTheMeanSpanTimesLambdaAndAddsItsGradient) {
  const float spans[] = {1, 2.5f, 0, 8};
  float gradient[] = {0, 1, 2, 3};
  EXPECT_FLOAT_EQ(adaptive_span_penalty(spans, 0.5f), 0.5f / 4 * 11.5f);
  EXPECT_FLOAT_EQ(adaptive_span_penalty(spans, 0.5f, gradient), 0.5f / 4 * 11.5f);
  for (size_t h = 0; h < 4; ++h) EXPECT_FLOAT_EQ(gradient[h], float(h) + 0.125f);
  EXPECT_EQ(adaptive_span_penalty({}, 0.5f), 0.0f);
}

}  // namespace
}  // namespace bertie
