#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011). A number is a pure function of
// (seed, stream, counter), so any element can be drawn by any thread in any order, and drawn again.
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <utility>

namespace bertie {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * counter[0], p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1),
               uint32_t(p0 >> 32) ^ counter[3] ^ key[1], uint32_t(p0)};
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  return counter;
}

// A stream of draws: Random(seed, stream) gives the same sequence wherever it is made.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  // The four words of draw number `i`.
  std::array<uint32_t, 4> at(uint64_t i) const {
    return philox({uint32_t(i), uint32_t(i >> 32), uint32_t(stream_), uint32_t(stream_ >> 32)},
                  {uint32_t(seed_), uint32_t(seed_ >> 32)});
  }
  uint32_t next() {
    if (used_ == 4) words_ = at(counter_++), used_ = 0;
    return words_[used_++];
  }
  // Uniform in [0, n), without bias (Lemire 2019). n > 0.
  uint32_t below(uint32_t n) {
    uint64_t m = uint64_t{next()} * n;
    if (uint32_t(m) < n)
      for (uint32_t threshold = -n % n; uint32_t(m) < threshold;) m = uint64_t{next()} * n;
    return uint32_t(m >> 32);
  }
  // Uniform in [0, 1) with 24 bits.
  float uniform() { return float(next() >> 8) * 0x1p-24f; }
  // Standard normal (Box-Muller).
  float normal() {
    double u = (next() + 0.5) * 0x1p-32, v = (next() + 0.5) * 0x1p-32;
    return float(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }

 private:
  uint64_t seed_, stream_, counter_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

// The i-th of n in a random order, for i < n: a bijection on the next power of four (four Feistel rounds),
// again until it falls below n. So an order of any length takes no memory.
inline size_t shuffled(size_t i, size_t n, uint64_t seed, uint64_t epoch) {
  constexpr uint32_t kStream = 0x50616972;
  const unsigned half = (unsigned(std::bit_width(n - 1)) + 1) / 2;
  const size_t mask = (size_t{1} << half) - 1;
  do {
    size_t left = i >> half, right = i & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const auto words =
          philox({uint32_t(right), round, uint32_t(epoch), kStream}, {uint32_t(seed), uint32_t(seed >> 32)});
      left ^= words[0] & mask;
      std::swap(left, right);
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

}  // namespace bertie
