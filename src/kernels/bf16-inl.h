// Products of bf16 with sums in fp32, two at a time: a₀·b₀ + a₁·b₁ + sum. Two bf16 lie in the place of a
// float, the first in its lower half: a "pair". Included once per instruction set.
#if defined(BERTIE_KERNELS_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_BF16_INL_H_
#undef BERTIE_KERNELS_BF16_INL_H_
#else
#define BERTIE_KERNELS_BF16_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/gemm.h"

// Whether machines of this instruction set may have them; has_bf16_products() says whether this one has. The
// Highway of Debian 12 does not know these two instructions, so they are written out.
#undef BERTIE_BF16_PRODUCTS
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86_64
#define BERTIE_BF16_PRODUCTS 1
#else
#define BERTIE_BF16_PRODUCTS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a·b + sum, of floats or of pairs.
template <Products kProducts, class V>
HWY_INLINE V add_product(V a, V b, V sum) {
#if HWY_TARGET == HWY_AVX2
  // Written out, so that the sum stays in its register: the compiler would move sums about until some of 16
  // registers had to wait in memory.
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.raw) : "x"(a.raw), "x"(b.raw));
  return sum;
#endif
  if constexpr (kProducts == Products::kFloat32) return hn::MulAdd(a, b, sum);
#if BERTIE_BF16_PRODUCTS
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
#endif
  return sum;
}

#if BERTIE_BF16_PRODUCTS
// 32 floats as bf16, in order, rounded to the nearest.
HWY_INLINE __m512i narrowed(const float* low, const float* high) {
  __m512i numbers;
  const __m512 a = _mm512_loadu_ps(low), b = _mm512_loadu_ps(high);
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(numbers) : "v"(b), "v"(a));
  return numbers;
}
#endif

// to[j] = the pair row[2j], row[2j + 1], in whole vectors of 16 pairs; numbers from `count` on are 0.
HWY_INLINE void pair_row([[maybe_unused]] const float* row, [[maybe_unused]] size_t count,
                         [[maybe_unused]] float* to) {
#if BERTIE_BF16_PRODUCTS
  size_t i = 0;
  for (; i + 32 <= count; i += 32) _mm512_storeu_si512(to + i / 2, narrowed(row + i, row + i + 16));
  if (i == count) return;
  float rest[32] = {};
  std::copy_n(row + i, count - i, rest);
  _mm512_storeu_si512(to + i / 2, narrowed(rest, rest + 16));
#endif
}

// to[j] = the pair first[j], second[j] for 16 columns.
HWY_INLINE void pair_columns([[maybe_unused]] const float* first, [[maybe_unused]] const float* second,
                             [[maybe_unused]] float* to) {
#if BERTIE_BF16_PRODUCTS
  alignas(64) static constexpr uint16_t kBeside[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  _mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_load_si512(kBeside), narrowed(first, second)));
#endif
}

// to[i·stride + k] = from[k·16 + i], 16 × 16 pairs.
HWY_INLINE void transpose_pairs([[maybe_unused]] const float* from, [[maybe_unused]] float* to,
                                [[maybe_unused]] size_t stride) {
#if BERTIE_BF16_PRODUCTS
  __m512i rows[16], halves[16];
#pragma GCC unroll 16
  for (size_t k = 0; k < 16; ++k) rows[k] = _mm512_loadu_si512(from + 16 * k);
#pragma GCC unroll 8
  for (size_t k = 0; k < 16; k += 2) {
    halves[k] = _mm512_unpacklo_epi32(rows[k], rows[k + 1]);
    halves[k + 1] = _mm512_unpackhi_epi32(rows[k], rows[k + 1]);
  }
  // rows[4q + c]: columns c, c + 4, c + 8, c + 12 of four rows 4q..4q + 3, a column in each quarter.
#pragma GCC unroll 4
  for (size_t q = 0; q < 16; q += 4) {
    rows[q] = _mm512_unpacklo_epi64(halves[q], halves[q + 2]);
    rows[q + 1] = _mm512_unpackhi_epi64(halves[q], halves[q + 2]);
    rows[q + 2] = _mm512_unpacklo_epi64(halves[q + 1], halves[q + 3]);
    rows[q + 3] = _mm512_unpackhi_epi64(halves[q + 1], halves[q + 3]);
  }
#pragma GCC unroll 4
  for (size_t c = 0; c < 4; ++c) {
    const __m512i low02 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);  // columns c, c + 8 of rows 0..7
    const __m512i low13 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd);  // columns c + 4, c + 12
    const __m512i high02 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
    const __m512i high13 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
    _mm512_storeu_si512(to + c * stride, _mm512_shuffle_i32x4(low02, high02, 0x88));
    _mm512_storeu_si512(to + (c + 8) * stride, _mm512_shuffle_i32x4(low02, high02, 0xdd));
    _mm512_storeu_si512(to + (c + 4) * stride, _mm512_shuffle_i32x4(low13, high13, 0x88));
    _mm512_storeu_si512(to + (c + 12) * stride, _mm512_shuffle_i32x4(low13, high13, 0xdd));
  }
#endif
}

// Rows 2r and 2r + 1 of a panel of 32 columns as row r of pairs; the row after an odd last one is 0.
HWY_INLINE void pair_panel(const float* panel, size_t rows, float* to) {
  static constexpr float kZeros[kPanel] = {};
  for (size_t r = 0; r < rows; r += 2, panel += 2 * kPanel, to += kPanel) {
    const float* const second = r + 1 < rows ? panel + kPanel : kZeros;
    for (size_t c = 0; c < kPanel; c += 16) pair_columns(panel + c, second + c, to + c);
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
