// The backward pass of scaled_dot_product.h: the weights are computed again from the rows' log-sums, block by
// block. For a block of queries and a block of keys, with δ = rowsum(dO∘O) and R the ramp of an adaptive
// span,
//
//   P  = R∘2^(S − log_sum)         dV += (M∘P)ᵀ·dO        M = 0 where dropped, else 1/(1 − rate)
//   dS = P∘(M∘(dO·Vᵀ) − δ)         dQ += scale·dS·K       dK += scale·dSᵀ·Q
//
// Five products for the forward pass's two; S and dO·Vᵀ start from −log_sum and −δ instead of 0, which leaves
// one exponential and one product for each weight. A span z enters by R = (ramp + z − distance)/ramp, so
// dz = Σ dS/R/ramp over the ramp. For additive scores, s = Σₐ uₐ·tanh(qₐ + kₐ), t = tanh(qₐ + kₐ):
// du += dS·t, dq and dk += dS·u·(1 − t²).
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "attention/head.h"
#include "attention/scaled_dot_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/scaled_dot_product_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "attention/dot_product-inl.h"

#ifndef BERTIE_ATTENTION_SCALED_DOT_PRODUCT_BACKWARD_ONCE
#define BERTIE_ATTENTION_SCALED_DOT_PRODUCT_BACKWARD_ONCE
namespace bertie::dot_product {

inline constexpr size_t kQueryBlock = 126;  // whole tiles of 14 and of 6
inline constexpr size_t kBlockKeys = 256;
// Rows of P and dS: not a power of two, or the columns of a block would share a few places of the cache.
inline constexpr size_t kBlockStride = kBlockKeys + 16;
inline constexpr size_t kBlockPanels = kBlockKeys / kPanel;

struct BackwardScratch {
  float *k_t, *v_t;      // panels of 32 keys, each (D, 32) and (Dv, 32); k_t scaled
  float *q, *k, *d_out;  // panels of 32 columns, each (n or m, 32)
  float *dq, *dk,
      *dv;  // (n, D); of a block of keys (kBlockKeys, D), (kBlockKeys, Dv); widths in whole panels
  float *log_sums, *delta;  // (n), negated
  float *p, *ds;            // (kQueryBlock, kBlockStride)
  float *u, *du;            // additive scores: (A) in whole panels, and its gradient
  int32_t* random;          // Pattern's
};

struct BackwardHead {
  const AttentionHead& head;
  const Pattern& pattern;
  Matrix<const float> out, d_out;  // (n, Dv)
  Matrix<const float> log_sums;    // (n, 1)
  Matrix<float> dq, dk, dv;        // assigned
  float* d_additive;               // (A): this head's share, assigned
  float* d_span;                   // assigned
};

}  // namespace bertie::dot_product
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::dot_product::HWY_NAMESPACE {

HWY_INLINE float dot(std::span<const float> x, std::span<const float> y) {
  const hn::ScalableTag<float> d;
  auto sum = hn::Zero(d);
  float rest = 0;
  size_t c = 0;
  for (; c + kLanes <= x.size(); c += kLanes)
    sum = hn::MulAdd(hn::LoadU(d, x.data() + c), hn::LoadU(d, y.data() + c), sum);
  for (; c < x.size(); ++c) rest += x[c] * y[c];
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

// A head's rows are far apart in memory: they are called for some rows before they are used.
HWY_INLINE void prefetch_ahead(Matrix<const float> x, size_t row) {
  constexpr size_t kAhead = 8;
  if (row + kAhead < x.rows()) prefetch_row(x[row + kAhead]);
}

// NaN and Inf become 0 in what is multiplied with dS: who sees them has a dS of NaN, and who does not, whose
// dS is 0, shall not hear of them.
HWY_INLINE void pack_clean(Matrix<const float> row, float* to, size_t panel_rows) {
  if (pack_rows(row, to, panel_rows)) return;
  for (size_t c = 0; c < row.cols(); ++c)
    if (float& x = to[c / kPanel * kPanel * panel_rows + c % kPanel]; !std::isfinite(x)) x = 0;
}

void pack(const BackwardHead& g, const BackwardScratch& s) {
  const AttentionHead& h = g.head;
  const size_t n = h.q.rows(), m = h.k.rows(), d = h.q.cols(), dv = h.v.cols();
  for (size_t j = 0; j < m; j += kPanel) {
    const size_t count = std::min(kPanel, m - j);
    for (size_t i = j; i < j + count; ++i) {
      prefetch_ahead(h.k, i), prefetch_ahead(h.v, i);
      pack_clean(h.k.slice_rows(i, 1), s.k + i * kPanel, m);
    }
    transpose_panel(h.k.slice_rows(j, count), h.packed_scale(), s.k_t + j * d);
    transpose_panel(h.v.slice_rows(j, count), 1.0f, s.v_t + j * dv);
  }
  for (size_t i = 0; i < n; ++i) {
    prefetch_ahead(h.q, i), prefetch_ahead(g.out, i), prefetch_ahead(g.d_out, i);
    pack_clean(h.q.slice_rows(i, 1), s.q + i * kPanel, n);
    pack_rows(g.d_out.slice_rows(i, 1), s.d_out + i * kPanel, n);
    s.log_sums[i] = -g.log_sums(i, 0);
    s.delta[i] = -dot(g.out[i], g.d_out[i]);
  }
  std::fill_n(s.dq, n * round_up(d, kPanel), 0.0f);
}

// A row of a panel: x becomes P and g, which holds dO·Vᵀ − δ, becomes dS.
HWY_INLINE void weigh_panel(float* x, float* g) {
  const hn::ScalableTag<float> d;
  for (size_t v = 0; v < kPanel; v += kLanes) {
    const auto p = kn::exp2(d, hn::LoadU(d, x + v));
    hn::StoreU(p, d, x + v);
    hn::StoreU(hn::Mul(p, hn::LoadU(d, g + v)), d, g + v);
  }
}

// The same with dropout: g holds dO·Vᵀ, and x becomes M∘P.
HWY_INLINE void weigh_panel_dropping(float* x, float* g, uint32_t keep, float growth, float minus_delta) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float p[kPanel];
  for (size_t v = 0; v < kPanel; v += kLanes) {
    const auto weight = kn::exp2(d, hn::LoadU(d, x + v));
    hn::Store(weight, d, p + v);
    hn::StoreU(hn::Mul(weight, hn::Set(d, growth)), d, x + v);
  }
  set_unseen(x, keep, 0.0f);
  set_unseen(g, keep, 0.0f);
  for (size_t v = 0; v < kPanel; v += kLanes)
    hn::StoreU(hn::Mul(hn::Load(d, p + v),
                       hn::MulAdd(hn::LoadU(d, g + v), hn::Set(d, growth), hn::Set(d, minus_delta))),
               d, g + v);
}

// Multiplies a row's panel of P and dS, keys from j on, by the ramp; returns Σ dS/R/ramp over it.
HWY_INLINE float apply_ramp(const Pattern& pattern, int64_t position, int64_t j, float* p, float* ds) {
  float d_span = 0;
  for (size_t b = 0; b < kPanel; ++b) {
    const float factor = ramp_factor(pattern, position, j + int64_t(b));
    if (factor < 1 && factor > 0) d_span += ds[b] / pattern.ramp();
    p[b] *= factor, ds[b] *= factor;
  }
  return d_span;
}

// What additive scores make of query i's dS of a panel of keys, j.. of the block that begins at j0: vectors
// along A.
void additive_backward(const BackwardHead& g, const BackwardScratch& s, size_t i, size_t j, size_t j0,
                       size_t keys, const float* ds) {
  const hn::ScalableTag<float> d;
  const size_t n = g.head.q.rows(), m = g.head.k.rows(), padded = round_up(g.head.q.cols(), kPanel);
  for (size_t a = 0; a < padded; a += kLanes) {
    const size_t panel = a / kPanel * kPanel,
                 in_panel = a % kPanel;  // q and k are packed in panels of columns
    const auto q = hn::LoadU(d, s.q + panel * n + i * kPanel + in_panel), u = hn::LoadU(d, s.u + a);
    auto dq = hn::LoadU(d, s.dq + i * padded + a), du = hn::LoadU(d, s.du + a);
    for (size_t c = 0; c < keys; ++c) {
      if (ds[c] == 0) continue;
      const auto t = kn::tanh(d, hn::Add(q, hn::LoadU(d, s.k + panel * m + (j + c) * kPanel + in_panel)));
      du = hn::MulAdd(hn::Set(d, ds[c]), t, du);
      const auto ds_u = hn::Mul(hn::Set(d, ds[c]), u), t2 = hn::Mul(t, t);
      const auto dx = hn::NegMulAdd(ds_u, t2, ds_u);
      float* dk = s.dk + (j - j0 + c) * padded + a;
      hn::StoreU(hn::Add(hn::LoadU(d, dk), dx), d, dk);
      dq = hn::NegMulAdd(ds_u, t2, dq);  // a row's dS add up to 0, so of ds·u·(1 − t²) only −ds·u·t² is left
    }
    hn::StoreU(dq, d, s.dq + i * padded + a);
    hn::StoreU(du, d, s.du + a);
  }
}

// P and dS of one tile of queries and a block of keys, and its part of dQ. `found` panels of the block hold
// something; the rest of the rows become 0.
void tile_backward(const BackwardHead& g, const BackwardScratch& s, size_t row, size_t q0, size_t count,
                   size_t j0, size_t j1, const Panels& found, size_t panels) {
  const AttentionHead& h = g.head;
  const size_t d = h.q.cols(), dv = h.v.cols(), d_padded = round_up(d, kPanel), m = h.k.rows();
  const size_t all = (j1 - j0 + kPanel - 1) / kPanel, i0 = q0 + row;
  float *const p = s.p + row * kBlockStride, *const ds = s.ds + row * kBlockStride;
  uint32_t keep[kernels::kTileRowsLimit * kBlockPanels];
  for (size_t i = 0; h.drop_below && i < count; ++i) {
    kn::Keep of_row = kept_keys(h, i0 + i);
    for (size_t b = 0; b < all; ++b) keep[i * kBlockPanels + b] = of_row.bits(j0 / kPanel + b);
  }
  for (size_t b = 0, u = 0; b < all; ++b) {
    float *const panel_p = p + b * kPanel, *const panel_ds = ds + b * kPanel;
    const size_t j = j0 + b * kPanel;
    if (u == panels || found.panels[u] != b) {
      for (size_t i = 0; i < count; ++i) {
        std::fill_n(panel_p + i * kBlockStride, kPanel, 0.0f);
        std::fill_n(panel_ds + i * kBlockStride, kPanel, 0.0f);
      }
      continue;
    }
    score_panel(h, count, h.q.slice_rows(i0, count), s.k_t + j * d, s.log_sums + i0, panel_p, kBlockStride);
    if (dv == 0)  // dO·Vᵀ − δ is 0 − 0
      for (size_t i = 0; i < count; ++i) std::fill_n(panel_ds + i * kBlockStride, kPanel, 0.0f);
    else
      kn::tile(count, {.a = g.d_out.row(i0),
                       .a_stride = g.d_out.stride(),
                       .b = s.v_t + j * dv,
                       .k_count = dv,
                       .out = panel_ds,
                       .out_stride = kBlockStride,
                       .start = h.drop_below ? nullptr : s.delta + i0});
    for (size_t i = 0; i < count; ++i) {
      float *const x = panel_p + i * kBlockStride, *const dx = panel_ds + i * kBlockStride;
      const uint32_t seen = found.masked[u] ? found.bits[i * found.stride + b] : ~0u;
      set_unseen(x, seen, -std::numeric_limits<float>::infinity());
      if (h.drop_below)
        weigh_panel_dropping(x, dx, keep[i * kBlockPanels + b], h.growth, s.delta[i0 + i]);
      else
        weigh_panel(x, dx);
      if (found.masked[u]) set_unseen(dx, seen, 0.0f);  // 0·NaN of a key that is not seen
      if (g.pattern.has_ramp())
        *g.d_span += apply_ramp(g.pattern, g.pattern.position(i0 + i), int64_t(j), x, dx);
      if (!h.additive.empty()) additive_backward(g, s, i0 + i, j, j0, std::min(kPanel, j1 - j), dx);
    }
    ++u;
  }
  if (!h.additive.empty()) return;
  for (size_t u = 0, end; u < panels; u = end) {
    for (end = u + 1; end < panels && found.panels[end] == found.panels[end - 1] + 1;) ++end;
    const size_t j = j0 + found.panels[u] * kPanel, keys = std::min(j1 - j, (end - u) * kPanel);
    for (size_t c = 0; c < d; c += kPanel)
      kn::tile(count, {.a = ds + found.panels[u] * kPanel,
                       .a_stride = kBlockStride,
                       .b = s.k + c * m + j * kPanel,
                       .k_count = keys,
                       .out = s.dq + i0 * d_padded + c,
                       .out_stride = d_padded,
                       .accumulate = true});
  }
}

// to[keys] += left[rows]ᵀ·right[rows], for keys j..j+keys−1 of the block, whose first column in `left` is
// given.
void add_transposed(const float* left, size_t keys, size_t rows, const float* right, size_t panel_rows,
                    size_t width, float* to) {
  const size_t padded = round_up(width, kPanel);
  const kn::RowTiles tiles(keys);
  for (size_t c = 0; c < width; c += kPanel)
    for (size_t t = 0; t < tiles.count; ++t)
      kn::tile_transposed(tiles.begin(t + 1) - tiles.begin(t), {.a = left + tiles.begin(t),
                                                                .a_stride = kBlockStride,
                                                                .b = right + c * panel_rows,
                                                                .k_count = rows,
                                                                .out = to + tiles.begin(t) * padded + c,
                                                                .out_stride = padded,
                                                                .accumulate = true});
}

void block_backward(const BackwardHead& g, const BackwardScratch& s, size_t q0, size_t q1, size_t j0,
                    size_t j1) {
  const AttentionHead& h = g.head;
  const size_t n = h.q.rows(), panels = (j1 - j0 + kPanel - 1) / kPanel;
  uint32_t numbers[kBlockPanels], bits[kernels::kTileRowsLimit * kBlockPanels];
  uint8_t masked[kBlockPanels];
  const Panels found{numbers, masked, bits, kBlockPanels};
  size_t first[kBlockPanels], last[kBlockPanels];  // the rows that a panel of keys needs
  std::fill_n(first, panels, size_t{0}), std::fill_n(last, panels, size_t{0});
  const kn::RowTiles tiles(q1 - q0);
  for (size_t t = 0; t < tiles.count; ++t) {
    const size_t row = tiles.begin(t), count = tiles.begin(t + 1) - row;
    const size_t used = find_panels(g.pattern, q0 + row, count, j0, j1, found);
    // Rows between two that are needed must hold zeros, so nothing is skipped here.
    tile_backward(g, s, row, q0, count, j0, j1, found, used);
    for (size_t u = 0; u < used; ++u) {
      const size_t b = numbers[u];
      if (first[b] == last[b]) first[b] = row;
      last[b] = row + count;
    }
  }
  for (size_t b = 0, end; b < panels; b = end) {  // panels that need the same rows go together
    for (end = b + 1; end < panels && first[end] == first[b] && last[end] == last[b];) ++end;
    const size_t rows = last[b] - first[b], at = first[b] * kBlockStride + b * kPanel, j = j0 + b * kPanel;
    if (rows == 0) continue;
    const size_t keys = std::min(j1 - j, (end - b) * kPanel), i = q0 + first[b];
    add_transposed(s.p + at, keys, rows, s.d_out + i * kPanel, n, h.v.cols(),
                   s.dv + b * kPanel * round_up(h.v.cols(), kPanel));
    if (h.additive.empty())
      add_transposed(s.ds + at, keys, rows, s.q + i * kPanel, n, h.q.cols(),
                     s.dk + b * kPanel * round_up(h.q.cols(), kPanel));
  }
}

void copy_scaled(const float* from, float factor, Matrix<float> to) {
  for (size_t r = 0; r < to.rows(); ++r) store_scaled(from + r * round_up(to.cols(), kPanel), factor, to[r]);
}

void head_backward(const BackwardHead& g, const BackwardScratch& s) {
  const AttentionHead& h = g.head;
  const size_t n = h.q.rows(), m = h.k.rows();
  pack(g, s);
  if (!h.additive.empty()) {
    const size_t padded = round_up(h.additive.size(), kPanel);
    std::fill_n(s.u, padded, 0.0f), std::fill_n(s.du, padded, 0.0f);
    std::copy(h.additive.begin(), h.additive.end(), s.u);
  }
  *g.d_span = 0;
  const float scale = h.additive.empty() ? h.scale : 1.0f;
  for (size_t j0 = 0; j0 < m; j0 += kBlockKeys) {
    const size_t j1 = std::min(m, j0 + kBlockKeys);
    std::fill_n(s.dk, (j1 - j0) * round_up(h.q.cols(), kPanel), 0.0f);
    std::fill_n(s.dv, (j1 - j0) * round_up(h.v.cols(), kPanel), 0.0f);
    for (size_t q0 = 0; q0 < n; q0 += kQueryBlock) {
      const size_t q1 = std::min(n, q0 + kQueryBlock);
      if (g.pattern.any(q0, q1, j0, j1)) block_backward(g, s, q0, q1, j0, j1);
    }
    copy_scaled(s.dk, scale, g.dk.slice_rows(j0, j1 - j0));
    copy_scaled(s.dv, 1.0f, g.dv.slice_rows(j0, j1 - j0));
  }
  copy_scaled(s.dq, scale, g.dq);
  std::copy_n(s.du, h.additive.size(), g.d_additive);
}

}  // namespace bertie::dot_product::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::dot_product {
namespace {

HWY_EXPORT(head_backward);

struct Worker {
  BackwardScratch scratch;
  size_t bytes;
};

Worker carve(const AttentionBatch& b, std::byte* memory) {
  size_t n = 0, m = 0;
  for (size_t s = 0; s < b.sequences(); ++s) n = std::max(n, b.queries(s)), m = std::max(m, b.keys(s));
  const size_t d = b.head_size(), dv = b.value_size();
  const size_t d_padded = round_up(d, kPanel), dv_padded = round_up(dv, kPanel), keys = round_up(m, kPanel);
  BackwardScratch s;
  Carver carver(memory);
  carver.take(s.k_t, keys * d);
  carver.take(s.v_t, keys * dv);
  carver.take(s.q, n * d_padded);
  carver.take(s.k, m * d_padded);
  carver.take(s.d_out, n * dv_padded);
  carver.take(s.dq, n * d_padded);
  carver.take(s.dk, kBlockKeys * d_padded);
  carver.take(s.dv, kBlockKeys * dv_padded);
  carver.take(s.log_sums, n);
  carver.take(s.delta, n);
  carver.take(s.random, Pattern::memory_size(b.look, n, m));
  carver.take(s.u, d_padded);
  carver.take(s.du, d_padded);
  carver.take(s.p, kQueryBlock * kBlockStride);
  carver.take(s.ds, kQueryBlock * kBlockStride);
  return {s, carver.used()};
}

// The gradients of parameters that all sequences share are kept apart for each sequence and head, and added
// up in order at the end.
size_t share(const AttentionBatch& b) { return b.additive.cols() + 1; }

}  // namespace

size_t backward_workspace_bytes(const AttentionBatch& b, int threads) {
  return Arena::bytes_for<float>(b.sequences() * b.heads * share(b)) +
         carve(b, nullptr).bytes * size_t(threads);
}

void backward(const AttentionBatch& b, Matrix<const float> out, std::span<const float> log_sums,
              Matrix<const float> d_out, const Gradients& to, std::byte* workspace, Team& team) {
  assert(log_sums.size() == b.q.rows() * b.heads && d_out.rows() == b.q.rows() && d_out.cols() == b.v.cols());
  auto* const shares = reinterpret_cast<float*>(workspace);
  std::byte* const scratch = workspace + Arena::bytes_for<float>(b.sequences() * b.heads * share(b));
  const size_t worker_bytes = carve(b, nullptr).bytes, d = b.head_size(), dv = b.value_size();
  const auto run = HWY_DYNAMIC_DISPATCH(head_backward);
  team.parallel_for(b.sequences() * b.heads, [&](size_t chunk, size_t worker) {
    const size_t s = chunk / b.heads, h = chunk % b.heads, n = b.queries(s), m = b.keys(s);
    const size_t q0 = size_t(b.q_offsets[s]), k0 = size_t(b.k_offsets[s]);
    const AttentionHead head = head_of(b, s, h);
    Pattern pattern = pattern_of(b, s, h);
    const BackwardScratch mine = carve(b, scratch + worker * worker_bytes).scratch;
    pattern.prepare(0, n, mine.random);
    run({.head = head,
         .pattern = pattern,
         .out = out.slice_rows(q0, n).slice_cols(h * dv, dv),
         .d_out = d_out.slice_rows(q0, n).slice_cols(h * dv, dv),
         .log_sums = {log_sums.data() + q0 * b.heads + h, n, 1, b.heads},
         .dq = to.q.slice_rows(q0, n).slice_cols(h * d, d),
         .dk = to.k.slice_rows(k0, m).slice_cols(h * d, d),
         .dv = to.v.slice_rows(k0, m).slice_cols(h * dv, dv),
         .d_additive = shares + chunk * share(b),
         .d_span = shares + chunk * share(b) + b.additive.cols()},
        mine);
  });
  for (size_t chunk = 0; chunk < b.sequences() * b.heads; ++chunk) {
    const float* from = shares + chunk * share(b);
    const size_t h = chunk % b.heads;
    if (!to.additive.empty())
      for (size_t a = 0; a < b.additive.cols(); ++a) to.additive(h, a) += from[a];
    if (!to.spans.empty()) to.spans[h] += from[b.additive.cols()];
  }
}

}  // namespace bertie::dot_product
#endif
