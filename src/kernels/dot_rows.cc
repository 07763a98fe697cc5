#include "kernels/dot_rows.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dot_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V widened(const uint16_t* p) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(D(), hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE V widened(const int8_t* p) {
  const hn::Rebind<int8_t, D> byte;
  const hn::Rebind<int32_t, D> word;
  return hn::ConvertTo(D(), hn::PromoteTo(word, hn::LoadU(byte, p)));
}

template <class Number>
HWY_INLINE float dot(const Number* row, std::span<const float> q) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = q.size();
  V a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::MulAdd(widened(row + i), hn::LoadU(d, &q[i]), a);
    b = hn::MulAdd(widened(row + i + lanes), hn::LoadU(d, &q[i + lanes]), b);
    c = hn::MulAdd(widened(row + i + 2 * lanes), hn::LoadU(d, &q[i + 2 * lanes]), c);
    e = hn::MulAdd(widened(row + i + 3 * lanes), hn::LoadU(d, &q[i + 3 * lanes]), e);
  }
  for (; i + lanes <= n; i += lanes) a = hn::MulAdd(widened(row + i), hn::LoadU(d, &q[i]), a);
  if (i < n) {
    Number numbers[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
    std::copy_n(row + i, n - i, numbers);
    std::copy_n(&q[i], n - i, rest);
    a = hn::MulAdd(widened(numbers), hn::Load(d, rest), a);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

void dot_rows_f16(const uint16_t* rows, std::span<const float> q, std::span<float> scores) {
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = dot(rows + i * q.size(), q);
}

void dot_rows_i8(const int8_t* rows, const float* scales, std::span<const float> q, std::span<float> scores) {
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = scales[i] * dot(rows + i * q.size(), q);
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {
HWY_EXPORT(dot_rows_f16);
HWY_EXPORT(dot_rows_i8);

void dot_rows_f16(const uint16_t* rows, std::span<const float> q, std::span<float> scores) {
  HWY_DYNAMIC_DISPATCH(dot_rows_f16)(rows, q, scores);
}
void dot_rows_i8(const int8_t* rows, const float* scales, std::span<const float> q, std::span<float> scores) {
  HWY_DYNAMIC_DISPATCH(dot_rows_i8)(rows, scales, q, scores);
}

}  // namespace bertie::kernels
#endif
