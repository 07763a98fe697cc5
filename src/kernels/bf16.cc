#include "kernels/bf16.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/arena.h"
#include "kernels/gemm.h"

namespace bertie::kernels {

namespace {
float without_denormals(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
}  // namespace

void bf16_tile_plain(size_t rows, const Bf16TileArgs& t) {
  const auto number = [](uint16_t x) { return without_denormals(from_bf16(x)); };
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < kPanel; ++j) {
      float& out = t.out[i * t.out_stride + j];
      float sum = t.accumulate ? without_denormals(out) : 0.0f;
      for (size_t k = 0; k < t.pairs; ++k)
        for (size_t half : {1, 0}) {
          const float a = number(t.a[i * t.a_stride + 2 * k + half]);
          const float b = number(t.b[(k * kPanel + j) * 2 + half]);
          sum = without_denormals(std::fma(a, b, sum));
        }
      out = sum;
    }
}

void round_panel(Matrix<const float> from, uint16_t* to) {
  for (size_t r = 0; r < from.rows() + from.rows() % 2; ++r)
    for (size_t j = 0; j < kPanel; ++j)
      to[(r / 2 * kPanel + j) * 2 + r % 2] =
          r < from.rows() && j < from.cols() ? to_bf16(from(r, j)) : uint16_t{0};
}

namespace {

constexpr size_t kRowsTogether = 4 * kBf16TileRows;

size_t even(size_t n) { return n + n % 2; }

// Floats that hold the rounded left side; the right one comes after it.
size_t rounded_rows_floats(size_t rows, size_t inner) { return round_up(rows * even(inner) / 2, 16); }

}  // namespace

size_t bf16_matmul_workspace(size_t rows, size_t inner, size_t columns) {
  return rounded_rows_floats(rows, inner) + packed_floats(columns, even(inner)) / 2;
}

void bf16_matmul(Factor a, Panels b, Matrix<float> c, float* workspace, Team& team, Accumulate accumulate) {
  assert(a.rows() == c.rows() && a.cols() == b.rows && b.cols == c.cols());
  if (c.empty()) return;
  const size_t inner = b.rows, pairs = even(inner) / 2, panels = panels_for(b.cols);
  auto* const left = reinterpret_cast<uint16_t*>(workspace);
  auto* const right = reinterpret_cast<uint16_t*>(workspace + rounded_rows_floats(c.rows(), inner));
  const size_t blocks = (c.rows() + kRowsTogether - 1) / kRowsTogether;
  team.parallel_for(blocks + panels, [&](size_t chunk) {
    if (chunk >= blocks) {
      const size_t panel = chunk - blocks;
      round_panel({b.data + panel * inner * kPanel, inner, kPanel}, right + panel * pairs * 2 * kPanel);
      return;
    }
    const size_t r0 = chunk * kRowsTogether, r1 = std::min(c.rows(), r0 + kRowsTogether);
    for (size_t r = r0; r < r1; ++r) {
      uint16_t* const row = left + r * 2 * pairs;
      for (size_t k = 0; k < inner; ++k) row[k] = to_bf16(a.data()[r * a.row_step() + k * a.col_step()]);
      if (inner % 2 == 1) row[inner] = 0;
    }
  });
  static const auto tile = has_bf16_instruction() ? bf16_tile_native : bf16_tile_plain;
  team.parallel_for(blocks * panels, [&](size_t chunk) {
    const size_t block = chunk / panels, panel = chunk % panels, n0 = panel * kPanel;
    const size_t width = std::min(kPanel, b.cols - n0), end = std::min(c.rows(), (block + 1) * kRowsTogether);
    for (size_t r0 = block * kRowsTogether; r0 < end; r0 += kBf16TileRows) {
      const size_t rows = std::min(kBf16TileRows, end - r0);
      float edge[kBf16TileRows * kPanel] = {};
      const bool whole = width == kPanel, add = accumulate == Accumulate::yes;
      for (size_t r = 0; !whole && add && r < rows; ++r)
        std::copy_n(c.row(r0 + r) + n0, width, edge + r * kPanel);
      tile(rows, {.a = left + r0 * 2 * pairs,
                  .a_stride = 2 * pairs,
                  .b = right + panel * pairs * 2 * kPanel,
                  .pairs = pairs,
                  .out = whole ? c.row(r0) + n0 : edge,
                  .out_stride = whole ? c.stride() : kPanel,
                  .accumulate = add});
      for (size_t r = 0; !whole && r < rows; ++r) std::copy_n(edge + r * kPanel, width, c.row(r0 + r) + n0);
    }
  });
}

}  // namespace bertie::kernels
