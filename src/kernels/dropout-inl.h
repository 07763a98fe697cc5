// Dropout of one row, in vectors: what dropout.h specifies. Included once per instruction set.
#if defined(BERTIE_KERNELS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_KERNELS_DROPOUT_INL_H_
#undef BERTIE_KERNELS_DROPOUT_INL_H_
#else
#define BERTIE_KERNELS_DROPOUT_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/dropout.h"
#include "kernels/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

class RowMask {
 public:
  RowMask(const RowDropout& dropout, size_t t)
      : RowMask(dropout, dropout.rows.empty() ? 0 : dropout.rows[t],
                dropout_threshold(dropout.dropout.rate)) {}

  bool any() const { return any_; }  // whether there is dropout at all

  // x∘mask from `column` on, a multiple of the vector's length.
  HWY_INLINE hn::Vec<hn::ScalableTag<float>> apply(hn::Vec<hn::ScalableTag<float>> x, size_t column) {
    const hn::ScalableTag<float> d;
    return hn::IfThenElseZero(keep_.mask(column), hn::Mul(x, hn::Set(d, growth_)));
  }
  HWY_INLINE float apply(float x, size_t column) {
    return keep_.bits(column / 32) >> column % 32 & 1 ? x * growth_ : 0.0f;
  }

 private:
  RowMask(const RowDropout& dropout, uint64_t row, uint32_t threshold)
      : keep_(uint32_t(row), kRowDropoutStream, uint32_t(row >> 32), dropout.dropout.seed, threshold),
        growth_(float(dropout_growth(threshold))),
        any_(threshold > 0) {}

  Keep keep_;
  float growth_;
  bool any_;
};

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
