#include "kernels/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <utility>

#include "core/arena.h"
#include "core/system.h"
#include "kernels/amx.h"
#include "kernels/instruction_set.h"
#include "kernels/int8.h"
#include "kernels/schedule.h"

#ifndef BERTIE_KERNELS_GEMM_CC_
#define BERTIE_KERNELS_GEMM_CC_
namespace bertie::kernels {
// Where a product goes: y = f(product), or, if there is a place for `activated`, y as it is before f.
struct LinearOutput {
  Matrix<float> y, activated = {};
  Activation f = Activation::kNone;
  bool accumulate = false;  // y is added to
  Products products = Products::kFloat32;

  LinearOutput slice_rows(size_t first, size_t count) const {
    const auto part = [&](Matrix<float> m) { return m.empty() ? m : m.slice_rows(first, count); };
    return {part(y), part(activated), f, accumulate, products};
  }
};
// Inputs that are summed up in one go where weights are widened for a single tile: 16 KiB of floats, which
// stay in L1. More tiles read them again and again, and longer sums pay more.
inline constexpr size_t kWidenedSlice = 128;
// A slice of a panel for this thread.
inline float* widening_buffer() {
  static thread_local Block slice(kSlice * kPanel * sizeof(float));
  return slice.as<float>();
}
// The same in pairs of bf16.
inline float* pair_buffer() {
  static thread_local Block slice(kSlice / 2 * kPanel * sizeof(float));
  return slice.as<float>();
}
// The numbers that are summed up in one go: with AMX a slice of a panel in pairs takes 32 KiB of L1.
inline size_t slice_of(Products products) { return products == Products::kAmx ? kSlice / 2 : kSlice; }
}  // namespace bertie::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/math-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

// So many numbers of a panel as floats, which may be in this thread's buffer.
const float* as_floats(const float* from, size_t) { return from; }
const float* as_floats(const BFloat16* from, size_t count) {
  float* const to = widening_buffer();
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  for (size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, bits + i)))), d, to + i);
  return to;
}

// Panels [first, last) of y for a block of rows. K goes in slices: a slice of x stays in L2 while slices
// of one panel after another pass through L1, and the sums so far wait in y. Adding in slices is bitwise
// the same as adding in one go. For products of bf16 x comes in pairs, and panels are made into pairs on the
// way. `then` is the panel that this thread will probably want after that.
void linear_panels(Matrix<const float> x, const Linear& layer, size_t first, size_t last, size_t then,
                   const LinearOutput& to) {
  const auto [y, activated, f, accumulate, products] = to;
  const bool in_pairs = are_bf16(products), amx = products == Products::kAmx;
  const RowTiles tiles(x.rows(), products);
  const AmxScope scope(amx);
  const size_t number = bytes_of(layer.format);
  const size_t slice = number == sizeof(float) || tiles.count > 1 ? slice_of(products) : kWidenedSlice;
  const auto place = [&](size_t panel, size_t k) { return (panel * layer.inputs + k) * kPanel; };
  float* const panel_pairs = in_pairs ? pair_buffer() : nullptr;
  for (size_t k0 = 0; k0 < layer.inputs; k0 += slice) {
    const size_t k_count = std::min(slice, layer.inputs - k0);
    const bool final_slice = k0 + k_count == layer.inputs;
    const bool with_bias = amx ? k0 == 0 : final_slice;
    const size_t steps = steps_of(k_count, products);
    const Matrix<const float> a = x.slice_cols(steps_of(k0, products), steps);
    for (size_t panel = first; panel < last; ++panel) {
      const size_t n0 = panel * kPanel, width = std::min(kPanel, layer.outputs - n0);
      const float* b = layer.with_numbers(
          [&](auto* numbers) { return as_floats(numbers + place(panel, k0), k_count * kPanel); });
      if (in_pairs) {
        pair_panel(b, k_count, panel_pairs);
        if (amx) fill_amx_step(panel_pairs, steps);
        b = panel_pairs;
      }
      // What comes next: this slice of the next panel, or the next slice of the first.
      size_t next_panel = panel + 1, next_k = k0;
      if (next_panel == last)
        next_panel = final_slice ? then : first, next_k = final_slice ? 0 : k0 + k_count;
      const bool any = next_panel < panels_for(layer.outputs);
      const auto* next = any ? reinterpret_cast<const float*>(static_cast<const std::byte*>(layer.packed) +
                                                              place(next_panel, next_k) * number)
                             : nullptr;
      const size_t next_floats =
          any ? kPanel * std::min(slice, layer.inputs - next_k) * number / sizeof(float) : 0;
      for (size_t t = 0; t < tiles.count; ++t) {
        const size_t r0 = tiles.begin(t), rows = tiles.begin(t + 1) - r0;
        const TileArgs args{.a = a.row(r0),
                            .a_stride = a.stride(),
                            .b = b,
                            .k_count = steps,
                            .out = y.row(r0) + n0,
                            .out_stride = y.stride(),
                            .bias = with_bias && layer.bias ? layer.bias + n0 : nullptr,
                            .accumulate = accumulate || k0 > 0,
                            .next = Lines::of_run(next, next_floats, t, tiles.count),
                            .products = products};
        multiply_tile(rows, args, width);
        if (!final_slice) continue;
        if (activated.empty()) {
          activate_rows(f, y.row(r0) + n0, rows, width, y.stride());
        } else {
          for (size_t r = r0; r < r0 + rows; ++r) std::copy_n(y.row(r) + n0, width, activated.row(r) + n0);
          activate_rows(f, activated.row(r0) + n0, rows, width, activated.stride());
        }
      }
    }
  }
}

// Panel `panel` of the same weights packed the other way round: inputs 32·panel.. as columns.
void transpose_weights(const Linear& layer, size_t panel, float* packed) {
  const size_t k0 = panel * kPanel, count = std::min(kPanel, layer.inputs - k0);
  for (size_t n0 = 0; n0 < layer.outputs; n0 += kPanel) {
    const size_t width = std::min(kPanel, layer.outputs - n0);
    transpose_panel({layer.floats() + n0 * layer.inputs + k0 * kPanel, count, width, kPanel}, 1.0f,
                    packed + k0 * layer.outputs + n0 * kPanel);
  }
}

// Rows of x in pairs.
void pair_rows(Matrix<const float> x, Matrix<float> to) {
  for (size_t r = 0; r < x.rows(); ++r) pair_row(x.row(r), x.cols(), to.row(r));
}

bool is_built_for_bf16() { return BERTIE_BF16_PRODUCTS; }

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

// Here, because every model needs this file: before main(), and so before the first kernel.
[[maybe_unused]] static const bool kLimited = limit_instruction_set();

HWY_EXPORT(is_built_for_bf16);
HWY_EXPORT(linear_panels);
HWY_EXPORT(pair_rows);
HWY_EXPORT(transpose_weights);

namespace {

// Calls visit(place in the packed weights, row of w, column) for W[first_row.., :].
void for_packed(const Linear& layer, size_t first_row, size_t rows, const auto& visit) {
  for (size_t r = 0; r < rows;) {
    const size_t n = first_row + r, lane = n % kPanel, count = std::min(kPanel - lane, rows - r);
    const size_t begin = n / kPanel * kPanel * layer.inputs + lane;
    for (size_t k = 0; k < layer.inputs; ++k)
      for (size_t i = 0; i < count; ++i) visit(begin + k * kPanel + i, r + i, k);
    r += count;
  }
}

}  // namespace

size_t Linear::packed_bytes() const {
  return is_int8() ? Int8Layer(*this).bytes() : packed_floats(outputs, inputs) * bytes_of(format);
}

void pack_rows(Matrix<const float> w, size_t first_row, const Linear& into) {
  assert(w.cols() == into.inputs && first_row + w.rows() <= into.outputs);
  if (into.is_int8()) {
    const Int8Layer layer(into);
    for (size_t r = 0; r < w.rows(); ++r) {
      const size_t n = first_row + r;
      float sum = 0;  // exact: of so few integers
      for (size_t k = 0; k < w.cols(); ++k) layer.weight(n, k) = int8_t(w(r, k)), sum += w(r, k);
      layer.sums(n / kPanel)[n % kPanel] = sum;
    }
    return;
  }
  into.with_numbers([&]<class Number>(Number* to) {
    for_packed(into, first_row, w.rows(), [&](size_t i, size_t r, size_t k) { to[i] = Number(w(r, k)); });
  });
}

void unpack_rows(const Linear& from, size_t first_row, Matrix<float> w) {
  assert(w.cols() == from.inputs && first_row + w.rows() <= from.outputs && !from.is_int8());
  from.with_numbers([&](auto* in) {
    for_packed(from, first_row, w.rows(), [&](size_t i, size_t r, size_t k) { w(r, k) = float(in[i]); });
  });
}

float weight_at(const Linear& l, size_t row, size_t column) {
  if (l.is_int8()) return Int8Layer(l).weight(row, column);
  const size_t i = (row / kPanel * l.inputs + column) * kPanel + row % kPanel;
  return l.with_numbers([&](auto* numbers) { return float(numbers[i]); });
}

namespace {

Schedule schedule_of(size_t rows, const Linear& layer, size_t threads, Products products) {
  const size_t slice_bytes =
      layer.is_int8() ? int8_row_floats(layer.inputs) * sizeof(float)
                      : steps_of(std::max<size_t>(1, std::min(layer.inputs, slice_of(products))), products) *
                            sizeof(float);
  return {rows, panels_for(layer.outputs), l2_cache_bytes() / 8 * 5 / slice_bytes, threads};
}

// x as the products want it: as it is, in pairs of bf16, or in integers, in memory of the calling thread.
Matrix<const float> left_side(Matrix<const float> x, const Linear& layer, Products products, Team& team) {
  if (!layer.is_int8() && !are_bf16(products)) return x;
  // Rows that are whole pages apart would share a few lines of L1: these lie a line further apart. AMX reads
  // whole tiles of rows.
  const size_t cols = layer.is_int8() ? int8_row_floats(x.cols()) : steps_of(x.cols(), products);
  const size_t stride = round_up(cols, 16) + 16, bytes = (x.rows() + kAmxRows) * stride * sizeof(float);
  static thread_local Block block;
  if (block.size() < bytes) block = Block(bytes);
  const Matrix<float> left(block.as<float>(), x.rows(), cols, stride);
  const auto pair = HWY_DYNAMIC_DISPATCH(pair_rows);
  constexpr size_t kTogether = 16;
  team.parallel_for((x.rows() + kTogether - 1) / kTogether, [&](size_t chunk) {
    const size_t first = chunk * kTogether, rows = std::min(kTogether, x.rows() - first);
    const Matrix<const float> from = x.slice_rows(first, rows);
    if (layer.is_int8())
      quantize_rows(from, layer, left.slice_rows(first, rows));
    else
      pair(from, left.slice_rows(first, rows));
  });
  return left;
}

void compute(const Schedule::Chunk& c, Matrix<const float> x, const Linear& layer, const LinearOutput& to) {
  const size_t rows = c.r1 - c.r0;
  if (layer.is_int8())
    return int8_panels(x.slice_rows(c.r0, rows), layer, c.first, c.last, c.then,
                       {to.y.slice_rows(c.r0, rows), to.f});
  HWY_DYNAMIC_DISPATCH(linear_panels)
  (x.slice_rows(c.r0, rows), layer, c.first, c.last, c.then, to.slice_rows(c.r0, rows));
}

void compute(Matrix<const float> x, const Linear& layer, const LinearOutput& to, Team& team) {
  assert(x.cols() == layer.inputs && to.y.cols() == layer.outputs && x.rows() == to.y.rows());
  if (x.rows() == 0) return;
  const Schedule schedule = schedule_of(x.rows(), layer, size_t(team.threads()), to.products);
  const Matrix<const float> left = left_side(x, layer, to.products, team);
  team.parallel_for(schedule.chunks(), [&](size_t chunk) { compute(schedule[chunk], left, layer, to); });
}

}  // namespace

Products products_here([[maybe_unused]] Products wanted) {
#if defined(__x86_64__)
  static const bool shown = __builtin_cpu_supports("avx512bf16");
  if (are_bf16(wanted) && shown && HWY_DYNAMIC_DISPATCH(is_built_for_bf16)())
    return wanted == Products::kAmx && has_amx() ? Products::kAmx : Products::kBFloat16;
#endif
  return Products::kFloat32;
}

void linear_forward(Matrix<const float> x, const Linear& layer, Activation f, Matrix<float> y, Team& team,
                    Matrix<float> before, Products products) {
  assert(!layer.is_int8() || before.empty());
  LinearOutput to{.y = y, .f = f, .products = products_here(products)};
  if (!before.empty()) to.y = before, to.activated = y;
  compute(x, layer, to, team);
}

size_t linear_backward_input_workspace(const Linear& layer) {
  return packed_floats(layer.inputs, layer.outputs);
}

void linear_backward_input(Matrix<const float> dy, const Linear& layer, Matrix<float> dx, float* workspace,
                           Team& team, Accumulate accumulate, Products products) {
  assert(layer.format == WeightFormat::kFloat32);
  if (dy.rows() == 0) return;
  const Linear other_way{.packed = workspace, .inputs = layer.outputs, .outputs = layer.inputs};
  const auto transpose = HWY_DYNAMIC_DISPATCH(transpose_weights);
  team.parallel_for(panels_for(layer.inputs), [&](size_t panel) { transpose(layer, panel, workspace); });
  compute(dy, other_way,
          {.y = dx, .accumulate = accumulate == Accumulate::kYes, .products = products_here(products)}, team);
}

void linear_residual_layer_norm_forward(Matrix<const float> x, const Linear& layer,
                                        Matrix<const float> residual, const LayerNorm& norm, Matrix<float> y,
                                        Team& team, Matrix<float> sum, Products products) {
  if (x.rows() == 0) return;
  products = products_here(products);
  assert(y.data() != x.data() && y.data() != residual.data());
  const Matrix<float> product = sum.empty() ? y : sum;
  const auto normalize = [&](size_t first, size_t rows, Team& by) {
    const auto part = [&](auto m) { return m.slice_rows(first, rows); };
    if (sum.empty()) return residual_layer_norm_forward(part(y), part(residual), norm, part(y), by);
    for (size_t r = first; r < first + rows; ++r)
      for (size_t c = 0; c < sum.cols(); ++c) sum(r, c) += residual(r, c);
    layer_norm_forward(part(sum), norm, part(y), by);
  };
  const Schedule schedule = schedule_of(x.rows(), layer, size_t(team.threads()), products);
  if (!schedule.by_rows()) {  // few rows: all threads share the normalizing
    linear_forward(x, layer, Activation::kNone, product, team, {}, products);
    normalize(0, x.rows(), team);
    return;
  }
  const Matrix<const float> x_side = left_side(x, layer, products, team);
  // Whoever finishes a block's last chunk normalizes its rows.
  std::array<std::atomic<uint32_t>, Schedule::kMaxBlocks> left;
  for (size_t b = 0; b < schedule.blocks(); ++b)
    left[b].store(uint32_t(schedule.chunks_of(b)), std::memory_order_relaxed);
  team.parallel_for(schedule.chunks(), [&](size_t chunk) {
    const Schedule::Chunk c = schedule[chunk];
    compute(c, x_side, layer, {.y = product, .products = products});
    if (left[c.block].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const size_t r0 = schedule.block_begin(c.block), rows = schedule.block_begin(c.block + 1) - r0;
    Team alone;
    normalize(r0, rows, alone);
  });
}

}  // namespace bertie::kernels
#endif
