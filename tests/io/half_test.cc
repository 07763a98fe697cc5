#include "io/half.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Half, EveryF16ValueIsExact) { expect_every_value_converts(f16_to_float, 10); }
TEST(Half, EveryF16ValueIsExactWithoutF16c) {
  expect_every_value_converts(detail::f16_to_float_portable, 10);
}
TEST(Half, EveryBf16ValueIsExact) { expect_every_value_converts(bf16_to_float, 7); }

TEST(Half, WithAndWithoutF16cGiveTheSameBits) {
  std::vector<uint16_t> in(65'536);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
  std::vector<float> fast(in.size()), portable(in.size());
  auto bytes = reinterpret_cast<const std::byte*>(in.data());
  f16_to_float(bytes, fast);
  detail::f16_to_float_portable(bytes, portable);
  EXPECT_EQ(std::memcmp(fast.data(), portable.data(), fast.size() * sizeof(float)), 0);
}

TEST(Half, AnyLengthAtAnyAddressWritesWhatItShouldAndNoMore) {
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

using Narrow = void (*)(std::span<const float>, std::byte*);

// The floats that round to one narrow value lie side by side, from half-way to the value below to half-way to
// the one above; half-way itself goes to the even one.
void expect_every_float_rounds_to_nearest_even(Narrow narrow, int fraction_bits) {
  const uint32_t infinity = (1u << 15) - (1u << fraction_bits);
  const auto value = [&](uint32_t bits) { return double(value_by_definition(bits, fraction_bits)); };
  constexpr uint32_t kPiece = 1 << 16;
  std::vector<float> in(kPiece);
  std::vector<uint16_t> out(kPiece);
  uint32_t first = 0;  // bits of the first float that rounds to `bits`
  for (uint32_t bits = 0; bits <= infinity; ++bits) {
    uint32_t last = 0x7F800000;
    if (bits < infinity) {
      const double step = bits + 1 < infinity ? value(bits + 1) - value(bits) : value(bits) - value(bits - 1);
      const auto half_way = static_cast<float>(value(bits) + step / 2);  // exact: a bit more than `bits` has
      last = std::bit_cast<uint32_t>(half_way) - bits % 2;
    }
    // Zero and infinity have some 2^30 each: their ends, and a piece of every sixteen between.
    for (uint32_t at = first; at <= last;) {
      const auto count = std::min<uint32_t>(kPiece, last - at + 1);
      for (uint32_t sign : {0u, 1u}) {
        for (uint32_t i = 0; i < count; ++i) in[i] = std::bit_cast<float>(sign << 31 | (at + i));
        narrow({in.data(), count}, reinterpret_cast<std::byte*>(out.data()));
        const auto expected = static_cast<uint16_t>(sign << 15 | bits);
        ASSERT_EQ(std::count(out.begin(), out.begin() + count, expected), count)
            << std::hex << sign << ' ' << at;
      }
      at += at == first || last - at < 17 * kPiece ? count : 16 * kPiece;
    }
    first = last + 1;
  }
}

TEST(Narrow, EveryFloatRoundsToTheNearestF16) { expect_every_float_rounds_to_nearest_even(float_to_f16, 10); }
TEST(Narrow, EveryFloatRoundsToTheNearestF16WithoutF16c) {
  expect_every_float_rounds_to_nearest_even(detail::float_to_f16_portable, 10);
}
TEST(Narrow, EveryFloatRoundsToTheNearestBf16) {
  expect_every_float_rounds_to_nearest_even(float_to_bf16, 7);
}

TEST(Narrow, ANaNStaysQuietOfItsSignAndTheSameWithoutF16c) {
  constexpr size_t kBlock = size_t{1} << 16;
  std::vector<float> in(kBlock);
  std::vector<uint16_t> fast(kBlock), portable(kBlock);
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t first = 0x7F800000; first < 0x80000000; first += kBlock) {
      for (uint32_t i = 0; i < kBlock; ++i) in[i] = std::bit_cast<float>(sign | (first + i));
      float_to_f16(in, reinterpret_cast<std::byte*>(fast.data()));
      detail::float_to_f16_portable(in, reinterpret_cast<std::byte*>(portable.data()));
      ASSERT_EQ(fast, portable) << std::hex << first;
      for (size_t i = 0; i < kBlock; ++i) {
        if (!std::isnan(in[i])) continue;
        ASSERT_GE(fast[i] & 0x7FFF, 0x7E00);
        ASSERT_EQ(fast[i] & 0x8000, sign >> 16);
      }
    }
}

TEST(Narrow, WhatWasReadIsWrittenBackAsItWas) {
  std::vector<uint16_t> in(65'536), out(65'536);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
  std::vector<float> numbers(in.size());
  for (auto [widen, narrow, infinity, quiet] :
       {std::tuple<Convert, Narrow, int, int>{f16_to_float, float_to_f16, 0x7C00, 0x200},
        {bf16_to_float, float_to_bf16, 0x7F80, 0x40}}) {
    widen(reinterpret_cast<const std::byte*>(in.data()), numbers);
    narrow(numbers, reinterpret_cast<std::byte*>(out.data()));
    for (size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(out[i], (in[i] & 0x7FFF) > infinity ? in[i] | quiet : in[i]) << i;
  }
}

TEST(Narrow, AnyLengthAtAnyAddressWritesWhatItShouldAndNoMore) {
  for (size_t shift = 0; shift < 4; ++shift)
    for (size_t n = 0; n <= 40; ++n)
      for (Narrow narrow : {Narrow(float_to_f16), Narrow(float_to_bf16)}) {
        const std::vector<float> in(n, 1.0f);
        std::vector<std::byte> out(shift + 2 * n + 1, std::byte{0xAA});
        narrow(in, out.data() + shift);
        for (size_t i = 0; i < n; ++i) {
          uint16_t half;
          std::memcpy(&half, out.data() + shift + 2 * i, 2);
          ASSERT_EQ(half, narrow == Narrow(float_to_f16) ? 0x3C00 : 0x3F80);
        }
        ASSERT_EQ(out.back(), std::byte{0xAA});
      }
}

}  // namespace
}  // namespace bertie::io
