#pragma once
// Dropout of hidden states: y = x∘mask, each element 0 with probability `rate`, else 1/(1 − rate); backward
// dx = dy∘mask. The mask is a pure function of (seed, the row's number, the column), so it is not stored: the
// backward pass draws it again, and a row has the same mask in any batch, on any rank.
//
// One call of Philox gives 128 bits, 16 for each of 8 columns that lie 16 apart, as in attention (which
// counts keys in place of columns, see attention/dropout.h). Its counter is (the row's low half,
// column/128·16 + column%16, kRowDropoutStream, the row's high half).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "bertie/dropout.h"
#include "bertie/view.h"
#include "core/parallel.h"

namespace bertie::kernels {

// Stands where attention has the head's number.
inline constexpr uint32_t kRowDropoutStream = 0xFFFFFFFF;

struct RowDropout {
  Dropout dropout = {};  // rate 0: none
  // Each row's number: (sequence << 32 | position) where there are sequences.
  std::span<const uint64_t> rows = {};
};

// A number is dropped when its 16 bits are below this: rate·65536, rounded, 65535 at most.
inline uint32_t dropout_threshold(float rate) {
  if (rate == 0) return 0;  // asked for every row
  return uint32_t(std::clamp(std::lround(double(rate) * 65536), 0L, 65535L));
}

// What a kept number is multiplied by.
inline double dropout_growth(uint32_t threshold) { return 65536.0 / (65536.0 - threshold); }

// Column c of the row with this number: 0 or 1/(1 − rate). The specification.
double dropout_factor(const Dropout& dropout, uint64_t row, size_t column);

// y = x∘mask; y may be x. Forward and backward are the same.
void dropout_rows(Matrix<const float> x, const RowDropout& dropout, Matrix<float> y, Team& team);

}  // namespace bertie::kernels
