// The gradients of a linear layer's weights; those of its input are a product like the forward one (gemm.cc).
#include <algorithm>
#include <cassert>

#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

inline constexpr size_t kTokens = kSlice / 4;  // that are summed up in one go

// bias[0..31] += the sum of the rows of a packed panel.
HWY_INLINE void add_rows(const float* panel, size_t rows, float* bias) {
  const hn::ScalableTag<float> d;
  for (size_t c = 0; c < kPanel; c += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, bias + c);
    for (size_t r = 0; r < rows; ++r) sum = hn::Add(sum, hn::LoadU(d, panel + r * kPanel + c));
    hn::StoreU(sum, d, bias + c);
  }
}

// The weights of inputs k0.. (x has these columns only) and of panels [first, last). Tokens go in slices: a
// slice of x stays in L2 while it meets one panel of dy after another, which is packed into L1, and the sums
// so far wait in the gradient.
void weight_panels(Matrix<const float> x, size_t k0, Matrix<const float> dy, const Linear& gradient,
                   size_t first, size_t last) {
  const RowTiles tiles(x.cols());
  HWY_ALIGN float packed[kTokens * kPanel];
  for (size_t t0 = 0; t0 < x.rows(); t0 += kTokens) {
    const size_t tokens = std::min(kTokens, x.rows() - t0);
    for (size_t panel = first; panel < last; ++panel) {
      const size_t n0 = panel * kPanel, width = std::min(kPanel, gradient.outputs - n0);
      copy_panel(dy.slice_rows(t0, tokens).slice_cols(n0, width), packed);
      if (k0 == 0 && gradient.bias) add_rows(packed, tokens, gradient.bias + n0);
      float* to = gradient.packed + (panel * gradient.inputs + k0) * kPanel;
      for (size_t tile = 0; tile < tiles.count; ++tile) {
        const size_t r0 = tiles.begin(tile);
        tile_transposed(tiles.begin(tile + 1) - r0, {.a = x.row(t0) + r0,
                                                     .a_stride = x.stride(),
                                                     .b = packed,
                                                     .k_count = tokens,
                                                     .out = to + r0 * kPanel,
                                                     .out_stride = kPanel,
                                                     .accumulate = true});
      }
    }
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(weight_panels);

size_t linear_backward_weights_workspace(const Linear&, size_t) { return 0; }

void linear_backward_weights(Matrix<const float> x, Matrix<const float> dy, const Linear& gradient, float*,
                             Team& team) {
  assert(x.rows() == dy.rows() && x.cols() == gradient.inputs && dy.cols() == gradient.outputs);
  // Inputs go in blocks of which 256 tokens take about a third of an L2 cache, panels in groups: enough
  // chunks for every thread.
  constexpr size_t kBlock = 640;
  const size_t panels = panels_for(gradient.outputs), blocks = (gradient.inputs + kBlock - 1) / kBlock;
  const size_t groups = std::min(panels, std::max(size_t{4}, 16 / blocks));
  const auto multiply = HWY_DYNAMIC_DISPATCH(weight_panels);
  team.parallel_for(blocks * groups, [&](size_t chunk) {
    const size_t block = chunk / groups, group = chunk % groups;
    const size_t k0 = block * gradient.inputs / blocks, k1 = (block + 1) * gradient.inputs / blocks;
    multiply(x.slice_cols(k0, k1 - k0), k0, dy, gradient, group * panels / groups,
             (group + 1) * panels / groups);
  });
}

}  // namespace bertie::kernels
#endif
