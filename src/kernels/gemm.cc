#include "kernels/gemm.h"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/math-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

// Panels [first, last) of y for a block of rows. K goes in slices: a slice of x stays in L2 while slices
// of one panel after another pass through L1, and the sums so far wait in y. Adding in slices is bitwise
// the same as adding in one go.
// `then` is the panel that this thread will probably want after that.
void linear_panels(Matrix<const float> x, const Linear& layer, size_t first, size_t last, size_t then, Activation f,
                   Matrix<float> y) {
  const RowTiles tiles(x.rows());
  HWY_ALIGN float edge[kMaxTileRows * kPanel];
  for (size_t k0 = 0; k0 < layer.inputs; k0 += kSlice) {
    const size_t k_count = std::min(kSlice, layer.inputs - k0);
    const bool final_slice = k0 + k_count == layer.inputs;
    for (size_t panel = first; panel < last; ++panel) {
      const size_t n0 = panel * kPanel, width = std::min(kPanel, layer.outputs - n0);
      const float* b = layer.packed + panel * kPanel * layer.inputs + k0 * kPanel;
      // What comes next: this slice of the next panel, or the next slice of the first.
      const float* next = panel + 1 < last ? b + kPanel * layer.inputs
                          : final_slice    ? layer.packed + then * layer.inputs * kPanel
                                           : layer.packed + (first * layer.inputs + k0 + k_count) * kPanel;
      const bool nothing = panel + 1 == last && final_slice && then >= panels_for(layer.outputs);
      const size_t next_lines = nothing ? 0 : kPanel / 16 * std::min(k_count, layer.inputs - k0);
      for (size_t t = 0; t < tiles.count; ++t) {
        const size_t r0 = tiles.begin(t), rows = tiles.begin(t + 1) - r0;
        const size_t line0 = t * next_lines / tiles.count, line1 = (t + 1) * next_lines / tiles.count;
        const bool whole = width == kPanel;
        float* out = whole ? y.row(r0) + n0 : edge;
        if (!whole && k0 > 0)
          for (size_t r = 0; r < rows; ++r) std::copy_n(y.row(r0 + r) + n0, width, edge + r * kPanel);
        tile(rows, {.a = x.row(r0) + k0,
                    .a_stride = x.stride(),
                    .b = b,
                    .k_count = k_count,
                    .out = out,
                    .out_stride = whole ? y.stride() : kPanel,
                    .bias = final_slice && layer.bias ? layer.bias + n0 : nullptr,
                    .accumulate = k0 > 0,
                    .prefetch = next + line0 * 16,
                    .prefetch_lines = line1 - line0});
        if (!whole)
          for (size_t r = 0; r < rows; ++r) std::copy_n(edge + r * kPanel, width, y.row(r0 + r) + n0);
        if (final_slice) activate_rows(f, y.row(r0) + n0, rows, width, y.stride());
      }
    }
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(linear_panels);

void pack_rows(Matrix<const float> w, size_t first_row, const Linear& into) {
  assert(w.cols() == into.inputs && first_row + w.rows() <= into.outputs);
  const size_t k_count = into.inputs;
  for (size_t r = 0; r < w.rows();) {
    const size_t n = first_row + r, lane = n % kPanel, count = std::min(kPanel - lane, w.rows() - r);
    float* out = into.packed + n / kPanel * kPanel * k_count + lane;
    for (size_t k = 0; k < k_count; ++k)
      for (size_t i = 0; i < count; ++i) out[k * kPanel + i] = w(r + i, k);
    r += count;
  }
}

void linear_forward(Matrix<const float> x, const Linear& layer, Activation f, Matrix<float> y, Team& team) {
  assert(x.cols() == layer.inputs && y.cols() == layer.outputs && x.rows() == y.rows());
  if (x.rows() == 0) return;
  // Rows in blocks whose slice of x takes about a third of an L2 cache. Each block's panels go to the
  // threads in large chunks, which find their next panel prefetched; the last block's tail goes in single
  // panels of half the rows, so that all threads end together.
  const size_t slice_bytes = std::max<size_t>(1, std::min(layer.inputs, kSlice)) * sizeof(float);
  const size_t block = std::max<size_t>(56, (size_t{640} << 10) / slice_bytes);
  const size_t blocks = (x.rows() + block - 1) / block;
  const size_t panels = panels_for(layer.outputs), threads = size_t(team.threads());
  const size_t large = threads == 1 ? 1 : std::min(panels, 2 * threads);
  const size_t tail_start = threads == 1 ? panels : panels * 7 / 8 / threads * threads;
  const size_t tail_large = tail_start == 0 ? 0 : std::min(tail_start, threads), halves = x.rows() / blocks >= 56 ? 2 : 1;
  const size_t before_tail = (blocks - 1) * large;
  const auto run = HWY_DYNAMIC_DISPATCH(linear_panels);
  team.parallel_for(before_tail + tail_large + (panels - tail_start) * halves, [&](size_t chunk) {
    const size_t b = chunk < before_tail ? chunk / large : blocks - 1;
    size_t r0 = b * x.rows() / blocks, r1 = (b + 1) * x.rows() / blocks, first, last, then = panels;
    if (chunk < before_tail) {
      const size_t c = chunk % large;
      first = c * panels / large, last = (c + 1) * panels / large;
      if (threads == 1) then = 0;
    } else if (const size_t c = chunk - before_tail; c < tail_large) {
      first = c * tail_start / tail_large, last = (c + 1) * tail_start / tail_large;
      then = tail_start + c / halves;
    } else {
      const size_t small = c - tail_large, half = small % halves, rows = r1 - r0;
      first = tail_start + small / halves, last = first + 1, then = first + threads / halves;
      r1 = r0 + (half + 1) * rows / halves, r0 += half * rows / halves;
    }
    run(x.slice_rows(r0, r1 - r0), layer, first, last, then, f, y.slice_rows(r0, r1 - r0));
  });
}

}  // namespace bertie::kernels
#endif
