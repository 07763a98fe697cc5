#pragma once
// bfloat16: the upper half of a float, so widening is exact. Narrowing rounds to nearest, ties to even; what
// is too large becomes infinite, and a NaN a quiet NaN of the same sign.
#include <bit>
#include <cstdint>

namespace bertie {

struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {  // no branches, so that the compiler can run it in vectors
    const uint32_t all = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (all + 0x7FFF + (all >> 16 & 1)) >> 16, nan = all >> 16 | 0x40;
    bits = uint16_t((all & 0x7FFFFFFF) > 0x7F800000 ? nan : rounded);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
static_assert(sizeof(BFloat16) == 2);

}  // namespace bertie
