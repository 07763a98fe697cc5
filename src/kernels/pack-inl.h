// Packing for products: what becomes a panel of 32 columns (see gemm.h). Included once per instruction set.
#if defined(BERTIE_KERNELS_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_PACK_INL_H_
#undef BERTIE_KERNELS_PACK_INL_H_
#else
#define BERTIE_KERNELS_PACK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "bertie/view.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[r·32 + c] = from(r, c) for up to 32 columns; those that are missing are 0.
HWY_INLINE void copy_panel(Matrix<const float> from, float* to) {
  const hn::ScalableTag<float> d;
  const size_t width = from.cols();
  for (size_t r = 0; r < from.rows(); ++r, to += kPanel) {
    const float* row = from.row(r);
    if (width == kPanel) {
      for (size_t c = 0; c < kPanel; c += hn::Lanes(d)) hn::StoreU(hn::LoadU(d, row + c), d, to + c);
    } else {
      std::copy_n(row, width, to);
      std::fill(to + width, to + kPanel, 0.0f);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four numbers from each of the rows first, first + 4, first + 8 …, as many as a vector holds.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, Matrix<const float> from, size_t first, size_t c) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from.row(first) + c);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, from, first + hn::MaxLanes(half), c),
                       load_blocks(half, from, first, c));
  }
}
#endif

// to[c·32 + j] = factor·from(j, c) for up to 32 rows; those that are missing are 0.
HWY_INLINE void transpose_panel(Matrix<const float> from, float factor, float* to) {
  const size_t d = from.cols(), rows = from.rows();
  size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> tag;
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());
  const auto f = hn::Set(tag, factor);
  for (; j + kLanes <= rows; j += kLanes) {
    size_t c = 0;
    for (; c + 4 <= d; c += 4) {
      const auto r0 = load_blocks(tag, from, j, c), r1 = load_blocks(tag, from, j + 1, c);
      const auto r2 = load_blocks(tag, from, j + 2, c), r3 = load_blocks(tag, from, j + 3, c);
      const auto low02 = hn::InterleaveLower(tag, r0, r2), low13 = hn::InterleaveLower(tag, r1, r3);
      const auto high02 = hn::InterleaveUpper(tag, r0, r2), high13 = hn::InterleaveUpper(tag, r1, r3);
      hn::StoreU(hn::Mul(f, hn::InterleaveLower(tag, low02, low13)), tag, to + c * kPanel + j);
      hn::StoreU(hn::Mul(f, hn::InterleaveUpper(tag, low02, low13)), tag, to + (c + 1) * kPanel + j);
      hn::StoreU(hn::Mul(f, hn::InterleaveLower(tag, high02, high13)), tag, to + (c + 2) * kPanel + j);
      hn::StoreU(hn::Mul(f, hn::InterleaveUpper(tag, high02, high13)), tag, to + (c + 3) * kPanel + j);
    }
    for (; c < d; ++c)
      for (size_t i = 0; i < kLanes; ++i) to[c * kPanel + j + i] = factor * from(j + i, c);
  }
#endif
  for (; j < rows; ++j)
    for (size_t c = 0; c < d; ++c) to[c * kPanel + j] = factor * from(j, c);
  for (size_t c = 0; rows < kPanel && c < d; ++c)
    std::fill(to + c * kPanel + rows, to + (c + 1) * kPanel, 0.0f);
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
