#pragma once
// Numbers for tests: random ones that are the same everywhere, buffers that notice a stray write, and
// comparison bit by bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "bertie/view.h"
#include "core/random.h"

namespace bertie::test {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline std::vector<float> random_floats(size_t n, uint64_t seed, float low = -1, float high = 1) {
  Random random(seed);
  std::vector<float> values(n);
  for (float& x : values) x = low + (high - low) * random.uniform();
  return values;
}

inline std::vector<double> to_double(std::span<const float> x) { return {x.begin(), x.end()}; }

// n floats that begin `misalignment` floats after a 64-byte boundary, between two guards. Any write outside
// of them is seen by intact().
class Guarded {
 public:
  explicit Guarded(size_t n, size_t misalignment = 0) : n_(n), memory_(n + 2 * kGuard + kLine, guard()) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float);
    first_ = kGuard + (kLine - (address + kGuard) % kLine + misalignment) % kLine;
  }
  Guarded(std::span<const float> values, size_t misalignment) : Guarded(values.size(), misalignment) {
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return memory_.data() + first_; }
  std::span<float> span() { return {data(), n_}; }
  bool intact() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < first_ || i >= first_ + n_) && std::bit_cast<uint32_t>(memory_[i]) != kPattern) return false;
    return true;
  }

  // What a guard holds; also good for the gaps between strided rows.
  static float guard() { return std::bit_cast<float>(kPattern); }

 private:
  static constexpr uint32_t kPattern = 0x4B1DF00D;
  static constexpr size_t kLine = 16, kGuard = 48;
  size_t n_, first_ = 0;
  std::vector<float> memory_;
};

// The same numbers to the bit; NaN equals the same NaN.
inline testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    return testing::AssertionFailure() << a.size() << " and " << b.size() << " numbers";
  for (size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]))
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i]
                                         << " differ by " << double(a[i]) - double(b[i]);
  return testing::AssertionSuccess();
}

// A view's rows, one after the other.
inline std::vector<float> copy_of(Matrix<const float> m) {
  std::vector<float> values;
  values.reserve(m.rows() * m.cols());
  for (size_t r = 0; r < m.rows(); ++r) values.insert(values.end(), m[r].begin(), m[r].end());
  return values;
}

// Keeps the worst of many errors for one assertion at the end; NaN is the worst of all.
struct Worst {
  double error = 0;
  double at = 0;
  void see(double e, double where) {
    if (!(e <= error) && !std::isnan(error)) error = e, at = where;
  }
  void see(double e) { see(e, 0); }
};

}  // namespace bertie::test
