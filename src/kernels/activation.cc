#include "kernels/activation.h"

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
}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {
HWY_EXPORT(activation_forward);
void activation_forward(Activation f, std::span<float> x) { HWY_DYNAMIC_DISPATCH(activation_forward)(f, x); }
}  // namespace bertie::kernels
#endif
