#pragma once
// Products of numbers rounded to bf16, with sums in fp32: half the bytes, and on processors with fast bf16
// units more than half the time saved. bf16 is the upper half of a float: its exponent and 8 bits of
// fraction.
//
//   out[i, 0..31] = Σₖ a[i,k]·b[k, 0..31]         as tile-inl.h, with k in pairs; a and b in bf16
//
// b is packed in pairs: for k = 0, 2, 4 … 32 times (b[k, j], b[k+1, j]); an odd number of rows ends with 0s.
// The sum runs as the processor's instruction (VDPBF16PS) does it, and bf16_tile_plain says it in C++: of
// each pair the odd product first, every step one fused multiply-add that rounds to nearest even and takes
// denormal numbers for 0, inputs and results.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "bertie/view.h"
#include "core/parallel.h"
#include "kernels/matmul.h"

namespace bertie::kernels {

// To nearest, ties to even; what is too large becomes Inf, and NaN stays NaN.
inline uint16_t to_bf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (x != x) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }

struct Bf16TileArgs {
  const uint16_t* a;  // rows of 2·pairs numbers, stride a_stride, which is even; 4-byte aligned
  size_t a_stride;
  const uint16_t* b;  // pairs rows of 32·2, contiguous
  size_t pairs;
  float* out;  // rows of 32, stride out_stride
  size_t out_stride;
  bool accumulate = false;
};

inline constexpr size_t kBf16TileRows = 14;

// rows in 1..kBf16TileRows
void bf16_tile_plain(size_t rows, const Bf16TileArgs& t);
// The same bits by the processor's instruction; only where there is one: where CPUID shows it, or where
// BERTIE_BF16_INSTRUCTION=1 says that it runs although it is not shown (docs/adr/0012-bf16.md).
bool has_bf16_instruction();
void bf16_tile_native(size_t rows, const Bf16TileArgs& t);

// A panel of up to 32 columns in pairs: `to` has ((rows + 1)/2)·64 numbers.
void round_panel(Matrix<const float> from, uint16_t* to);

// A matrix in panels of 32 columns, each of them a matrix: packed ones, or a plain matrix's columns.
template <class T>
struct PanelView {
  PanelView(Matrix<T> m)
      : data(m.data()), rows(m.rows()), cols(m.cols()), panel_step(kPanel), row_step(m.stride()) {}
  PanelView(const Panels& p)
      : data(p.data), rows(p.rows), cols(p.cols), panel_step(p.rows * kPanel), row_step(kPanel) {}
  static PanelView packed(T* memory, size_t row_count, size_t col_count) {
    PanelView view(Matrix<T>(memory, row_count, kPanel));
    view.cols = col_count, view.panel_step = row_count * kPanel;
    return view;
  }
  Matrix<T> panel(size_t p) const {
    return {data + p * panel_step, rows, std::min(kPanel, cols - p * kPanel), row_step};
  }

  T* data;
  size_t rows, cols, panel_step, row_step;
};

// c = a·b or c += a·b as matmul.h's, with a and b rounded first.
size_t bf16_matmul_workspace(size_t rows, size_t inner, size_t columns);  // floats
void bf16_matmul(Factor a, PanelView<const float> b, PanelView<float> c, float* workspace, Team& team,
                 Accumulate accumulate = Accumulate::no);

// gemm.h's products of linear layers in training, in bf16 if there is memory for the rounded numbers:
// `rounded`, mixed_workspace floats for products one after the other. Sums, biases and results are fp32.
// Null: fp32.
size_t mixed_workspace(const Linear& layer, size_t rows);
void mixed_forward(Matrix<const float> x, const Linear& layer, Activation f, Matrix<float> y, float* rounded,
                   Team& team, Matrix<float> before = {});
void mixed_backward_input(Matrix<const float> dy, const Linear& layer, Matrix<float> dx, float* workspace,
                          float* rounded, Team& team, Accumulate accumulate = Accumulate::no);
void mixed_backward_weights(Matrix<const float> x, Matrix<const float> dy, const Linear& gradient,
                            float* workspace, float* rounded, Team& team);

}  // namespace bertie::kernels
