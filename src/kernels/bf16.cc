#include "kernels/bf16.h"

#include <cmath>

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

void round_rows(Matrix<const float> from, uint16_t* to) {
  for (size_t r = 0; r < from.rows(); ++r) {
    for (float x : from[r]) *to++ = to_bf16(x);
    if (from.cols() % 2 == 1) *to++ = 0;
  }
}

void round_panel(Matrix<const float> from, uint16_t* to) {
  for (size_t r = 0; r < from.rows() + from.rows() % 2; ++r)
    for (size_t j = 0; j < kPanel; ++j)
      to[(r / 2 * kPanel + j) * 2 + r % 2] =
          r < from.rows() && j < from.cols() ? to_bf16(from(r, j)) : uint16_t{0};
}

}  // namespace bertie::kernels
