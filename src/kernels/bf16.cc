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

void bf16_matmul(Factor a, PanelView<const float> b, PanelView<float> c, float* workspace, Team& team,
                 Accumulate accumulate) {
  assert(a.rows() == c.rows && a.cols() == b.rows && b.cols == c.cols);
  if (c.rows == 0 || c.cols == 0) return;
  const size_t inner = b.rows, pairs = even(inner) / 2, panels = panels_for(b.cols);
  auto* const left = reinterpret_cast<uint16_t*>(workspace);
  auto* const right = reinterpret_cast<uint16_t*>(workspace + rounded_rows_floats(c.rows, inner));
  const size_t blocks = (c.rows + kRowsTogether - 1) / kRowsTogether;
  team.parallel_for(blocks + panels, [&](size_t chunk) {
    if (chunk >= blocks) {
      const size_t panel = chunk - blocks;
      round_panel(b.panel(panel), right + panel * pairs * 2 * kPanel);
      return;
    }
    const size_t r0 = chunk * kRowsTogether, r1 = std::min(c.rows, r0 + kRowsTogether);
    for (size_t r = r0; r < r1; ++r) {
      uint16_t* const row = left + r * 2 * pairs;
      for (size_t k = 0; k < inner; ++k) row[k] = to_bf16(a.data()[r * a.row_step() + k * a.col_step()]);
      if (inner % 2 == 1) row[inner] = 0;
    }
  });
  const auto tile = has_bf16_instruction() ? bf16_tile_native : bf16_tile_plain;
  team.parallel_for(blocks * panels, [&](size_t chunk) {
    const size_t block = chunk / panels, panel = chunk % panels;
    const Matrix<float> to = c.panel(panel);
    const size_t width = to.cols(), end = std::min(c.rows, (block + 1) * kRowsTogether);
    for (size_t r0 = block * kRowsTogether; r0 < end; r0 += kBf16TileRows) {
      const size_t rows = std::min(kBf16TileRows, end - r0);
      float edge[kBf16TileRows * kPanel] = {};
      const bool whole = width == kPanel, add = accumulate == Accumulate::yes;
      for (size_t r = 0; !whole && add && r < rows; ++r)
        std::copy_n(to.row(r0 + r), width, edge + r * kPanel);
      tile(rows, {.a = left + r0 * 2 * pairs,
                  .a_stride = 2 * pairs,
                  .b = right + panel * pairs * 2 * kPanel,
                  .pairs = pairs,
                  .out = whole ? to.row(r0) : edge,
                  .out_stride = whole ? to.stride() : kPanel,
                  .accumulate = add});
      for (size_t r = 0; !whole && r < rows; ++r) std::copy_n(edge + r * kPanel, width, to.row(r0 + r));
    }
  });
}

size_t mixed_workspace(const Linear& layer, size_t rows) {
  const size_t in = layer.inputs, out = layer.outputs;
  return std::max({bf16_matmul_workspace(rows, in, out), bf16_matmul_workspace(rows, out, in),
                   bf16_matmul_workspace(in, rows, out)});
}

void mixed_forward(Matrix<const float> x, const Linear& layer, Activation f, Matrix<float> y, float* rounded,
                   Team& team, Matrix<float> before) {
  if (!rounded) return linear_forward(x, layer, f, y, team, before);
  const Matrix<float> sum = before.empty() ? y : before;
  const size_t blocks = (x.rows() + kRowsTogether - 1) / kRowsTogether;
  const auto for_rows = [&](const auto& work) {
    team.parallel_for(blocks, [&](size_t block) {
      const size_t end = std::min(x.rows(), (block + 1) * kRowsTogether);
      for (size_t r = block * kRowsTogether; r < end; ++r) work(r);
    });
  };
  // The sum begins with the bias.
  if (layer.bias) for_rows([&](size_t r) { std::copy_n(layer.bias, layer.outputs, sum.row(r)); });
  bf16_matmul(x, Panels{layer.packed, layer.inputs, layer.outputs}, sum, rounded, team,
              layer.bias ? Accumulate::yes : Accumulate::no);
  if (f == Activation::none && before.empty()) return;
  for_rows([&](size_t r) {
    if (!before.empty()) std::copy_n(before.row(r), layer.outputs, y.row(r));
    activation_forward(f, {y.row(r), layer.outputs});
  });
}

void mixed_backward_input(Matrix<const float> dy, const Linear& layer, Matrix<float> dx, float* workspace,
                          float* rounded, Team& team, Accumulate accumulate) {
  if (!rounded) return linear_backward_input(dy, layer, dx, workspace, team, accumulate);
  // W the other way round: panel p has inputs 32p.. as columns, and a row for each output.
  team.parallel_for(panels_for(layer.inputs), [&](size_t panel) {
    const size_t k0 = panel * kPanel, count = std::min(kPanel, layer.inputs - k0);
    for (size_t n = 0; n < layer.outputs; ++n) {
      const float* from = layer.packed + (n / kPanel * layer.inputs + k0) * kPanel + n % kPanel;
      float* to = workspace + (panel * layer.outputs + n) * kPanel;
      for (size_t j = 0; j < count; ++j) to[j] = from[j * kPanel];
    }
  });
  bf16_matmul(dy, Panels{workspace, layer.outputs, layer.inputs}, dx, rounded, team, accumulate);
}

void mixed_backward_weights(Matrix<const float> x, Matrix<const float> dy, const Linear& gradient,
                            float* workspace, float* rounded, Team& team) {
  if (!rounded) return linear_backward_weights(x, dy, gradient, workspace, team);
  if (gradient.bias)
    team.parallel_for(panels_for(gradient.outputs), [&](size_t panel) {
      const Matrix<const float> part = PanelView<const float>(dy).panel(panel);
      float sum[kPanel] = {};
      std::copy_n(gradient.bias + panel * kPanel, part.cols(), sum);
      for (size_t t = 0; t < part.rows(); ++t)
        for (size_t j = 0; j < part.cols(); ++j) sum[j] += part(t, j);
      std::copy_n(sum, part.cols(), gradient.bias + panel * kPanel);
    });
  bf16_matmul(transposed(x), dy, PanelView<float>::packed(gradient.packed, gradient.inputs, gradient.outputs),
              rounded, team, Accumulate::yes);
}

}  // namespace bertie::kernels
