#include "train/metrics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"

namespace bertie::metrics {

void draw_resample(uint64_t seed, uint64_t number, std::span<uint32_t> weights) {
  Random random(seed, number);
  std::fill(weights.begin(), weights.end(), 0u);
  for (size_t i = 0; i < weights.size(); ++i) ++weights[random.below(uint32_t(weights.size()))];
}

double percentile(std::vector<double>& values, double share) {
  std::erase_if(values, [](double x) { return std::isnan(x); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const double place = share * double(values.size() - 1);
  const auto below = size_t(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - double(below));
}

Interval percentile_interval(std::vector<double>& values, double confidence) {
  return {percentile(values, (1 - confidence) / 2), percentile(values, (1 + confidence) / 2)};
}

double mcnemar(size_t only_a, size_t only_b) {
  const size_t fewer = std::min(only_a, only_b);
  const long double n = (long double)(only_a + only_b);
  // Twice the sum of C(n, k) / 2ⁿ for k up to the smaller of the two.
  long double sum = 0;
  for (size_t k = 0; k <= fewer; ++k) {
    const auto of = (long double)k;
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(of + 1) - std::lgamma(n - of + 1) - n * std::log(2.0L));
  }
  return double(std::min(1.0L, 2 * sum));
}

}  // namespace bertie::metrics
