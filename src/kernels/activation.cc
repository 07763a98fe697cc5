#include "kernels/activation.h"

#include <algorithm>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
void activation_forward(Activation f, std::span<float> x) {
  activate_rows(f, x.data(), 1, x.size(), x.size());
}

// dy becomes dy·f'(x); y = f(x), if there is a place.
template <Activation f>
HWY_INLINE void backward_row(std::span<const float> x, float* dy, float* y) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t n = x.size(), lanes = hn::Lanes(d);
  size_t i = 0;
  // Two vectors at a time: the polynomials are chains of dependent steps.
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = hn::LoadU(d, x.data() + i), b = hn::LoadU(d, x.data() + i + lanes);
    const V da = derivative<f>(d, a), db = derivative<f>(d, b);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), da), d, dy + i);
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i + lanes), db), d, dy + i + lanes);
    if (!y) continue;
    hn::StoreU(activate<f>(d, a), d, y + i);
    hn::StoreU(activate<f>(d, b), d, y + i + lanes);
  }
  for (; i < n; i += lanes) {
    const size_t count = std::min(lanes, n - i);
    HWY_ALIGN float in[hn::MaxLanes(hn::ScalableTag<float>())] = {};
    HWY_ALIGN float out[hn::MaxLanes(hn::ScalableTag<float>())];
    std::copy_n(x.data() + i, count, in);
    const V v = hn::Load(d, in);
    hn::Store(derivative<f>(d, v), d, out);
    for (size_t j = 0; j < count; ++j) dy[i + j] *= out[j];
    if (!y) continue;
    hn::Store(activate<f>(d, v), d, out);
    std::copy_n(out, count, y + i);
  }
}

void activation_backward(Activation f, std::span<const float> x, float* dy, float* y) {
  switch (f) {
    case Activation::kNone:
      return backward_row<Activation::kNone>(x, dy, y);
    case Activation::kGelu:
      return backward_row<Activation::kGelu>(x, dy, y);
    case Activation::kGeluTanh:
      return backward_row<Activation::kGeluTanh>(x, dy, y);
    case Activation::kRelu:
      return backward_row<Activation::kRelu>(x, dy, y);
    case Activation::kSilu:
      return backward_row<Activation::kSilu>(x, dy, y);
    case Activation::kTanh:
      return backward_row<Activation::kTanh>(x, dy, y);
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {
HWY_EXPORT(activation_forward);
HWY_EXPORT(activation_backward);

void activation_forward(Activation f, std::span<float> x) { HWY_DYNAMIC_DISPATCH(activation_forward)(f, x); }

void activation_backward(Activation f, Matrix<const float> x, Matrix<float> dy, Matrix<float> y, Team& team) {
  if (dy.empty() || (f == Activation::kNone && (y.empty() || y.data() == x.data()))) return;
  const size_t chunk_rows = std::max<size_t>(1, 8192 / x.cols());
  const auto backward = HWY_DYNAMIC_DISPATCH(activation_backward);
  team.parallel_for((x.rows() + chunk_rows - 1) / chunk_rows, [&](size_t chunk) {
    for (size_t t = chunk * chunk_rows; t < std::min(x.rows(), (chunk + 1) * chunk_rows); ++t)
      backward(f, x[t], dy.row(t), y.empty() ? nullptr : y.row(t));
  });
}

}  // namespace bertie::kernels
#endif
