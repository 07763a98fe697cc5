#pragma once
// Numbers against numbers: how well a regression's go with the right ones. Row i counts weights[i] times.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bertie::metrics {

// Pearson's r. NaN where either side is constant, or there are fewer than two rows.
double pearson(std::span<const double> x, std::span<const double> y, std::span<const uint32_t> weights);

// The places of x in ascending order, for ranks().
std::vector<size_t> ascending(std::span<const double> x);
// Each value's rank from 1 on; equal values share the mean of theirs. Rows of weight 0 take no rank.
std::vector<double> ranks(std::span<const double> x, std::span<const size_t> order,
                          std::span<const uint32_t> weights);

double mean_squared_error(std::span<const double> x, std::span<const double> y,
                          std::span<const uint32_t> weights);
// 1 − the squared error over that of who always says y's mean: 1 is perfect; NaN where y is constant.
double r2(std::span<const double> x, std::span<const double> y, std::span<const uint32_t> weights);

}  // namespace bertie::metrics
