#include "io/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace bertie::io {
namespace {

static_assert(std::endian::native == std::endian::little, "checksums are written into files");

// Odd, with about as many ones as zeros: the fractions of the golden ratio and of square roots of primes.
constexpr uint64_t kSpread = 0x9E3779B97F4A7C15, kStir = 0xBB67AE8584CAA73B;

// Every bit of x changes about half of the result's: a shift brings high bits down, a product low ones up.
uint64_t stir(uint64_t x) {
  x = (x ^ x >> 32) * kStir;
  x = (x ^ x >> 29) * kSpread;
  return x ^ x >> 32;
}

}  // namespace

uint64_t chain(uint64_t sum, uint64_t item) { return stir(std::rotl(sum, 23) * kSpread + stir(item)); }

uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed) {
  std::array<uint64_t, 4> lanes = {seed + kSpread, seed + kStir, seed ^ kSpread, seed ^ kStir};
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 32; left -= 32, p += 32) {
    uint64_t words[4];
    std::memcpy(words, p, 32);
    for (size_t i = 0; i < 4; ++i) lanes[i] = std::rotl(lanes[i] + words[i] * kStir, 31) * kSpread;
  }
  uint64_t sum = bytes.size();
  for (uint64_t lane : lanes) sum = chain(sum, lane);
  for (; left > 0;) {
    const size_t count = left < 8 ? left : 8;
    uint64_t word = 0;
    std::memcpy(&word, p, count);
    sum = chain(sum, word);
    p += count, left -= count;
  }
  return sum;
}

}  // namespace bertie::io
