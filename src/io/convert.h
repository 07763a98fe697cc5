#pragma once
// Half-precision numbers as files store them (little-endian, at any address) to float. Exact for every
// value: subnormals, infinities; a NaN stays a NaN of the same sign, made quiet for F16.
//
// F16 uses the processor's F16C where there is one; both ways give the same bits.
#include <cstddef>
#include <span>

namespace bertie::io {

// `in` holds 2 * out.size() bytes.
void f16_to_float(const std::byte* in, std::span<float> out);
void bf16_to_float(const std::byte* in, std::span<float> out);

namespace detail {
void f16_to_float_portable(const std::byte* in, std::span<float> out);  // for tests: no F16C
}

}  // namespace bertie::io
