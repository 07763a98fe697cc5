// The one inner loop of all matrix products, in linear layers and in attention.
//
//   out[i, 0..31] = start[i] + Σₖ a[i, k]·b[k, 0..31]      i < R rows, b a "panel" of 32 columns
//
// A panel row is two cache lines whatever the vector length, so packed weights are the same bytes on
// every machine. Sums run over k in order with one fused multiply-add each: an element's value does not
// depend on R, on the other rows, on the thread, or (given FMA) on the instruction set.
//
// With products of bf16 a number of a and of b is a pair of bf16, k and k + 1, in the place of a float,
// and the product of two pairs is a₀·b₀ + a₁·b₁: half as many steps, all else the same.
#if defined(BERTIE_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_TILE_INL_H_
#undef BERTIE_KERNELS_TILE_INL_H_
#else
#define BERTIE_KERNELS_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/amx.h"
#include "kernels/bf16-inl.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What 32 registers hold (AVX-512, 64-bit ARM): 14 rows × 2 vectors of sums, 2 of b, 1 of a. Others have 16:
// 6 × 2.
#undef BERTIE_32_REGISTERS
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
#define BERTIE_32_REGISTERS 1
#else
#define BERTIE_32_REGISTERS 0
#endif
#if BERTIE_32_REGISTERS
inline constexpr size_t kMaxTileRows = kTileRowsLimit;
#else
inline constexpr size_t kMaxTileRows = 6;
#endif

// Cache lines to fetch: `count` of them, `step` floats apart, or as many pairs of neighbors.
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
  Products products = Products::kFloat32;
};

// The loop itself, in tile.cc: compiled once for each instruction set, not in every file that multiplies.
void tile_rows(size_t rows, const TileArgs& t);
void tile_rows_transposed(size_t rows, const TileArgs& t);

// The last panel of a matrix may be narrower than 32: then all 32 are computed beside it.
template <bool kTransposed>
HWY_INLINE void tile_columns(size_t rows, const TileArgs& t, size_t columns) {
  const auto compute = kTransposed ? tile_rows_transposed : tile_rows;
  if (columns == kPanel) return compute(rows, t);
  HWY_ALIGN float edge[kMaxTileRows * kPanel];
  TileArgs beside = t;
  beside.out = edge, beside.out_stride = kPanel;
  for (size_t r = 0; t.accumulate && r < rows; ++r)
    std::copy_n(t.out + r * t.out_stride, columns, edge + r * kPanel);
  compute(rows, beside);
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

// Products of AMX: rows in 1..32. Of a, whole tiles of 16 rows are read, and of a and b whole steps of 16
// pairs: what is beyond k_count is 0. Sums begin with the bias, where they do not begin with `out` or
// `start`. Nothing is fetched on the way.
void tile_amx(size_t rows, const TileArgs& t, size_t columns = kPanel);

// By whichever of the two the products ask for.
HWY_INLINE void multiply_tile(size_t rows, const TileArgs& t, size_t columns = kPanel) {
  t.products == Products::kAmx ? tile_amx(rows, t, columns) : tile(rows, t, columns);
}

// Splits `rows` into tiles as equal as can be: 15 rows are 8 + 7, never 14 + 1. AMX takes whole tiles, and
// what is left.
struct RowTiles {
  explicit RowTiles(size_t n, Products products = Products::kFloat32)
      : rows(n),
        amx(products == Products::kAmx),
        count(amx ? (n + kAmxRows - 1) / kAmxRows : (n + kMaxTileRows - 1) / kMaxTileRows) {}
  size_t begin(size_t tile) const { return amx ? std::min(rows, tile * kAmxRows) : tile * rows / count; }
  size_t rows;
  bool amx;
  size_t count;
};

// The left side of tile_transposed may be packed in pieces, one for each k, of kMaxTileRows floats in whole
// vectors: then it is read from front to back.
inline constexpr size_t kPieceStride = (kMaxTileRows + hn::MaxLanes(hn::ScalableTag<float>()) - 1) /
                                       hn::MaxLanes(hn::ScalableTag<float>()) *
                                       hn::MaxLanes(hn::ScalableTag<float>());

// The pieces of a tile that begins with column `first`: one for each row, or for two in pairs of bf16. A row
// may end before its piece does: then the rest is 0.
HWY_INLINE void pack_tile(Matrix<const float> from, size_t first, Products products, float* to) {
  const hn::ScalableTag<float> d;
  const size_t width = std::min(kPieceStride, from.cols() - first);
  HWY_ALIGN float edge[2][kPieceStride];
  const auto piece = [&](size_t row) HWY_ATTR -> const float* {
    if (row < from.rows() && width == kPieceStride) return from.row(row) + first;
    float* const copy = edge[row % 2];
    std::fill_n(copy, kPieceStride, 0.0f);
    if (row < from.rows()) std::copy_n(from.row(row) + first, width, copy);
    return copy;
  };
  const bool in_pairs = are_bf16(products);
  for (size_t row = 0; row < from.rows(); row += in_pairs ? 2 : 1, to += kPieceStride) {
    const float* const one = piece(row);
    if (in_pairs)
      pair_columns(one, piece(row + 1), to);
    else
      for (size_t i = 0; i < kPieceStride; i += hn::Lanes(d)) hn::StoreU(hn::LoadU(d, one + i), d, to + i);
  }
}

// The left side of tile_amx the other way round: columns first..first + 31 as rows of pairs of from's rows,
// which are `stride` floats apart, in whole steps. Sixteen columns that there are not are left out.
HWY_INLINE void pack_amx_tile(Matrix<const float> from, size_t first, float* to, size_t stride) {
  for (size_t k = 0; k < from.rows(); k += 2 * kAmxSteps) {
    const Matrix<const float> some = from.slice_rows(k, std::min(2 * kAmxSteps, from.rows() - k));
    for (size_t i = 0; i < kAmxRows && first + i < from.cols(); i += 16) {
      HWY_ALIGN float pairs[kAmxSteps * 16] = {};
      pack_tile(some, first + i, Products::kAmx, pairs);
      transpose_pairs(pairs, to + i * stride + k / 2, stride);
    }
  }
}

// Rows of pairs of a panel that follow the last of its steps: zeros to a whole step of AMX.
HWY_INLINE void fill_amx_step(float* panel, size_t steps) {
  std::fill(panel + steps * kPanel, panel + (steps + kAmxSteps - 1) / kAmxSteps * kAmxSteps * kPanel, 0.0f);
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
