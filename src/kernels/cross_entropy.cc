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

// z becomes scale·T·(q − p). Numbers divided by T go through a small buffer, in two passes over the row.
LossSum soft_cross_entropy_row(std::span<float> z, std::span<const float> t, float temperature, float scale) {
  constexpr size_t kBlock = 256;
  HWY_ALIGN float p[kBlock], q[kBlock];
  const float inverse = 1 / temperature, t_max = row_max(t.data(), t.size()),
              z_max = row_max(z.data(), z.size());
  const auto for_blocks = [&](const auto& use) {
    for (size_t j = 0; j < z.size(); j += kBlock) {
      const size_t count = std::min(kBlock, z.size() - j);
      for (size_t i = 0; i < count; ++i)
        p[i] = (t[j + i] - t_max) * inverse, q[i] = (z[j + i] - z_max) * inverse;
      use(j, count);
    }
  };
  double p_sum = 0, q_sum = 0;
  for_blocks([&](size_t, size_t count) {
    p_sum += double(exp_row(p, count, 0.0f)), q_sum += double(exp_row(q, count, 0.0f));
  });
  double cross = 0;
  const auto p_scale = float(1 / p_sum), q_scale = float(1 / q_sum);
  for_blocks([&](size_t j, size_t count) {
    HWY_ALIGN float difference[kBlock];
    for (size_t i = 0; i < count; ++i) difference[i] = p[i] - q[i];
    exp_row(p, count, 0.0f), exp_row(q, count, 0.0f);
    for (size_t i = 0; i < count; ++i) {
      cross += double(p[i] * p_scale) * double(difference[i]);
      z[j + i] = scale * temperature * (q[i] * q_scale - p[i] * p_scale);
    }
  });
  const double divergence = cross - std::log(p_sum) + std::log(q_sum);
  return {.loss = double(temperature) * double(temperature) * divergence, .count = 1};
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(soft_cross_entropy_row);

namespace {

// Rows in parts, each added up in order and the parts after them, whatever the team.
LossSum sum_over_rows(size_t rows, Team& team, const auto& row) {
  std::array<LossSum, 64> parts{};
  const size_t count = std::min(rows, parts.size());
  team.parallel_for(count, [&](size_t part) {
    for (size_t t = part * rows / count; t < (part + 1) * rows / count; ++t) parts[part] += row(t);
  });
  LossSum sum;
  for (const LossSum& part : parts) sum += part;
  return sum;
}

}  // namespace

LossSum cross_entropy(Matrix<float> logits, std::span<const int32_t> targets, float scale, bool gradient,
                      Team& team) {
  assert(targets.size() == logits.rows());
  const auto row = HWY_DYNAMIC_DISPATCH(cross_entropy_row);
  return sum_over_rows(logits.rows(), team, [&](size_t t) {
    assert(targets[t] < int32_t(logits.cols()));
    return row(logits[t], targets[t], scale, gradient);
  });
}

LossSum soft_cross_entropy(Matrix<float> logits, Matrix<const float> teacher, float temperature, float scale,
                           Team& team) {
  assert(teacher.rows() == logits.rows() && teacher.cols() == logits.cols());
  const auto row = HWY_DYNAMIC_DISPATCH(soft_cross_entropy_row);
  return sum_over_rows(logits.rows(), team, [&](size_t t) {
    const auto best = [](auto numbers) {
      return std::max_element(numbers.begin(), numbers.end()) - numbers.begin();
    };
    const bool right = best(logits[t]) == best(teacher[t]);
    LossSum sum = row(logits[t], teacher[t], temperature, scale);
    sum.right = right;
    return sum;
  });
}

}  // namespace bertie::kernels
#endif
