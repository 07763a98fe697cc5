// The one inner loop of all matrix products, in linear layers and in attention.
//
//   out[i, 0..31] = start[i] + Σₖ a[i, k]·b[k, 0..31]      i < R rows, b a "panel" of 32 columns
//
// A panel row is two cache lines whatever the vector length, so packed weights are the same bytes on
// every machine. Sums run over k in order with one fused multiply-add each: an element's value does not
// depend on R, on the other rows, on the thread, or (given FMA) on the instruction set.
#if defined(BERTIE_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_TILE_INL_H_
#undef BERTIE_KERNELS_TILE_INL_H_
#else
#define BERTIE_KERNELS_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What AVX-512's 32 registers hold: 14 rows × 2 vectors of sums, 2 of b, 1 of a. Others have 16: 6 × 2.
#if HWY_TARGET <= HWY_AVX3
inline constexpr size_t kMaxTileRows = kTileRowsLimit;
#else
inline constexpr size_t kMaxTileRows = 6;
#endif

inline constexpr size_t kAhead = 24;  // rows of b to prefetch into L1

// Cache lines to fetch: `count` of them, `step` floats apart, or as many pairs of neighbours.
struct Lines {
  const float* first = nullptr;
  size_t count = 0, step = 16;
  bool pairs = false;

  // Share i of `shares` of a matrix of up to 32 columns.
  static Lines of_panel(Matrix<const float> m, size_t i, size_t shares) {
    const size_t begin = i * m.rows() / shares, end = (i + 1) * m.rows() / shares;
    return {m.row(begin), end - begin, m.stride(), m.cols() > 16};
  }
  // Share i of `shares` of so many floats in a row.
  static Lines of_run(const float* first, size_t floats, size_t i, size_t shares) {
    const size_t begin = i * (floats / 16) / shares, end = (i + 1) * (floats / 16) / shares;
    return {first + begin * 16, end - begin};
  }
};

struct TileArgs {
  const float* a;  // R rows, stride a_stride; for tile_transposed k_count rows of R
  size_t a_stride;
  const float* b;  // k_count rows of kPanel, contiguous
  size_t k_count;
  float* out;  // R rows of kPanel, stride out_stride
  size_t out_stride;
  const float* bias = nullptr;   // kPanel values added to every row at the end
  bool accumulate = false;       // start from out instead of zero
  const float* start = nullptr;  // R values: row i starts from start[i]
  Lines next = {};               // what is wanted after this, to be brought into L2 on the way
};

template <size_t R, bool kTransposed>
HWY_INLINE void tile_rows(const TileArgs& t) {
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
      const V b0 = hn::LoadU(d, b + k * kPanel), b1 = hn::LoadU(d, b + k * kPanel + kLanes);
      // Into L1 what is used some 300 cycles on.
      __builtin_prefetch(b + (k + kAhead) * kPanel);
      if constexpr (kLanes == 16) __builtin_prefetch(b + (k + kAhead) * kPanel + kLanes);
#pragma GCC unroll 16
      for (size_t i = 0; i < R; ++i) {
        const V ai = hn::Set(d, kTransposed ? a[k * stride + i] : a[i * stride + k]);
        sum[i][0] = hn::MulAdd(ai, b0, sum[i][0]);
        sum[i][1] = hn::MulAdd(ai, b1, sum[i][1]);
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
  tile_rows<R, kTransposed>(t);
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
#if HWY_TARGET <= HWY_AVX3
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

// The last panel of a matrix may be narrower than 32: then all 32 are computed beside it.
template <bool kTransposed>
HWY_INLINE void tile_columns(size_t rows, const TileArgs& t, size_t columns) {
  if (columns == kPanel) return tile_switch<kTransposed>(rows, t);
  HWY_ALIGN float edge[kMaxTileRows * kPanel];
  TileArgs beside = t;
  beside.out = edge, beside.out_stride = kPanel;
  for (size_t r = 0; t.accumulate && r < rows; ++r)
    std::copy_n(t.out + r * t.out_stride, columns, edge + r * kPanel);
  tile_switch<kTransposed>(rows, beside);
  for (size_t r = 0; r < rows; ++r) std::copy_n(edge + r * kPanel, columns, t.out + r * t.out_stride);
}

// rows in 1..kMaxTileRows; of out the first `columns` are touched.
HWY_INLINE void tile(size_t rows, const TileArgs& t, size_t columns = kPanel) {
  tile_columns<false>(rows, t, columns);
}

// The same with a stored the other way round: a[k·a_stride + i].
HWY_INLINE void tile_transposed(size_t rows, const TileArgs& t, size_t columns = kPanel) {
  tile_columns<true>(rows, t, columns);
}

// Splits `rows` into tiles as equal as can be: 15 rows are 8 + 7, never 14 + 1.
struct RowTiles {
  explicit RowTiles(size_t n) : rows(n), count((n + kMaxTileRows - 1) / kMaxTileRows) {}
  size_t begin(size_t tile) const { return tile * rows / count; }
  size_t rows, count;
};

// The left side of tile_transposed may be packed in pieces, one for each k, of kMaxTileRows floats in whole
// vectors: then it is read from front to back.
inline constexpr size_t kPieceStride = (kMaxTileRows + hn::MaxLanes(hn::ScalableTag<float>()) - 1) /
                                       hn::MaxLanes(hn::ScalableTag<float>()) *
                                       hn::MaxLanes(hn::ScalableTag<float>());

HWY_INLINE void copy_piece(const float* from, float* to) {
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < kPieceStride; i += hn::Lanes(d)) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
