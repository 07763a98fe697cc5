#include "cli/commands/mechanisms.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "bertie/bench.h"

namespace bertie::cli {
namespace {

using Family = Mechanism::Family;

constexpr size_t kGlobalTokens = 16, kStride = 128, kSummary = 8;
constexpr size_t kAdditiveSize = 64, kFeatures = 256, kProjectedKeys = 256, kLandmarks = 64;
constexpr size_t kShortestSpan = 16, kLongestSpan = 1024;
constexpr float kSpanRamp = 32, kDropout = 0.1f;

void set_window_and_global(ReadyMechanism& r, const AttentionShape& s) {
  r.global_tokens.resize(std::min(kGlobalTokens, s.n));
  std::iota(r.global_tokens.begin(), r.global_tokens.end(), 0);
  r.options.look = Look::window_and_global(128, r.global_tokens);
}

void set_mask(ReadyMechanism& r, const AttentionShape& s) {
  r.mask.resize(r.table_bytes = s.n * s.n);
  std::minstd_rand random(5);
  for (uint8_t& seen : r.mask) seen = uint8_t(random() >> 8 & 1);
  r.options.look = Look::mask({r.mask.data(), s.n, s.n});
}

// Most heads look near and a few look far, as the paper finds.
void set_adaptive_span(ReadyMechanism& r, const AttentionShape& s) {
  for (size_t h = 0, span = kShortestSpan; h < s.heads; ++h) {
    r.spans.push_back(float(span));
    span = span == kLongestSpan ? kShortestSpan : 2 * span;
  }
  r.span_gradients.resize(s.heads);
  r.options.look = Look::adaptive_span(r.spans, kSpanRamp);
  r.gradients.spans = r.span_gradients;
}

void set_additive(ReadyMechanism& r, const AttentionShape& s) {
  const size_t rows = s.heads * kAdditiveSize;
  const float size = 1 / std::sqrt(float(s.head_size));
  r.options.score = Score::additive(r.random(rows, s.head_size, size), r.random(rows, s.head_size, size),
                                    r.random(s.heads, kAdditiveSize, 1));
  r.gradients.w1 = r.zeros(rows, s.head_size), r.gradients.w2 = r.zeros(rows, s.head_size);
  r.gradients.additive_v = r.zeros(s.heads, kAdditiveSize);
}

void set_general(ReadyMechanism& r, const AttentionShape& s) {
  r.options.score =
      Score::general(r.random(s.heads * s.head_size, s.head_size, 1 / std::sqrt(float(s.head_size))));
  r.gradients.w = r.zeros(s.heads * s.head_size, s.head_size);
}

void set_linformer(ReadyMechanism& r, const AttentionShape& s) {
  const float size = 1 / std::sqrt(float(s.n));
  r.options.compute =
      Compute::linformer(r.random(kProjectedKeys, s.n, size), r.random(kProjectedKeys, s.n, size));
  r.gradients.e = r.zeros(kProjectedKeys, s.n), r.gradients.f = r.zeros(kProjectedKeys, s.n);
}

void count_operations(const AttentionShape& s, ReadyMechanism& r) {
  const double rows = double(s.n) * double(s.heads), d = double(s.head_size);
  r.pairs = visible_pairs(r.options.look, s.heads, s.n);
  r.forward = 4 * d * r.pairs, r.backward = 10 * d * r.pairs;
  if (r.options.score.kind == Score::Kind::kGeneral) {
    r.forward += 2 * rows * d * d, r.backward += 4 * rows * d * d;
  } else if (r.options.score.kind == Score::Kind::kAdditive) {
    const double a = double(kAdditiveSize);
    r.forward = r.pairs * (4 * a + 2 * d) + 4 * rows * a * d;
    r.backward = r.pairs * (11 * a + 4 * d) + 8 * rows * a * d;
  }
  // Two products with each of the numbers that stand for the keys, and what makes those numbers.
  switch (r.options.compute.kind) {
    case Compute::Kind::kSoftmax:
      break;
    case Compute::Kind::kLinear:
      r.forward = 4 * rows * d * d, r.backward = 2 * r.forward;
      break;
    case Compute::Kind::kPerformer:
      r.forward = 8 * rows * d * double(kFeatures), r.backward = 12 * rows * d * double(kFeatures);
      break;
    case Compute::Kind::kLinformer:
      r.forward = 8 * rows * d * double(kProjectedKeys), r.backward = 18 * rows * d * double(kProjectedKeys);
      break;
    case Compute::Kind::kNystrom: {
      const double l = double(std::min(kLandmarks, s.n)), inverse = double(s.heads) * 6 * 8 * l * l * l;
      r.forward = 8 * rows * d * l + inverse, r.backward = 20 * rows * d * l + 2 * inverse;
    }
  }
}

}  // namespace

void fill_randomly(std::vector<float>& numbers, float size, size_t seed) {
  std::minstd_rand random(uint32_t(seed + 1));
  std::uniform_real_distribution<float> uniform(-size, size);
  for (float& x : numbers) x = uniform(random);
}

Matrix<float> ReadyMechanism::zeros(size_t rows, size_t cols) {
  return {memory.emplace_back(rows * cols).data(), rows, cols};
}

Matrix<float> ReadyMechanism::random(size_t rows, size_t cols, float size) {
  const Matrix<float> x = zeros(rows, cols);
  fill_randomly(memory.back(), size, memory.size());
  return x;
}

const std::vector<Mechanism>& mechanisms() {
  using R = ReadyMechanism;
  using S = AttentionShape;
  static const std::vector<Mechanism> table = {
      {"full", "every key, block by block", Family::kAllKeys, [](R&, const S&) {}},
      {"exact", "every key, and the weights returned", Family::kAllKeys,
       [](R& r, const S& s) {
         r.table_bytes = s.heads * s.n * s.n * sizeof(float);
         r.weights = r.memory.emplace_back(s.heads * s.n * s.n);
       },
       4096, false},
      {"causal", "keys up to the query", Family::kSomeKeys,
       [](R& r, const S&) { r.options.look = Look::causal(); }},
      {"window128", "128 keys on each side", Family::kSomeKeys,
       [](R& r, const S&) { r.options.look = Look::window(128); }},
      {"window256", "256 keys on each side", Family::kSomeKeys,
       [](R& r, const S&) { r.options.look = Look::window(256); }},
      {"window_and_global", "128 keys on each side, 16 global tokens", Family::kSomeKeys,
       set_window_and_global},
      {"big_bird", "blocks of 64: 3 around, 1 global, 3 random", Family::kSomeKeys,
       [](R& r, const S&) { r.options.look = Look::big_bird({}); }},
      {"strided", "the last 128 keys and every 128th before", Family::kSomeKeys,
       [](R& r, const S&) { r.options.look = Look::strided(kStride); }},
      {"fixed", "the block of 128, and 8 keys of each one before", Family::kSomeKeys,
       [](R& r, const S&) { r.options.look = Look::fixed(kStride, kSummary); }},
      {"mask", "half of the keys, at random", Family::kSomeKeys, set_mask, 4096},
      {"adaptive_span", "spans from 16 to 1024, one a head", Family::kSomeKeys, set_adaptive_span},
      {"dropout", "every key, 10% of the weights dropped", Family::kAllKeys,
       [](R& r, const S&) { r.options.dropout = {.rate = kDropout, .seed = 1}; }},
      {"additive", "tanh scores of size 64", Family::kAllKeys, set_additive, 2048},
      {"general", "scores through a matrix", Family::kAllKeys, set_general},
      {"linear", "elu + 1 in place of the exponential", Family::kApproximate,
       [](R& r, const S&) { r.options.compute = Compute::linear(); }},
      {"performer", "256 random features", Family::kApproximate,
       [](R& r, const S&) { r.options.compute = Compute::performer({.features = kFeatures}); }},
      {"linformer", "keys projected to 256", Family::kApproximate, set_linformer},
      {"nystrom", "64 landmarks", Family::kApproximate,
       [](R& r, const S&) { r.options.compute = Compute::nystrom({.landmarks = kLandmarks}); }},
  };
  return table;
}

const Mechanism& mechanism_named(std::string_view name) {
  return *std::find_if(mechanisms().begin(), mechanisms().end(),
                       [&](const Mechanism& m) { return m.name == name; });
}

std::vector<Choice> mechanism_choices() {
  std::vector<Choice> all;
  for (const Mechanism& m : mechanisms()) all.push_back({m.name, m.help});
  return all;
}

void make_ready(const Mechanism& mechanism, const AttentionShape& shape, ReadyMechanism& ready) {
  ready.options.heads = shape.heads;
  mechanism.set(ready, shape);
  count_operations(shape, ready);
}

}  // namespace bertie::cli
