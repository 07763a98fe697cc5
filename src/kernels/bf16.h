#pragma once
// Products of numbers rounded to bf16, with sums in fp32: half the bytes, and on processors with fast bf16
// units more than half the time saved. bf16 is the upper half of a float: its exponent and 8 bits of
// fraction.
//
//   out[i, 0..31] = Σₖ a[i,k]·b[k, 0..31]         as tile-inl.h, with k in pairs; a and b in bf16
//
// b is packed in pairs: for k = 0, 2, 4 … 32 times (b[k, j], b[k+1, j]); an odd number of rows ends with 0s.
// The sum runs as the processor's instruction (VDPBF16PS) does it, and bf16_tile_plain says it in C++: of
// each pair the odd product first, every step one fused multiply-add that rounds to nearest even and takes
// denormal numbers for 0, inputs and results.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "bertie/view.h"
#include "core/parallel.h"
#include "kernels/matmul.h"

namespace bertie::kernels {

// To nearest, ties to even; what is too large becomes Inf, and NaN stays NaN.
inline uint16_t to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }

struct Bf16TileArgs {
  const uint16_t* a;  // rows of 2·pairs numbers, stride a_stride, which is even; 4-byte aligned
  size_t a_stride;
  const uint16_t* b;  // pairs rows of 32·2, contiguous
  size_t pairs;
  float* out;  // rows of 32, stride out_stride
  size_t out_stride;
  bool accumulate = false;
};

inline constexpr size_t kBf16TileRows = 14;

// rows in 1..kBf16TileRows
void bf16_tile_plain(size_t rows, const Bf16TileArgs& t);
// The same bits by the processor's instruction; only where there is one.
bool has_bf16_instruction();
void bf16_tile_native(size_t rows, const Bf16TileArgs& t);

// A panel of up to 32 columns in pairs: `to` has ((rows + 1)/2)·64 numbers.
void round_panel(Matrix<const float> from, uint16_t* to);

// c = a·b or c += a·b as matmul.h's, with a and b rounded first. A Linear's packed weights are such panels;
// so is W the other way round, and a panel of a weights' gradient is c = xᵀ·dy.
size_t bf16_matmul_workspace(size_t rows, size_t inner, size_t columns);  // floats
void bf16_matmul(Factor a, Panels b, Matrix<float> c, float* workspace, Team& team,
                 Accumulate accumulate = Accumulate::no);

}  // namespace bertie::kernels
