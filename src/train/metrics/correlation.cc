#include "train/metrics/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace bertie::metrics {
namespace {

bool constant(std::span<const double> x, std::span<const uint32_t> weights) {
  const double* first = nullptr;
  for (size_t i = 0; i < x.size(); ++i) {
    if (weights[i] == 0) continue;
    if (first && x[i] != *first) return false;
    first = &x[i];
  }
  return true;
}

double mean(std::span<const double> x, std::span<const uint32_t> weights) {
  double sum = 0, rows = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += weights[i] * x[i], rows += weights[i];
  return sum / rows;
}

}  // namespace

double pearson(std::span<const double> x, std::span<const double> y, std::span<const uint32_t> weights) {
  if (constant(x, weights) || constant(y, weights)) return std::numeric_limits<double>::quiet_NaN();
  const double mean_x = mean(x, weights), mean_y = mean(y, weights);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += weights[i] * dx * dx, yy += weights[i] * dy * dy, xy += weights[i] * dx * dy;
  }
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

std::vector<size_t> ascending(std::span<const double> x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
  return order;
}

std::vector<double> ranks(std::span<const double> x, std::span<const size_t> order,
                          std::span<const uint32_t> weights) {
  std::vector<double> out(x.size());
  double before = 0;
  for (size_t first = 0, last; first < order.size(); first = last) {
    double rows = 0;
    for (last = first; last < order.size() && x[order[last]] == x[order[first]]; ++last)
      rows += weights[order[last]];
    for (size_t i = first; i < last; ++i) out[order[i]] = before + (rows + 1) / 2;
    before += rows;
  }
  return out;
}

double mean_squared_error(std::span<const double> x, std::span<const double> y,
                          std::span<const uint32_t> weights) {
  double sum = 0, rows = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += weights[i] * (x[i] - y[i]) * (x[i] - y[i]), rows += weights[i];
  return sum / rows;
}

double r2(std::span<const double> x, std::span<const double> y, std::span<const uint32_t> weights) {
  double mean = 0, rows = 0, least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < y.size(); ++i) {
    mean += weights[i] * y[i], rows += weights[i];
    if (weights[i] > 0) least = std::min(least, y[i]), most = std::max(most, y[i]);
  }
  if (!(least < most)) return NAN;
  const std::vector<double> means(y.size(), mean / rows);
  return 1 - mean_squared_error(x, y, weights) / mean_squared_error(means, y, weights);
}

}  // namespace bertie::metrics
