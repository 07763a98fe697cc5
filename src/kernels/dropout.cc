#include "kernels/dropout.h"

#include <cassert>

#include "core/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

void dropout_row(std::span<const float> x, const RowDropout& dropout, size_t t, float* y) {
  const hn::ScalableTag<float> d;
  RowMask mask(dropout, t);
  size_t c = 0;
  for (; c + hn::Lanes(d) <= x.size(); c += hn::Lanes(d))
    hn::StoreU(mask.apply(hn::LoadU(d, x.data() + c), c), d, y + c);
  for (; c < x.size(); ++c) y[c] = mask.apply(x[c], c);
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(dropout_row);

double dropout_factor(const Dropout& dropout, uint64_t row, size_t column) {
  const auto words = philox(
      {uint32_t(row), uint32_t(column / 128 * 16 + column % 16), kRowDropoutStream, uint32_t(row >> 32)},
      {uint32_t(dropout.seed), uint32_t(dropout.seed >> 32)});
  const size_t t = column % 128 / 16;  // low half of word 0, high half of word 0, low half of word 1 …
  const uint32_t threshold = dropout_threshold(dropout.rate);
  return (words[t / 2] >> (t % 2 * 16) & 0xFFFF) >= threshold ? dropout_growth(threshold) : 0;
}

void dropout_rows(Matrix<const float> x, const RowDropout& dropout, Matrix<float> y, Team& team) {
  constexpr size_t kRows = 16;
  const bool none = dropout_threshold(dropout.dropout.rate) == 0;
  if (none && x.data() == y.data()) return;
  assert(none || dropout.rows.size() == x.rows());
  const auto row = HWY_DYNAMIC_DISPATCH(dropout_row);
  team.parallel_for((x.rows() + kRows - 1) / kRows, [&](size_t chunk) {
    for (size_t t = chunk * kRows; t < std::min(x.rows(), (chunk + 1) * kRows); ++t)
      if (none)
        std::copy_n(x.row(t), x.cols(), y.row(t));
      else
        row(x[t], dropout, t, y.row(t));
  });
}

}  // namespace bertie::kernels
#endif
