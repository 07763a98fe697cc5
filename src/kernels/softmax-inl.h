// Softmax over a row, in the pieces that attention needs too. Included once per instruction set.
#if defined(BERTIE_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_SOFTMAX_INL_H_
#undef BERTIE_KERNELS_SOFTMAX_INL_H_
#else
#define BERTIE_KERNELS_SOFTMAX_INL_H_
#endif

#include <limits>

#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// max(x[0..n-1]) over what is not NaN; −Inf if there is nothing. A NaN shows in exp_row's sum.
HWY_INLINE float row_max(const float* x, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), whole = n / lanes * lanes;
  auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < whole; i += lanes) best = hn::Max(hn::LoadU(d, x + i), best);
  float max = hn::GetLane(hn::MaxOfLanes(d, best));
  for (size_t i = whole; i < n; ++i)
    if (x[i] > max) max = x[i];
  return max;
}

// x = e^(x − max) in place; returns the sum. Adds in an order that depends on n only.
HWY_INLINE float exp_row(float* x, size_t n, float max) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, max);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = exp(d, hn::Sub(hn::LoadU(d, x + i), shift));
    const auto b = exp(d, hn::Sub(hn::LoadU(d, x + i + lanes), shift));
    hn::StoreU(a, d, x + i);
    hn::StoreU(b, d, x + i + lanes);
    sum0 = hn::Add(sum0, a);
    sum1 = hn::Add(sum1, b);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; i += lanes) {
    HWY_ALIGN float tail[hn::MaxLanes(hn::ScalableTag<float>())] = {};
    const size_t count = n - i < lanes ? n - i : lanes;
    for (size_t j = 0; j < count; ++j) tail[j] = x[i + j];
    hn::Store(exp(d, hn::Sub(hn::Load(d, tail), shift)), d, tail);
    for (size_t j = 0; j < count; ++j) sum += x[i + j] = tail[j];
  }
  return sum;
}

// Over whole panels of 32: x = f(x) in place; returns the sum. A panel of zeros changes nothing, bit for bit,
// wherever it stands.
template <class F>
HWY_INLINE float apply_panels(float* x, size_t n, const F& f) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>()), kVectors = 32 / kLanes;
  V sum[kVectors];
  for (size_t v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (size_t i = 0; i < n; i += 32)
    for (size_t v = 0; v < kVectors; ++v) {
      const V y = f(hn::LoadU(d, x + i + v * kLanes));
      hn::StoreU(y, d, x + i + v * kLanes);
      sum[v] = hn::Add(sum[v], y);
    }
  for (size_t v = 1; v < kVectors; ++v) sum[0] = hn::Add(sum[0], sum[v]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

// 2^(x − max), max being the largest of them or more.
HWY_INLINE float exp2_panels(float* x, size_t n, float max) {
  const hn::ScalableTag<float> d;
  const auto shift = hn::Set(d, max);
  return apply_panels(x, n, [&](hn::Vec<decltype(d)> v) HWY_ATTR { return exp2(d, hn::Sub(v, shift)); });
}

// 2^x for −127 ≤ x ≤ 127.
HWY_INLINE float exp2_panels(float* x, size_t n) {
  const hn::ScalableTag<float> d;
  return apply_panels(x, n, [&](hn::Vec<decltype(d)> v) HWY_ATTR { return exp2_bounded(d, v); });
}

HWY_INLINE float max_panels(const float* x, size_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>()), kVectors = 32 / kLanes;
  V best[kVectors];
  for (size_t v = 0; v < kVectors; ++v) best[v] = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < n; i += 32)
    for (size_t v = 0; v < kVectors; ++v) best[v] = hn::Max(hn::LoadU(d, x + i + v * kLanes), best[v]);
  for (size_t v = 1; v < kVectors; ++v) best[0] = hn::Max(best[0], best[v]);
  return hn::GetLane(hn::MaxOfLanes(d, best[0]));
}

HWY_INLINE void scale_row(float* x, size_t n, float factor) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), f), d, x + i);
  for (; i < n; ++i) x[i] *= factor;
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
