#include "kernels/matmul.h"

#include <cassert>
#include <utility>

#include "core/arena.h"
#include "core/system.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

// Columns [first, last) of b, at most 32, as rows of 32 floats; those that are missing are 0.
void pack_panel(const Factor& b, size_t first, size_t last, float* to) {
  if (b.transposed)
    transpose_panel(b.stored.slice_rows(first, last - first), 1.0f, to);
  else
    copy_panel(b.stored.slice_cols(first, last - first), to);
}

// Panels [first, last) of c = a·b, slice after slice of k: the sums so far wait in c. A transposed a takes a
// cache line, and often a page, for every k: shorter slices keep those it comes back to.
void multiply_panels(const Factor& a, const Panels& b, size_t first, size_t last, bool accumulate,
                     Matrix<float> c) {
  const RowTiles tiles(c.rows());
  const size_t slice = a.transposed ? kSlice / 4 : kSlice;
  for (size_t k0 = 0; k0 < b.rows; k0 += slice) {
    const size_t k_count = std::min(slice, b.rows - k0);
    for (size_t panel = first; panel < last; ++panel) {
      const size_t n0 = panel * kPanel, width = std::min(kPanel, b.cols - n0);
      const bool more = panel + 1 < last;
      const float* here = b.data + (panel * b.rows + k0) * kPanel;
      const float* next = more ? here + b.rows * kPanel : nullptr;
      const size_t next_floats = more ? kPanel * k_count : 0;
      for (size_t t = 0; t < tiles.count; ++t) {
        const size_t r0 = tiles.begin(t), rows = tiles.begin(t + 1) - r0;
        const TileArgs args{.a = a.data() + r0 * a.row_step() + k0 * a.col_step(),
                            .a_stride = a.stored.stride(),
                            .b = here,
                            .k_count = k_count,
                            .out = c.row(r0) + n0,
                            .out_stride = c.stride(),
                            .accumulate = accumulate || k0 > 0,
                            .next = Lines::of_run(next, next_floats, t, tiles.count)};
        if (a.transposed)
          tile_transposed(rows, args, width);
        else
          tile(rows, args, width);
      }
    }
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(pack_panel);
HWY_EXPORT(multiply_panels);

namespace {

[[maybe_unused]] bool overlap(Matrix<const float> a, Matrix<const float> b) {
  if (a.empty() || b.empty()) return false;
  const auto end = [](Matrix<const float> m) { return m.row(m.rows() - 1) + m.cols(); };
  if (a.data() >= end(b) || b.data() >= end(a)) return false;
  if (a.stride() != b.stride()) return true;
  // Columns of one and the same matrix: the distance tells whether they are the same columns.
  if (a.data() > b.data()) std::swap(a, b);
  const size_t ahead = size_t(b.data() - a.data()) % a.stride();
  return ahead < a.cols() || ahead + b.cols() > a.stride();
}

// Rows go in blocks whose slice of a takes five eighths of the L2 cache, panels in groups: enough chunks for
// every thread, and none for a product that is done sooner than a thread wakes.
struct Chunks {
  Chunks(size_t rows, size_t inner, size_t panels) {
    if (rows * inner * panels < size_t{1} << 14) return;
    const size_t slice_bytes = std::min(inner, kSlice) * sizeof(float);
    const size_t few = round_up((rows + 15) / 16, kTileRowsLimit);
    const size_t block = std::max(4 * kTileRowsLimit, std::min(few, l2_cache_bytes() / 8 * 5 / slice_bytes));
    blocks = (rows + block - 1) / block;
    groups = std::min(panels, std::max(size_t{4}, size_t{16} / blocks));
  }
  size_t count() const { return blocks * groups; }
  size_t blocks = 1, groups = 1;
};

}  // namespace

Panels pack(Factor b, float* memory, Team& team) {
  constexpr size_t kRows = 1024;
  const Panels packed{memory, b.rows(), b.cols()};
  const size_t panels = panels_for(b.cols()), parts = (b.rows() + kRows - 1) / kRows;
  const auto pack_one = HWY_DYNAMIC_DISPATCH(pack_panel);
  team.parallel_for(panels * parts, [&](size_t chunk) {
    const size_t n0 = chunk / parts * kPanel, k0 = chunk % parts * kRows;
    pack_one(b.slice_rows(k0, std::min(kRows, b.rows() - k0)), n0, std::min(n0 + kPanel, b.cols()),
             memory + n0 * b.rows() + k0 * kPanel);
  });
  return packed;
}

void matmul(Factor a, Panels b, Matrix<float> c, Team& team, Accumulate accumulate) {
  assert(a.rows() == c.rows() && a.cols() == b.rows && b.cols == c.cols());
  assert(!overlap(a.stored, c));
  if (c.empty()) return;
  if (b.rows == 0) {
    if (accumulate == Accumulate::kNo)
      for (size_t r = 0; r < c.rows(); ++r) std::fill(c[r].begin(), c[r].end(), 0.0f);
    return;
  }
  const size_t panels = panels_for(b.cols);
  const Chunks chunks(c.rows(), b.rows, panels);
  const auto multiply = HWY_DYNAMIC_DISPATCH(multiply_panels);
  team.parallel_for(chunks.count(), [&](size_t chunk) {
    const size_t block = chunk / chunks.groups, group = chunk % chunks.groups;
    const size_t r0 = block * c.rows() / chunks.blocks, rows = (block + 1) * c.rows() / chunks.blocks - r0;
    multiply(a.slice_rows(r0, rows), b, group * panels / chunks.groups, (group + 1) * panels / chunks.groups,
             accumulate == Accumulate::kYes, c.slice_rows(r0, rows));
  });
}

void matmul(Factor a, Factor b, Matrix<float> c, float* workspace, Team& team, Accumulate accumulate) {
  assert(a.cols() == b.rows() && !overlap(b.stored, c));
  size_t k0 = 0;
  do {
    const size_t count = std::min(kPackedRows, b.rows() - k0);
    matmul(a.slice_cols(k0, count), pack(b.slice_rows(k0, count), workspace, team), c, team,
           k0 > 0 ? Accumulate::kYes : accumulate);
    k0 += count;
  } while (k0 < b.rows());
}

}  // namespace bertie::kernels
#endif
