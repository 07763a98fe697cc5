#pragma once
// Intel's AMX: products of bf16 in tiles of 16 × 16 sums, eight times as many a cycle as AVX512_BF16's.
//
//   out[i, j] = start[i, j] + Σ a[i, k]·b[k, j]     32 × 32, pairs of bf16 (bf16-inl.h), k in whole steps of
//   16
//
// Written out instruction by instruction: compilers of Debian 12 differ in what they offer, and all of it is
// these six. Tiles belong to a thread and have to be configured before use: AmxScope.
#include <cstddef>
#include <cstdint>

namespace bertie::kernels {

inline constexpr size_t kAmxRows = 32, kAmxSteps = 16;

// Whether this processor has AMX with bf16 and the system lets us use it; asked once.
bool has_amx();

// What sums begin with: rows `stride` floats apart, one row for all where that is 0; null: zeros.
struct AmxStart {
  const float* rows = nullptr;
  size_t stride = 0;
};

#if defined(__x86_64__)

class AmxScope {
 public:
  explicit AmxScope(bool wanted) : wanted_(wanted) {
    alignas(64) static constexpr Config kConfig;
    if (wanted_) asm volatile("ldtilecfg %0" ::"m"(kConfig));
  }
  ~AmxScope() {
    if (wanted_) asm volatile("tilerelease");
  }
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;

 private:
  struct Config {  // eight tiles of 16 rows of 64 bytes
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Config) == 64);
  bool wanted_;
};

#define BERTIE_TILE_LOAD(tile, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(stride) : "memory")
#define BERTIE_TILE_STORE(tile, to, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define BERTIE_TILE_ZERO(tile) asm volatile("tilezero %tmm" #tile)
#define BERTIE_TILE_MULTIPLY(sum, a, b) asm volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #sum)

// 32 rows, or 16. a has rows of pairs, strides are in floats; b is 16·steps rows of 32 pairs.
template <size_t kRows>
void amx_multiply(const float* a, size_t a_stride, const float* b, size_t steps, AmxStart start, float* out,
                  size_t out_stride) {
  static_assert(kRows == 16 || kRows == 32);
  constexpr bool kBoth = kRows == 32;
  const size_t a_bytes = a_stride * sizeof(float), out_bytes = out_stride * sizeof(float), b_bytes = 128;
  float* const lower = out + 16 * out_stride;
  if (start.rows) {
    const size_t bytes = start.stride * sizeof(float);
    const float* const below = start.rows + 16 * start.stride;
    BERTIE_TILE_LOAD(0, start.rows, bytes);
    BERTIE_TILE_LOAD(1, start.rows + 16, bytes);
    if constexpr (kBoth) BERTIE_TILE_LOAD(2, below, bytes);
    if constexpr (kBoth) BERTIE_TILE_LOAD(3, below + 16, bytes);
  } else {
    BERTIE_TILE_ZERO(0);
    BERTIE_TILE_ZERO(1);
    if constexpr (kBoth) BERTIE_TILE_ZERO(2);
    if constexpr (kBoth) BERTIE_TILE_ZERO(3);
  }
  for (size_t step = 0; step < steps; ++step, a += 16, b += 16 * 32) {
    BERTIE_TILE_LOAD(6, b, b_bytes);
    BERTIE_TILE_LOAD(4, a, a_bytes);
    BERTIE_TILE_MULTIPLY(0, 4, 6);
    BERTIE_TILE_LOAD(7, b + 16, b_bytes);
    BERTIE_TILE_MULTIPLY(1, 4, 7);
    if constexpr (kBoth) {
      BERTIE_TILE_LOAD(5, a + 16 * a_stride, a_bytes);
      BERTIE_TILE_MULTIPLY(2, 5, 6);
      BERTIE_TILE_MULTIPLY(3, 5, 7);
    }
  }
  BERTIE_TILE_STORE(0, out, out_bytes);
  BERTIE_TILE_STORE(1, out + 16, out_bytes);
  if constexpr (kBoth) BERTIE_TILE_STORE(2, lower, out_bytes);
  if constexpr (kBoth) BERTIE_TILE_STORE(3, lower + 16, out_bytes);
}

#undef BERTIE_TILE_LOAD
#undef BERTIE_TILE_STORE
#undef BERTIE_TILE_ZERO
#undef BERTIE_TILE_MULTIPLY

#else

struct AmxScope {
  explicit AmxScope(bool) {}
};
template <size_t kRows>
void amx_multiply(const float*, size_t, const float*, size_t, AmxStart, float*, size_t) {}

#endif

}  // namespace bertie::kernels
