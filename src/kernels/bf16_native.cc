// bf16's inner loop by VDPBF16PS. In a file of its own: Highway's AVX3 does not include the instruction.
#include "kernels/bf16.h"
#include "kernels/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#define BERTIE_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace bertie::kernels {
namespace {

BERTIE_BF16 inline __m512bh pairs_at(const uint16_t* p) { return (__m512bh)_mm512_loadu_si512(p); }

template <size_t R>
BERTIE_BF16 void tile_rows(const Bf16TileArgs& t) {
  __m512 sum[R][2];
#pragma GCC unroll 16
  for (size_t i = 0; i < R; ++i)
    for (size_t v = 0; v < 2; ++v)
      sum[i][v] = t.accumulate ? _mm512_loadu_ps(t.out + i * t.out_stride + 16 * v) : _mm512_setzero_ps();
  for (size_t k = 0; k < t.pairs; ++k) {
    const __m512bh b0 = pairs_at(t.b + k * 64), b1 = pairs_at(t.b + k * 64 + 32);
#pragma GCC unroll 16
    for (size_t i = 0; i < R; ++i) {
      int pair;
      std::memcpy(&pair, t.a + i * t.a_stride + 2 * k, sizeof(pair));
      const __m512bh a = (__m512bh)_mm512_set1_epi32(pair);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], a, b0);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], a, b1);
    }
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < R; ++i)
    for (size_t v = 0; v < 2; ++v) _mm512_storeu_ps(t.out + i * t.out_stride + 16 * v, sum[i][v]);
}

template <size_t... R>
void choose(size_t rows, const Bf16TileArgs& t, std::index_sequence<R...>) {
  ((rows == R + 1 ? tile_rows<R + 1>(t) : void()), ...);
}

}  // namespace

bool has_bf16_instruction() {
  if (__builtin_cpu_supports("avx512bf16")) return true;
  const char* const said = std::getenv("BERTIE_BF16_INSTRUCTION");
  return said && std::string_view(said) == "1";
}

void bf16_tile_native(size_t rows, const Bf16TileArgs& t) {
  choose(rows, t, std::make_index_sequence<kBf16TileRows>());
}

}  // namespace bertie::kernels
#else
namespace bertie::kernels {
bool has_bf16_instruction() { return false; }
void bf16_tile_native(size_t rows, const Bf16TileArgs& t) { bf16_tile_plain(rows, t); }
}  // namespace bertie::kernels
#endif
