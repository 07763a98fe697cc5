// What the forward and the backward pass of dot-product attention share: packing, scores, and the masks.
// Included once per instruction set.
#if defined(BERTIE_ATTENTION_DOT_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BERTIE_ATTENTION_DOT_PRODUCT_INL_H_
#undef BERTIE_ATTENTION_DOT_PRODUCT_INL_H_
#else
#define BERTIE_ATTENTION_DOT_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/dropout.h"
#include "attention/head.h"
#include "kernels/pack-inl.h"
#include "kernels/philox-inl.h"
#include "kernels/softmax-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::dot_product::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace kn = kernels::HWY_NAMESPACE;
using kn::transpose_panel;

inline constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());

// The norms of a transposed panel's 32 keys of d numbers each; Inf where a key holds NaN.
HWY_INLINE void panel_norms(const float* panel, size_t d, float* norms) {
  const hn::ScalableTag<float> tag;
  const auto infinity = hn::Set(tag, std::numeric_limits<float>::infinity());
  for (size_t v = 0; v < kPanel; v += kLanes) {
    auto even = hn::Zero(tag), odd = hn::Zero(tag);  // two chains: one would wait for itself
    size_t c = 0;
    for (; c + 2 <= d; c += 2) {
      const auto x = hn::LoadU(tag, panel + c * kPanel + v), y = hn::LoadU(tag, panel + (c + 1) * kPanel + v);
      even = hn::MulAdd(x, x, even), odd = hn::MulAdd(y, y, odd);
    }
    if (c < d) {
      const auto x = hn::LoadU(tag, panel + c * kPanel + v);
      even = hn::MulAdd(x, x, even);
    }
    const auto squares = hn::Add(even, odd);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(squares), infinity, hn::Sqrt(squares)), tag, norms + v);
  }
}

// Rows in panels of 32 columns, each `panel_rows` rows apart from the next: what a product takes as its right
// side. Missing columns are 0. Returns whether all numbers are finite.
HWY_INLINE bool pack_rows(Matrix<const float> from, float* to, size_t panel_rows) {
  const hn::ScalableTag<float> d;
  auto finite = hn::FirstN(d, kLanes);
  bool rest = true;
  for (size_t r = 0; r < from.rows(); ++r)
    for (size_t c0 = 0; c0 < from.cols(); c0 += kPanel) {
      const size_t width = std::min(kPanel, from.cols() - c0);
      const float* row = from.row(r) + c0;
      float* into = to + c0 * panel_rows + r * kPanel;
      size_t c = 0;
      for (; c + kLanes <= width; c += kLanes) {
        const auto x = hn::LoadU(d, row + c);
        finite = hn::And(finite, hn::IsFinite(x));
        hn::StoreU(x, d, into + c);
      }
      for (; c < width; ++c) rest = std::isfinite(into[c] = row[c]) && rest;
      for (; c < kPanel; ++c) into[c] = 0;
    }
  return rest && hn::AllTrue(d, finite);
}

HWY_INLINE float norm(std::span<const float> x) {
  const hn::ScalableTag<float> d;
  auto squares = hn::Zero(d);
  float rest = 0;
  size_t c = 0;
  for (; c + kLanes <= x.size(); c += kLanes) {
    const auto v = hn::LoadU(d, x.data() + c);
    squares = hn::MulAdd(v, v, squares);
  }
  for (; c < x.size(); ++c) rest += x[c] * x[c];
  return std::sqrt(hn::GetLane(hn::SumOfLanes(d, squares)) + rest);
}

HWY_INLINE void store_scaled(const float* from, float factor, std::span<float> to) {
  const hn::ScalableTag<float> d;
  size_t c = 0;
  for (; c + kLanes <= to.size(); c += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, from + c), hn::Set(d, factor)), d, to.data() + c);
  for (; c < to.size(); ++c) to[c] = from[c] * factor;
}

HWY_INLINE void prefetch_row(std::span<const float> row) {
  for (size_t c = 0; c < row.size(); c += 16) __builtin_prefetch(row.data() + c, 0, 2);
}

// Which panels of keys j0..j1−1 a tile of `count` queries from r0 on has to compute: their numbers (from j0)
// go to `panels`, and into `masked` whether some query of the tile does not see all of the panel; then
// bits[i·stride + panel] says what query r0 + i sees. Returns how many there are.
struct Panels {
  uint32_t* panels;
  uint8_t* masked;
  uint32_t* bits;
  size_t stride;
};
HWY_INLINE size_t find_panels(const Pattern& pattern, size_t r0, size_t count, size_t j0, size_t j1,
                              const Panels& to) {
  const size_t panels = (j1 - j0 + kPanel - 1) / kPanel, tail = (j1 - j0) % kPanel;
  if (pattern.full()) {
    for (size_t p = 0; p < panels; ++p) to.panels[p] = uint32_t(p), to.masked[p] = 0;
    if (tail != 0) {
      to.masked[panels - 1] = 1;
      for (size_t i = 0; i < count; ++i) to.bits[i * to.stride + panels - 1] = (1u << tail) - 1;
    }
    return panels;
  }
  if (!pattern.any(r0, r0 + count, j0, j1)) return 0;
  for (size_t i = 0; i < count; ++i) pattern.row(r0 + i, j0, j1, to.bits + i * to.stride);
  size_t found = 0;
  for (size_t p = 0; p < panels; ++p) {
    uint32_t some = 0, every = ~0u;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t word = to.bits[i * to.stride + p];
      some |= word, every &= word;
    }
    if (some == 0) continue;
    to.panels[found] = uint32_t(p);
    to.masked[found++] = every != ~0u;
  }
  return found;
}

// Which lanes of a panel's vector at place v have a bit of 0.
HWY_INLINE auto unseen(uint32_t bits, size_t v) {
  static constexpr uint32_t kBit[32] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,
                                        1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13,
                                        1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
                                        1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27,
                                        1u << 28, 1u << 29, 1u << 30, 1u << 31};
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  return hn::RebindMask(d, hn::Eq(hn::And(hn::Set(du, bits), hn::LoadU(du, kBit + v)), hn::Zero(du)));
}

// x[b] = value where bit b of `bits` is 0, over a panel.
HWY_INLINE void set_unseen(float* x, uint32_t bits, float value) {
  if (bits == ~0u) return;
  const hn::ScalableTag<float> d;
  for (size_t v = 0; v < kPanel; v += kLanes)
    hn::StoreU(hn::IfThenElse(unseen(bits, v), hn::Set(d, value), hn::LoadU(d, x + v)), d, x + v);
}

// The largest of a panel's norms whose bit is set; they are not negative.
HWY_INLINE float largest_seen(const float* norms, uint32_t bits) {
  const hn::ScalableTag<float> d;
  auto largest = hn::Zero(d);
  for (size_t v = 0; v < kPanel; v += kLanes)
    largest = hn::Max(largest, hn::IfThenZeroElse(unseen(bits, v), hn::LoadU(d, norms + v)));
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// The scores of `count` queries and one packed panel of keys, in powers of two: k is packed times log₂e.
//   dot       start[i] + Σ_c q[i,c]·k[c,j]
//   additive  start[i] + Σₐ u[a]·tanh(q[i,a] + k[a,j])
HWY_INLINE void score_panel(const AttentionHead& h, size_t count, Matrix<const float> q, const float* k,
                            const float* start, float* out, size_t stride) {
  const size_t size = q.cols();
  if (h.additive.empty())
    return kn::tile(count, {.a = q.data(),
                            .a_stride = q.stride(),
                            .b = k,
                            .k_count = size,
                            .out = out,
                            .out_stride = stride,
                            .start = start});
  const hn::ScalableTag<float> d;
  for (size_t i = 0; i < count; ++i)
    for (size_t v = 0; v < kPanel; v += kLanes) {
      auto sum = hn::Set(d, start ? start[i] : 0.0f);
      for (size_t a = 0; a < size; ++a) {
        const auto x = hn::Add(hn::Set(d, q(i, a)), hn::LoadU(d, k + a * kPanel + v));
        sum = hn::MulAdd(hn::Set(d, h.additive[a] * kLog2e), kn::tanh(d, x), sum);
      }
      hn::StoreU(sum, d, out + i * stride + v);
    }
}

// Which weights of query i survive dropout, a panel of keys at a time.
HWY_INLINE kn::Keep kept_keys(const AttentionHead& h, size_t i) {
  return {uint32_t(i), uint32_t(h.head), uint32_t(h.sequence), h.dropout.seed, h.drop_below};
}

// Adaptive span: the factor of key j for a query at `position`.
HWY_INLINE float ramp_factor(const Pattern& pattern, int64_t position, int64_t j) {
  const float distance = float(position > j ? position - j : j - position);
  return std::clamp((pattern.ramp() + pattern.span() - distance) / pattern.ramp(), 0.0f, 1.0f);
}

}  // namespace bertie::dot_product::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
