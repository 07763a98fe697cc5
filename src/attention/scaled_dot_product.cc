#include "attention/scaled_dot_product.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/scaled_dot_product.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/softmax-inl.h"
#include "kernels/tile-inl.h"

#ifndef BERTIE_ATTENTION_SCALED_DOT_PRODUCT_ONCE
#define BERTIE_ATTENTION_SCALED_DOT_PRODUCT_ONCE
namespace bertie::dot_product {

using kernels::kPanel;
inline constexpr size_t kKeyBlock = 512;   // keys at a time in tiled: 14 rows of S stay in L1
inline constexpr size_t kRowGroup = 1024;  // queries that share one packing of keys and values

// One worker's scratch, for queries of one group of one head of one sequence.
struct Scratch {
  float* q;       // (rows, D), scaled
  float* k;       // panels of 32 keys, each (D, 32): Kᵀ
  float* v;       // panels of 32 columns, each (m, 32)
  float* scores;  // a tile's rows of S, then of e^(S − m)
  float* sum_v;   // (rows, panels·32): Σ e^(S − m)·v so far
  float* max;     // (rows): m
  float* sum;     // (rows): l
};

// One group of queries of one head of one sequence.
struct Group {
  Matrix<const float> q, k, v;  // this head's columns
  Matrix<float> out;
  float* weights;  // (rows, m), or null
  float scale;
};

}  // namespace bertie::dot_product
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::dot_product::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace kn = kernels::HWY_NAMESPACE;

// to[c·32 + j] = from(j, c) for a panel of up to 32 keys; the keys that are missing are 0.
void transpose_panel(Matrix<const float> from, float* to) {
  const size_t d = from.cols(), width = from.rows();
  size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d4;
  for (; j + 4 <= width; j += 4) {
    size_t c = 0;
    for (; c + 4 <= d; c += 4) {
      const auto r0 = hn::LoadU(d4, from.row(j) + c), r1 = hn::LoadU(d4, from.row(j + 1) + c);
      const auto r2 = hn::LoadU(d4, from.row(j + 2) + c), r3 = hn::LoadU(d4, from.row(j + 3) + c);
      const auto low02 = hn::InterleaveLower(d4, r0, r2), low13 = hn::InterleaveLower(d4, r1, r3);
      const auto high02 = hn::InterleaveUpper(d4, r0, r2), high13 = hn::InterleaveUpper(d4, r1, r3);
      hn::StoreU(hn::InterleaveLower(d4, low02, low13), d4, to + c * kPanel + j);
      hn::StoreU(hn::InterleaveUpper(d4, low02, low13), d4, to + (c + 1) * kPanel + j);
      hn::StoreU(hn::InterleaveLower(d4, high02, high13), d4, to + (c + 2) * kPanel + j);
      hn::StoreU(hn::InterleaveUpper(d4, high02, high13), d4, to + (c + 3) * kPanel + j);
    }
    for (; c < d; ++c)
      for (size_t i = 0; i < 4; ++i) to[c * kPanel + j + i] = from(j + i, c);
  }
#endif
  for (; j < width; ++j)
    for (size_t c = 0; c < d; ++c) to[c * kPanel + j] = from(j, c);
  if (width < kPanel)
    for (size_t c = 0; c < d; ++c) std::fill(to + c * kPanel + width, to + (c + 1) * kPanel, 0.0f);
}

void pack(const Group& g, const Scratch& s) {
  const size_t d = g.q.cols(), m = g.k.rows(), dv = g.v.cols();
  for (size_t i = 0; i < g.q.rows(); ++i)
    for (size_t c = 0; c < d; ++c) s.q[i * d + c] = g.q(i, c) * g.scale;
  for (size_t j = 0; j < m; j += kPanel)
    transpose_panel(g.k.slice_rows(j, std::min(kPanel, m - j)), s.k + j * d);
  for (size_t c0 = 0; c0 < dv; c0 += kPanel) {
    float* panel = s.v + c0 * m;
    const size_t width = std::min(kPanel, dv - c0);
    for (size_t j = 0; j < m; ++j) {
      std::copy_n(g.v.row(j) + c0, width, panel + j * kPanel);
      std::fill(panel + j * kPanel + width, panel + (j + 1) * kPanel, 0.0f);
    }
  }
}

void attend(const Group& g, const Scratch& s) {
  const size_t rows = g.q.rows(), d = g.q.cols(), m = g.k.rows(), dv = g.v.cols();
  const size_t dv_padded = round_up(dv, kPanel), block = g.weights ? m : kKeyBlock;
  const size_t score_stride = round_up(std::min(block, m), kPanel);
  pack(g, s);
  std::fill_n(s.max, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, rows, 0.0f);
  const kn::RowTiles tiles(rows);
  for (size_t j0 = 0; j0 < m; j0 += block) {
    const size_t width = std::min(block, m - j0), padded = round_up(width, kPanel);
    for (size_t t = 0; t < tiles.count; ++t) {
      const size_t r0 = tiles.begin(t), count = tiles.begin(t + 1) - r0;
      for (size_t j = 0; j < width; j += kPanel)
        kn::tile(count, {.a = s.q + r0 * d,
                         .a_stride = d,
                         .b = s.k + (j0 + j) * d,
                         .k_count = d,
                         .out = s.scores + j,
                         .out_stride = score_stride});
      for (size_t i = 0; i < count; ++i) {
        const size_t r = r0 + i;
        float* row = s.scores + i * score_stride;
        std::fill(row + width, row + padded, -std::numeric_limits<float>::infinity());  // weight 0
        const float max = std::max(s.max[r], kn::row_max(row, padded));
        const float sum = kn::exp_row(row, padded, max);
        if (j0 > 0) {
          const float fade = std::exp(s.max[r] - max);
          s.sum[r] = s.sum[r] * fade + sum;
          kn::scale_row(s.sum_v + r * dv_padded, dv_padded, fade);
        } else {
          s.sum[r] = sum;
        }
        s.max[r] = max;
        if (g.weights) {
          kn::scale_row(row, width, 1.0f / sum);
          std::copy_n(row, width, g.weights + r * m);
        }
      }
      for (size_t c = 0; c < dv; c += kPanel)
        kn::tile(count, {.a = s.scores,
                         .a_stride = score_stride,
                         .b = s.v + c * m + j0 * kPanel,
                         .k_count = width,
                         .out = s.sum_v + r0 * dv_padded + c,
                         .out_stride = dv_padded,
                         .accumulate = j0 > 0});
    }
  }
  for (size_t r = 0; r < rows; ++r) {
    const float factor = m == 0 ? 0.0f : g.weights ? 1.0f : 1.0f / s.sum[r];
    for (size_t c = 0; c < dv; ++c) g.out(r, c) = m == 0 ? 0.0f : s.sum_v[r * dv_padded + c] * factor;
  }
}

}  // namespace bertie::dot_product::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::dot_product {
namespace {

HWY_EXPORT(attend);

// Floats of each part of a worker's scratch, in Scratch's order.
struct ScratchSizes {
  ScratchSizes(const Batch& b, bool exact) {
    size_t n = 0, m = 0;
    for (size_t s = 0; s < b.sequences(); ++s) n = std::max(n, b.queries(s)), m = std::max(m, b.keys(s));
    n = std::min(n, kRowGroup);
    const size_t dv = round_up(b.value_size(), kPanel);
    q = n * b.head_size(), k = round_up(m, kPanel) * b.head_size(), v = m * dv;
    scores = kernels::kTileRowsLimit * round_up(exact ? m : std::min(m, kKeyBlock), kPanel);
    sum_v = n * dv, max = sum = n;
  }
  size_t bytes() const {
    size_t total = 0;
    for (size_t floats : {q, k, v, scores, sum_v, max, sum}) total += Arena::bytes_for<float>(floats);
    return total;
  }
  Scratch at(std::byte* memory) const {
    const auto take = [&memory](size_t floats) {
      auto* p = reinterpret_cast<float*>(memory);
      memory += Arena::bytes_for<float>(floats);
      return p;
    };
    return {take(q), take(k), take(v), take(scores), take(sum_v), take(max), take(sum)};
  }
  size_t q, k, v, scores, sum_v, max, sum;
};

void run(const Batch& b, Matrix<float> out, float* weights, std::byte* workspace, Team& team) {
  assert(b.q.rows() == out.rows() && b.v.cols() == out.cols() && b.k.rows() == b.v.rows());
  const ScratchSizes sizes(b, weights != nullptr);
  const size_t d = b.head_size(), dv = b.value_size();
  const auto attend_group = HWY_DYNAMIC_DISPATCH(attend);
  // Sequence by sequence would leave threads idle at each one's end, so all groups are numbered: a group's
  // sequence is found by walking the (few) sequences.
  size_t groups = 0;
  for (size_t s = 0; s < b.sequences(); ++s) groups += (b.queries(s) + kRowGroup - 1) / kRowGroup * b.heads;
  team.parallel_for(groups, [&](size_t chunk, size_t worker) {
    size_t s = 0, before = 0, weights_before = 0;
    for (;; ++s) {
      const size_t here = (b.queries(s) + kRowGroup - 1) / kRowGroup * b.heads;
      if (chunk < before + here) break;
      before += here;
      weights_before += b.heads * b.queries(s) * b.keys(s);
    }
    const size_t n = b.queries(s), m = b.keys(s), q0 = size_t(b.q_offsets[s]), k0 = size_t(b.k_offsets[s]);
    const size_t head = (chunk - before) % b.heads, r0 = (chunk - before) / b.heads * kRowGroup;
    const size_t rows = std::min(kRowGroup, n - r0);
    const Group group{
        .q = b.q.slice_rows(q0 + r0, rows).slice_cols(head * d, d),
        .k = b.k.slice_rows(k0, m).slice_cols(head * d, d),
        .v = b.v.slice_rows(k0, m).slice_cols(head * dv, dv),
        .out = out.slice_rows(q0 + r0, rows).slice_cols(head * dv, dv),
        .weights = weights ? weights + weights_before + (head * n + r0) * m : nullptr,
        .scale = b.scale,
    };
    attend_group(group, sizes.at(workspace + worker * sizes.bytes()));
  });
}

}  // namespace

size_t weights_size(const Batch& b) {
  size_t total = 0;
  for (size_t s = 0; s < b.sequences(); ++s) total += b.heads * b.queries(s) * b.keys(s);
  return total;
}

size_t workspace_bytes(const Batch& b, bool exact, int threads) {
  return ScratchSizes(b, exact).bytes() * size_t(threads);
}

void exact(const Batch& b, Matrix<float> out, std::span<float> weights, std::byte* workspace, Team& team) {
  assert(weights.size() == weights_size(b));
  run(b, out, weights.data(), workspace, team);
}

void tiled(const Batch& b, Matrix<float> out, std::span<float>, std::byte* workspace, Team& team) {
  run(b, out, nullptr, workspace, team);
}

}  // namespace bertie::dot_product
#endif
