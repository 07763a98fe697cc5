#include "kernels/optimize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimize.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef BERTIE_OPTIMIZE_ONCE
#define BERTIE_OPTIMIZE_ONCE
namespace bertie::kernels {

// A step's numbers as every element meets them.
struct AdamFactors {
  float scale, beta1_rest, beta2, beta2_rest, root_correction2, eps;
  float shrink;     // Adam: 1 − rate·decay
  float step_size;  // Adam: rate·c₁
  float decay, correction1;
};

struct UpdatePiece {
  float *p, *g, *m, *v;
  size_t count;
};

struct Squares {
  double parameters = 0, update = 0;
};

}  // namespace bertie::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Calls body(i, lanes): whole vectors, and what is left at the end.
template <class Body>
HWY_INLINE void for_vectors(size_t count, const Body& body) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, lanes);
  if (i < count) body(i, count - i);
}

HWY_INLINE V load(const float* from, size_t n) {
  const D d;
  if (n == hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN float some[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(some, from, n * sizeof(float));
  return hn::Load(d, some);
}

HWY_INLINE void store(V x, float* to, size_t n) {
  const D d;
  if (n == hn::Lanes(d)) return hn::StoreU(x, d, to);
  HWY_ALIGN float some[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(x, d, some);
  std::memcpy(to, some, n * sizeof(float));
}

// m / (√v·√c₂ + eps), with the moments moved by this step's gradient.
HWY_INLINE V adam_direction(const AdamFactors& f, const UpdatePiece& a, size_t i, size_t n) {
  const D d;
  const V g = hn::Mul(load(a.g + i, n), hn::Set(d, f.scale));
  const V m0 = load(a.m + i, n), v0 = load(a.v + i, n);
  const V m = hn::MulAdd(hn::Set(d, f.beta1_rest), hn::Sub(g, m0), m0);
  const V v = hn::MulAdd(hn::Mul(hn::Set(d, f.beta2_rest), g), g, hn::Mul(hn::Set(d, f.beta2), v0));
  store(m, a.m + i, n);
  store(v, a.v + i, n);
  const V root = hn::MulAdd(hn::Sqrt(v), hn::Set(d, f.root_correction2), hn::Set(d, f.eps));
  return hn::Div(m, root);
}

void adam_piece(const AdamFactors& f, const UpdatePiece& a) {
  const D d;
  for_vectors(a.count, [&](size_t i, size_t n) HWY_ATTR {
    const V direction = adam_direction(f, a, i, n);
    const V p = hn::Mul(load(a.p + i, n), hn::Set(d, f.shrink));
    store(hn::NegMulAdd(hn::Set(d, f.step_size), direction, p), a.p + i, n);
    store(hn::Zero(d), a.g + i, n);
  });
}

void mean_piece(float share, const float* p, float* mean, size_t count) {
  const D d;
  for_vectors(count, [&](size_t i, size_t n) HWY_ATTR {
    const V before = load(mean + i, n);
    store(hn::MulAdd(hn::Set(d, share), hn::Sub(load(p + i, n), before), before), mean + i, n);
  });
}

// Σ x², four sums at a time, because one alone would wait for its own last addition.
double squares_piece(const float* x, size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto squared = [&](const float* from, auto before) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(narrow, from));
    return hn::MulAdd(v, v, before);
  };
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = squared(x + i, s0), s1 = squared(x + i + lanes, s1);
    s2 = squared(x + i + 2 * lanes, s2), s3 = squared(x + i + 3 * lanes, s3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) sum += double(x[i]) * double(x[i]);
  return sum;
}

// The first half of a LAMB step: u, which takes the gradients' place, and the squares of p and u.
void lamb_piece(const AdamFactors& f, const UpdatePiece& a, Squares& squares) {
  const D d;
  for_vectors(a.count, [&](size_t i, size_t n) HWY_ATTR {
    const V p = load(a.p + i, n);
    const V direction = hn::Mul(adam_direction(f, a, i, n), hn::Set(d, f.correction1));
    const V u = hn::MulAdd(hn::Set(d, f.decay), p, direction);
    store(u, a.g + i, n);
  });
  squares = {squares_piece(a.p, a.count), squares_piece(a.g, a.count)};
}

// The second: p −= factor·u.
void lamb_apply(float factor, const UpdatePiece& a) {
  const D d;
  for_vectors(a.count, [&](size_t i, size_t n) HWY_ATTR {
    store(hn::NegMulAdd(hn::Set(d, factor), load(a.g + i, n), load(a.p + i, n)), a.p + i, n);
    store(hn::Zero(d), a.g + i, n);
  });
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(adam_piece);
HWY_EXPORT(lamb_piece);
HWY_EXPORT(lamb_apply);
HWY_EXPORT(mean_piece);
HWY_EXPORT(squares_piece);

namespace {

// Pieces that go to threads. Few enough for their sums to have a place on the stack.
struct Runs {
  static constexpr size_t kMost = 512, kLeast = size_t{1} << 14;
  explicit Runs(size_t n)
      : count(n),
        size(std::max(kLeast, ((n + kMost - 1) / kMost + 63) / 64 * 64)),
        chunks((n + size - 1) / size) {}
  size_t first(size_t chunk) const { return chunk * size; }
  size_t length(size_t chunk) const { return std::min(size, count - first(chunk)); }
  size_t count, size, chunks;
};

AdamFactors factors_of(const AdamStep& s) {
  return {.scale = float(s.scale),
          .beta1_rest = float(1 - s.beta1),
          .beta2 = float(s.beta2),
          .beta2_rest = float(1 - s.beta2),
          .root_correction2 = float(std::sqrt(s.correction2)),
          .eps = float(s.eps),
          .shrink = float(1 - s.rate * s.decay),
          .step_size = float(s.rate * s.correction1),
          .decay = float(s.decay),
          .correction1 = float(s.correction1)};
}

}  // namespace

void adam_update(const AdamStep& step, std::span<float> p, std::span<float> g, std::span<float> m,
                 std::span<float> v, Team& team) {
  const AdamFactors f = factors_of(step);
  const Runs runs(p.size());
  const auto piece = HWY_DYNAMIC_DISPATCH(adam_piece);
  team.parallel_for(runs.chunks, [&](size_t c) {
    const size_t i = runs.first(c);
    piece(f, {&p[i], &g[i], &m[i], &v[i], runs.length(c)});
  });
}

void lamb_update(const AdamStep& step, std::span<float> p, std::span<float> g, std::span<float> m,
                 std::span<float> v, Team& team) {
  const AdamFactors f = factors_of(step);
  const Runs runs(p.size());
  const auto piece = HWY_DYNAMIC_DISPATCH(lamb_piece);
  const auto apply = HWY_DYNAMIC_DISPATCH(lamb_apply);
  std::array<Squares, Runs::kMost> squares;
  team.parallel_for(runs.chunks, [&](size_t c) {
    const size_t i = runs.first(c);
    piece(f, {&p[i], &g[i], &m[i], &v[i], runs.length(c)}, squares[c]);
  });
  Squares sum;
  for (size_t c = 0; c < runs.chunks; ++c)
    sum.parameters += squares[c].parameters, sum.update += squares[c].update;
  const double ratio = sum.parameters > 0 && sum.update > 0 ? std::sqrt(sum.parameters / sum.update) : 1;
  team.parallel_for(runs.chunks, [&](size_t c) {
    const size_t i = runs.first(c);
    apply(float(step.rate * ratio), {&p[i], &g[i], &m[i], &v[i], runs.length(c)});
  });
}

void move_mean(float share, std::span<const float> p, std::span<float> mean, Team& team) {
  const Runs runs(p.size());
  const auto piece = HWY_DYNAMIC_DISPATCH(mean_piece);
  team.parallel_for(runs.chunks, [&](size_t c) {
    const size_t i = runs.first(c);
    piece(share, &p[i], &mean[i], runs.length(c));
  });
}

double sum_of_squares(std::span<const float> x, Team& team) {
  const Runs runs(x.size());
  const auto piece = HWY_DYNAMIC_DISPATCH(squares_piece);
  std::array<double, Runs::kMost> sums;
  team.parallel_for(runs.chunks,
                    [&](size_t c) { sums[c] = piece(x.data() + runs.first(c), runs.length(c)); });
  double sum = 0;
  for (size_t c = 0; c < runs.chunks; ++c) sum += sums[c];
  return sum;
}

void clear(std::span<float> x, Team& team) {
  const Runs runs(x.size());
  team.parallel_for(runs.chunks, [&](size_t c) {
    std::memset(x.data() + runs.first(c), 0, runs.length(c) * sizeof(float));
  });
}

}  // namespace bertie::kernels
#endif
