#pragma once
// How much a score depends on which rows happened to be in the data.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bertie::metrics {

// How often each of `rows` rows is drawn in resample number `number`: rows draws with replacement. The same
// seed draws the same rows everywhere.
void draw_resample(uint64_t seed, uint64_t number, std::span<uint32_t> weights);

// The value below which this share of them lies, between neighbors in proportion, as numpy.percentile; those
// that are NaN do not count, and NaN where none is left. Sorts them.
double percentile(std::vector<double>& values, double share);

struct Interval {
  double low, high;
};
Interval percentile_interval(std::vector<double>& values, double confidence);

// McNemar's exact test, two-sided: how likely `only_a` and `only_b` rows would be so far from half and half
// if both models were equally good.
double mcnemar(size_t only_a, size_t only_b);

}  // namespace bertie::metrics
