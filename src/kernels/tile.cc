// The inner loop of tile-inl.h.
#include "kernels/amx.h"
#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

inline constexpr size_t kAhead = 24;  // rows of b to prefetch into L1

template <size_t R, bool kTransposed, Products kProducts>
HWY_INLINE void multiply(const TileArgs& t) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());
  constexpr size_t kStep = 2 * kLanes;
  static_assert(kPanel % kStep == 0);
  for (size_t col = 0; col < kPanel; col += kStep) {
    V sum[R][2];
#pragma GCC unroll 16
    for (size_t i = 0; i < R; ++i) {
      float* out = t.out + i * t.out_stride + col;
      if (t.accumulate) {
        sum[i][0] = hn::LoadU(d, out);
        sum[i][1] = hn::LoadU(d, out + kLanes);
      } else {
        sum[i][0] = sum[i][1] = t.start ? hn::Set(d, t.start[i]) : hn::Zero(d);
      }
    }
    const float* HWY_RESTRICT a = t.a;
    const float* HWY_RESTRICT b = t.b + col;
    const size_t stride = t.a_stride;
    const auto step = [&](size_t k) HWY_ATTR __attribute__((always_inline)) {
      // With 16 registers there is none to spare: loads must not move up from one step into the one before,
      // or sums wait in memory.
      if constexpr (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4) asm volatile("" ::: "memory");
      const V b0 = hn::LoadU(d, b + k * kPanel), b1 = hn::LoadU(d, b + k * kPanel + kLanes);
      // Into L1 what is used some 300 cycles on.
      __builtin_prefetch(b + (k + kAhead) * kPanel);
      if constexpr (kLanes == 16) __builtin_prefetch(b + (k + kAhead) * kPanel + kLanes);
#pragma GCC unroll 16
      for (size_t i = 0; i < R; ++i) {
        const V ai = hn::Set(d, kTransposed ? a[k * stride + i] : a[i * stride + k]);
        sum[i][0] = add_product<kProducts>(ai, b0, sum[i][0]);
        sum[i][1] = add_product<kProducts>(ai, b1, sum[i][1]);
      }
    };
    size_t k = 0;
    const float* next = t.next.first;
    const size_t lines = col == 0 ? t.next.count : 0, per_step = (4 * lines + t.k_count - 1) / t.k_count;
    const float* const next_end = next + lines * t.next.step;
    // The lines that will be written are fetched one by one on the way: all at once would keep the loads
    // waiting.
    constexpr size_t kLines = kStep > 16 ? kStep / 16 : 1;
    size_t line = t.accumulate ? R * kLines : 0;
    for (; k + 4 <= t.k_count; k += 4) {
      if (line < R * kLines) {
        __builtin_prefetch(t.out + line / kLines * t.out_stride + col + line % kLines * 16, 1);
        ++line;
      }
      if (next < next_end) {
        for (size_t i = 0; i < per_step; ++i, next += t.next.step) {
          __builtin_prefetch(next, 0, 2);
          if (t.next.pairs) __builtin_prefetch(next + 16, 0, 2);
        }
      }
      step(k), step(k + 1), step(k + 2), step(k + 3);
    }
    for (; k < t.k_count; ++k) step(k);

    V bias0 = hn::Zero(d), bias1 = hn::Zero(d);
    if (t.bias) bias0 = hn::LoadU(d, t.bias + col), bias1 = hn::LoadU(d, t.bias + col + kLanes);
#pragma GCC unroll 16
    for (size_t i = 0; i < R; ++i) {
      float* out = t.out + i * t.out_stride + col;
      hn::StoreU(hn::Add(sum[i][0], bias0), d, out);
      hn::StoreU(hn::Add(sum[i][1], bias1), d, out + kLanes);
    }
  }
}

template <size_t R, bool kTransposed>
HWY_NOINLINE void tile_of(const TileArgs& t) {
#if BERTIE_BF16_PRODUCTS
  if (are_bf16(t.products)) return multiply<R, kTransposed, Products::kBFloat16>(t);
#endif
  multiply<R, kTransposed, Products::kFloat32>(t);
}

template <bool kTransposed>
HWY_INLINE void tile_switch(size_t rows, const TileArgs& t) {
  switch (rows) {
    case 1:
      return tile_of<1, kTransposed>(t);
    case 2:
      return tile_of<2, kTransposed>(t);
    case 3:
      return tile_of<3, kTransposed>(t);
    case 4:
      return tile_of<4, kTransposed>(t);
    case 5:
      return tile_of<5, kTransposed>(t);
    case 6:
      return tile_of<6, kTransposed>(t);
#if BERTIE_32_REGISTERS
    case 7:
      return tile_of<7, kTransposed>(t);
    case 8:
      return tile_of<8, kTransposed>(t);
    case 9:
      return tile_of<9, kTransposed>(t);
    case 10:
      return tile_of<10, kTransposed>(t);
    case 11:
      return tile_of<11, kTransposed>(t);
    case 12:
      return tile_of<12, kTransposed>(t);
    case 13:
      return tile_of<13, kTransposed>(t);
    case 14:
      return tile_of<14, kTransposed>(t);
#endif
    default:
      HWY_DASSERT(false);
  }
}

void tile_rows(size_t rows, const TileArgs& t) { tile_switch<false>(rows, t); }
void tile_rows_transposed(size_t rows, const TileArgs& t) { tile_switch<true>(rows, t); }

void tile_amx(size_t rows, const TileArgs& t, size_t columns) {
  const size_t steps = (t.k_count + kAmxSteps - 1) / kAmxSteps;
  const bool from_out = t.accumulate || t.start;
  HWY_DASSERT(!from_out || !t.bias);
  for (size_t r = 0; t.start && r < rows; ++r) std::fill_n(t.out + r * t.out_stride, columns, t.start[r]);
  const bool whole = columns == kPanel && rows % 16 == 0;
  HWY_ALIGN float edge[kAmxRows * kPanel];
  float* const out = whole ? t.out : edge;
  const size_t stride = whole ? t.out_stride : kPanel;
  for (size_t r = 0; !whole && from_out && r < rows; ++r)
    std::copy_n(t.out + r * t.out_stride, columns, edge + r * kPanel);
  const AmxStart start = from_out ? AmxStart{out, stride} : AmxStart{t.bias, 0};
  if (rows <= 16)
    amx_multiply<16>(t.a, t.a_stride, t.b, steps, start, out, stride);
  else
    amx_multiply<32>(t.a, t.a_stride, t.b, steps, start, out, stride);
  for (size_t r = 0; !whole && r < rows; ++r)
    std::copy_n(edge + r * kPanel, columns, t.out + r * t.out_stride);
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
