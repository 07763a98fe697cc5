#include "kernels/embedding.h"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y += factor·x
void add_scaled(std::span<const float> x, float factor, float* y) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= x.size(); c += lanes)
    hn::StoreU(hn::MulAdd(hn::Set(d, factor), hn::LoadU(d, x.data() + c), hn::LoadU(d, y + c)), d, y + c);
  for (; c < x.size(); ++c) y[c] += factor * x[c];
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(add_scaled);

void embedding_backward(std::span<const int32_t> rows, Matrix<const float> dy, float factor,
                        Matrix<float> d_table, Team& team) {
  assert(rows.size() == dy.rows() && dy.cols() == d_table.cols());
  // Threads share the columns, so each row of the table hears of its tokens in order.
  constexpr size_t kColumns = 128;
  const auto add = HWY_DYNAMIC_DISPATCH(add_scaled);
  team.parallel_for((dy.cols() + kColumns - 1) / kColumns, [&](size_t chunk) {
    const size_t first = chunk * kColumns, count = std::min(kColumns, dy.cols() - first);
    for (size_t t = 0; t < rows.size(); ++t) {
      assert(rows[t] >= 0 && size_t(rows[t]) < d_table.rows());
      add({dy.row(t) + first, count}, factor, d_table.row(size_t(rows[t])) + first);
    }
  });
}

}  // namespace bertie::kernels
#endif
