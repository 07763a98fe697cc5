#include "kernels/cross_entropy.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

LossSum cross_entropy_row(std::span<float> z, int32_t target, float scale, bool gradient) {
  if (target < 0) {
    if (gradient) std::fill(z.begin(), z.end(), 0.0f);
    return {};
  }
  const float max = row_max(z.data(), z.size()), at_target = z[size_t(target)];
  double sum = 0;
  HWY_ALIGN float beside[256];
  for (size_t j = 0; j < z.size(); j += std::size(beside)) {
    const size_t count = std::min(std::size(beside), z.size() - j);
    if (!gradient) std::copy_n(z.data() + j, count, beside);
    sum += double(exp_row(gradient ? z.data() + j : beside, count, max));
  }
  if (gradient) {
    scale_row(z.data(), z.size(), float(double(scale) / sum));
    z[size_t(target)] -= scale;
  }
  return {.loss = std::log(sum) + (double(max) - double(at_target)),
          .count = 1,
          .right = at_target >= max && !std::isnan(sum)};
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(cross_entropy_row);

LossSum cross_entropy(Matrix<float> logits, std::span<const int32_t> targets, float scale, bool gradient,
                      Team& team) {
  assert(targets.size() == logits.rows());
  const size_t rows = logits.rows();
  std::array<LossSum, 64> parts{};
  const size_t count = std::min(rows, parts.size());
  const auto row = HWY_DYNAMIC_DISPATCH(cross_entropy_row);
  team.parallel_for(count, [&](size_t part) {
    for (size_t t = part * rows / count; t < (part + 1) * rows / count; ++t) {
      assert(targets[t] < int32_t(logits.cols()));
      parts[part] += row(logits[t], targets[t], scale, gradient);
    }
  });
  LossSum sum;
  for (const LossSum& part : parts) sum += part;
  return sum;
}

}  // namespace bertie::kernels
#endif
