#include "kernels/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
void softmax_forward(std::span<float> x) {
  const float sum = exp_row(x.data(), x.size(), row_max(x.data(), x.size()));
  scale_row(x.data(), x.size(), 1.0f / sum);
}
}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {
HWY_EXPORT(softmax_forward);
void softmax_forward(std::span<float> x) {
  if (!x.empty()) HWY_DYNAMIC_DISPATCH(softmax_forward)(x);
}
}  // namespace bertie::kernels
#endif
