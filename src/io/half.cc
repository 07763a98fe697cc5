#include "io/half.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/bfloat16.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace bertie::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so is this code");

namespace {

inline uint32_t load16(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return bits;
}

// No branches, so that the compiler can run it in vectors. A subnormal m·2^-24 is 2^-14·(1 + m/1024) - 2^-14.
inline float f16_value(uint32_t half) {
  constexpr uint32_t kSmallestNormal = 113u << 23;  // 2^-14
  uint32_t sign = (half & 0x8000) << 16, magnitude = (half & 0x7FFF) << 13;
  uint32_t normal = magnitude + (112u << 23);
  uint32_t special = (magnitude | 0x7F800000) | (half & 0x3FF ? 0x400000 : 0);
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + kSmallestNormal) -
                                               std::bit_cast<float>(kSmallestNormal));
  uint32_t exponent = half & 0x7C00;
  uint32_t bits = exponent == 0 ? subnormal : exponent == 0x7C00 ? special : normal;
  return std::bit_cast<float>(bits | sign);
}

inline void store16(uint32_t bits, std::byte* at) {
  const auto half = static_cast<uint16_t>(bits);
  std::memcpy(at, &half, 2);
}

// No branches here either. Adding half of what is cut off, less one where the last bit kept is even, rounds
// to nearest even, and carries into the exponent, up to infinity, as it should. A number below 2^-14 is
// rounded by the addition of 0.5, whose last bit is worth 2^-24, as a subnormal's.
inline uint32_t f16_bits(float value) {
  constexpr uint32_t kInfinity = 0x7F800000, kTooLarge = 143u << 23, kSmallestNormal = 113u << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  const uint32_t shifted = magnitude - (112u << 23);
  const uint32_t normal = (shifted + 0xFFF + (shifted >> 13 & 1)) >> 13;
  const uint32_t small = std::min(magnitude, kSmallestNormal);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(small) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7E00 | (magnitude >> 13 & 0x3FF);
  const uint32_t half = magnitude > kInfinity         ? nan
                        : magnitude >= kTooLarge      ? 0x7C00
                        : magnitude < kSmallestNormal ? subnormal
                                                      : normal;
  return half | sign;
}

#if defined(__x86_64__)
bool has_f16c() {
  static const bool has = [] {
    unsigned a, b, c = 0, d;  // clang 14 cannot be asked for f16c by name
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return has;
}

// Returns how many were done; the rest is fewer than eight.
__attribute__((target("avx2,f16c"))) size_t f16_to_float_f16c(const std::byte* in, std::span<float> out) {
  size_t i = 0;
  for (; i + 8 <= out.size(); i += 8) {
    __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    _mm256_storeu_ps(out.data() + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

__attribute__((target("avx2,f16c"))) size_t float_to_f16_f16c(std::span<const float> in, std::byte* out) {
  size_t i = 0;
  for (; i + 8 <= in.size(); i += 8) {
    __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in.data() + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), halves);
  }
  return i;
}
#endif

}  // namespace

void detail::f16_to_float_portable(const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = f16_value(load16(in + 2 * i));
}

void f16_to_float(const std::byte* in, std::span<float> out) {
#if defined(__x86_64__)
  if (has_f16c()) {
    size_t done = f16_to_float_f16c(in, out);
    in += 2 * done, out = out.subspan(done);
  }
#endif
  detail::f16_to_float_portable(in, out);
}

void detail::float_to_f16_portable(std::span<const float> in, std::byte* out) {
  for (size_t i = 0; i < in.size(); ++i) store16(f16_bits(in[i]), out + 2 * i);
}

void float_to_f16(std::span<const float> in, std::byte* out) {
#if defined(__x86_64__)
  if (has_f16c()) {
    size_t done = float_to_f16_f16c(in, out);
    in = in.subspan(done), out += 2 * done;
  }
#endif
  detail::float_to_f16_portable(in, out);
}

void float_to_bf16(std::span<const float> in, std::byte* out) {
  for (size_t i = 0; i < in.size(); ++i) store16(BFloat16(in[i]).bits, out + 2 * i);
}

void bf16_to_float(const std::byte* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<float>(load16(in + 2 * i) << 16);
}

}  // namespace bertie::io
