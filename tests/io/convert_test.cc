#include "io/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace bertie::io {
namespace {

using Convert = void (*)(const std::byte*, std::span<float>);

// The value of a number with `fraction_bits` bits of fraction and the rest, but the sign, of exponent: IEEE
// 754 written out. A NaN gives some NaN.
float value_by_definition(uint32_t bits, int fraction_bits) {
  int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int fraction = int(bits & ((1u << fraction_bits) - 1));
  int exponent = int(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                               : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  if (exponent == (1 << exponent_bits) - 1)
    value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  return static_cast<float>(bits & 0x8000 ? -value : value);
}

void expect_every_value_converts(Convert convert, int fraction_bits) {
  constexpr size_t kAll = 65'536;
  std::vector<uint16_t> in(kAll);
  for (size_t i = 0; i < kAll; ++i) in[i] = static_cast<uint16_t>(i);
  std::vector<float> out(kAll, -1);
  convert(reinterpret_cast<const std::byte*>(in.data()), out);
  for (uint32_t i = 0; i < kAll; ++i) {
    float expected = value_by_definition(i, fraction_bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
      ASSERT_EQ(std::signbit(out[i]), (i & 0x8000) != 0) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(expected)) << i;
    }
  }
}

TEST(Convert, EveryF16ValueIsExact) { expect_every_value_converts(f16_to_float, 10); }
TEST(Convert, EveryF16ValueIsExactWithoutF16c) {
  expect_every_value_converts(detail::f16_to_float_portable, 10);
}
TEST(Convert, EveryBf16ValueIsExact) { expect_every_value_converts(bf16_to_float, 7); }

TEST(Convert, WithAndWithoutF16cGiveTheSameBits) {
  std::vector<uint16_t> in(65'536);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
  std::vector<float> fast(in.size()), portable(in.size());
  auto bytes = reinterpret_cast<const std::byte*>(in.data());
  f16_to_float(bytes, fast);
  detail::f16_to_float_portable(bytes, portable);
  EXPECT_EQ(std::memcmp(fast.data(), portable.data(), fast.size() * sizeof(float)), 0);
}

TEST(Convert, AnyLengthAtAnyAddressWritesWhatItShouldAndNoMore) {
  constexpr float kUntouched = -12345;
  for (size_t shift = 0; shift < 4; ++shift)
    for (size_t n = 0; n <= 40; ++n)
      for (auto [convert, one] : {std::pair<Convert, int>{f16_to_float, 0x3C00}, {bf16_to_float, 0x3F80}}) {
        std::vector<std::byte> in(shift + 2 * n);  // exactly as long: a sanitizer sees one byte more
        for (size_t i = 0; i < n; ++i) {
          auto bits = static_cast<uint16_t>(one + int(i));
          std::memcpy(in.data() + shift + 2 * i, &bits, 2);
        }
        std::vector<float> out(n + 1, kUntouched);
        convert(in.data() + shift, {out.data(), n});
        for (size_t i = 0; i < n; ++i)
          ASSERT_EQ(out[i], value_by_definition(uint32_t(one) + uint32_t(i), one == 0x3C00 ? 10 : 7));
        ASSERT_EQ(out[n], kUntouched);
      }
}

}  // namespace
}  // namespace bertie::io
