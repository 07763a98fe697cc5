#pragma once
// Half-precision numbers as files store them (little-endian, at any address) to float and back.
//
// To float is exact for every value: subnormals, infinities; a NaN stays a NaN of the same sign, made quiet
// for F16. From float rounds to nearest, ties to even; what is too large becomes infinite, a NaN a quiet NaN
// of the same sign.
//
// F16 uses the processor's F16C where there is one; both ways give the same bits.
#include <cstddef>
#include <span>

namespace bertie::io {

// `in` holds 2 * out.size() bytes.
void f16_to_float(const std::byte* in, std::span<float> out);
void bf16_to_float(const std::byte* in, std::span<float> out);

// `out` holds 2 * in.size() bytes.
void float_to_f16(std::span<const float> in, std::byte* out);
void float_to_bf16(std::span<const float> in, std::byte* out);

namespace detail {
void f16_to_float_portable(const std::byte* in, std::span<float> out);  // for tests: no F16C
void float_to_f16_portable(std::span<const float> in, std::byte* out);
}  // namespace detail

}  // namespace bertie::io
