#include "attention/scaled_dot_product.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "attention/head.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/scaled_dot_product.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "attention/dot_product-inl.h"

#ifndef BERTIE_ATTENTION_SCALED_DOT_PRODUCT_ONCE
#define BERTIE_ATTENTION_SCALED_DOT_PRODUCT_ONCE
namespace bertie::dot_product {

inline constexpr size_t kKeyBlock = 512;  // keys at a time in tiled: 14 rows of S stay in L1
inline constexpr size_t kRowGroup = 504;  // queries at a time: whole tiles of 14 and of 6

// One worker's scratch. Packed keys and values stay while the worker goes on with the same head.
struct Scratch {
  float* q;          // (rows, D), scaled
  float* k;          // panels of 32 keys, each (D, 32): Kᵀ
  float* v;          // panels of 32 columns, each (m, 32)
  float* scores;     // a tile's rows of S, then of 2^(S − max), panels that nobody sees left out
  float* sum_v;      // (rows, panels·32): Σ 2^(S − max)·v so far
  float* max;        // (rows)
  float* sum;        // (rows): Σ 2^(S − max)
  uint32_t* panels;  // of a tile and a block of keys, see Panels
  uint32_t* bits;    // (tile's rows, panels)
  uint8_t* masked;   // (panels)
  uint8_t* packed;   // for each panel of keys: 0 not packed, 1 packed, 2 packed and not all values finite
  uint8_t* seen;     // for each tile of rows: has it seen any keys yet?
};

// Some queries of a head.
struct Group {
  const Head& head;
  const Pattern& pattern;
  size_t r0, rows;
  Matrix<float> out;       // (n, Dv)
  float* weights;          // (n, m), or null
  Matrix<float> log_sums;  // (n, 1), or empty
};

}  // namespace bertie::dot_product
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::dot_product::HWY_NAMESPACE {

void pack_panel(const Head& h, size_t panel, const Scratch& s) {
  const size_t m = h.k.rows(), j = panel * kPanel, count = std::min(kPanel, m - j);
  transpose_panel(h.k.slice_rows(j, count), s.k + j * h.k.cols());
  const auto values = h.v.slice_rows(j, count);
  pack_rows(values, 1.0f, s.v + j * kPanel, m);
  s.packed[panel] = all_finite(values) ? 1 : 2;
}

// out (count rows) += or = scores·V over keys j..j_end−1, whose scores begin at `scores`.
void add_values(const Head& h, const Scratch& s, const float* scores, size_t stride, size_t count, size_t j,
                size_t j_end, float* out, bool accumulate) {
  const size_t m = h.k.rows(), dv = h.v.cols();
  for (size_t c = 0; c < dv; c += kPanel)
    kn::tile(count, {.a = scores,
                     .a_stride = stride,
                     .b = s.v + c * m + j * kPanel,
                     .k_count = j_end - j,
                     .out = out + c,
                     .out_stride = round_up(dv, kPanel),
                     .accumulate = accumulate});
}

// One tile of queries and one block of keys, j0..j1−1.
void attend_tile(const Group& g, const Scratch& s, size_t tile, size_t first, size_t count, size_t j0,
                 size_t j1) {
  const Head& h = g.head;
  const size_t d = h.q.cols(), dv_padded = round_up(h.v.cols(), kPanel);
  const size_t stride = round_up(j1 - j0, kPanel), words = stride / kPanel;
  const size_t found =
      find_panels(g.pattern, g.r0 + first, count, j0, j1, {s.panels, s.masked, s.bits, words});
  if (found == 0) return;
  for (size_t u = 0; u < found; ++u) {
    const size_t panel = j0 / kPanel + s.panels[u];
    if (!s.packed[panel]) pack_panel(h, panel, s);
    float* scores = s.scores + u * kPanel;
    score_panel(h, count, s.q + first * d, s.k + panel * kPanel * d, nullptr, scores, stride);
    if (s.masked[u])
      for (size_t i = 0; i < count; ++i)
        set_unseen(scores + i * stride, s.bits[i * words + s.panels[u]],
                   -std::numeric_limits<float>::infinity());
  }
  const bool again = s.seen[tile];
  s.seen[tile] = 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t r = first + i, width = found * kPanel;
    float* row = s.scores + i * stride;
    const float max = std::max(s.max[r], kn::max_panels(row, width));
    // A row that sees nothing yet has the maximum −Inf: any shift leaves its weights 0.
    float sum = kn::exp2_panels(row, width, max == -std::numeric_limits<float>::infinity() ? 0.0f : max);
    if (g.pattern.has_ramp()) {
      sum = 0;
      for (size_t u = 0; u < found; ++u)
        for (size_t b = 0; b < kPanel; ++b)
          sum += row[u * kPanel + b] *=
              ramp_factor(g.pattern, g.pattern.position(g.r0 + r), int64_t(j0 + s.panels[u] * kPanel + b));
    }
    if (again && max != s.max[r]) {
      const float fade = std::exp2(s.max[r] - max);
      s.sum[r] *= fade;
      kn::scale_row(s.sum_v + r * dv_padded, dv_padded, fade);
    }
    s.sum[r] += sum;
    s.max[r] = max;
    if (h.drop_below) {
      Keep keep(h, g.r0 + r);
      for (size_t u = 0; u < found; ++u)
        set_unseen(row + u * kPanel, keep.bits(j0 / kPanel + s.panels[u]), 0.0f);
    }
    if (g.weights) {
      kn::scale_row(row, width, sum == 0 ? 1.0f : h.growth / sum);
      float* weights = g.weights + (g.r0 + r) * h.k.rows();
      for (size_t u = 0; u < found; ++u) {
        const size_t j = j0 + s.panels[u] * kPanel;
        std::copy_n(row + u * kPanel, std::min(kPanel, j1 - j), weights + j);
      }
    }
  }
  float* sum_v = s.sum_v + first * dv_padded;
  bool accumulate = again;
  for (size_t u = 0, end; u < found; u = end) {
    const size_t j = j0 + s.panels[u] * kPanel;
    end = u + 1;
    if (s.masked[u] && s.packed[j / kPanel] == 2) {
      // 0·Inf and 0·NaN are NaN: what a query does not see must not even be multiplied by 0.
      if (!accumulate) std::fill_n(sum_v, count * dv_padded, 0.0f);
      for (size_t i = 0; i < count; ++i)
        for (size_t b = 0; b < kPanel && j + b < j1; ++b)
          if (s.bits[i * words + s.panels[u]] >> b & 1)
            add_values(h, s, s.scores + i * stride + u * kPanel + b, stride, 1, j + b, j + b + 1,
                       sum_v + i * dv_padded, true);
    } else {
      while (end < found && s.panels[end] == s.panels[end - 1] + 1 &&
             !(s.masked[end] && s.packed[j / kPanel + end - u] == 2))
        ++end;
      add_values(h, s, s.scores + u * kPanel, stride, count, j, std::min(j1, j + (end - u) * kPanel), sum_v,
                 accumulate);
    }
    accumulate = true;
  }
}

void attend(const Group& g, const Scratch& s) {
  const Head& h = g.head;
  const size_t m = h.k.rows(), dv = h.v.cols(), dv_padded = round_up(dv, kPanel);
  const size_t block = g.weights ? std::max<size_t>(m, 1) : kKeyBlock;
  pack_left(h.q.slice_rows(g.r0, g.rows), h.packed_scale(), s.q);
  std::fill_n(s.max, g.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, g.rows, 0.0f);
  if (g.weights && !g.pattern.full()) std::fill_n(g.weights + g.r0 * m, g.rows * m, 0.0f);
  const kn::RowTiles tiles(g.rows);
  std::fill_n(s.seen, tiles.count, uint8_t{0});
  for (size_t j0 = 0; j0 < m; j0 += block) {
    const size_t j1 = std::min(m, j0 + block);
    if (!g.pattern.any(g.r0, g.r0 + g.rows, j0, j1)) continue;
    for (size_t t = 0; t < tiles.count; ++t)
      attend_tile(g, s, t, tiles.begin(t), tiles.begin(t + 1) - tiles.begin(t), j0, j1);
  }
  for (size_t t = 0; t < tiles.count; ++t)
    for (size_t r = tiles.begin(t); r < tiles.begin(t + 1); ++r) {
      float* out = g.out.row(g.r0 + r);
      const bool nothing = !s.seen[t] || s.sum[r] == 0;
      if (!g.log_sums.empty()) g.log_sums(g.r0 + r, 0) = nothing ? 0.0f : s.max[r] + std::log2(s.sum[r]);
      if (nothing) {
        std::fill_n(out, dv, 0.0f);
        continue;
      }
      const float factor = g.weights ? 1.0f : h.growth / s.sum[r];
      for (size_t c = 0; c < dv; ++c) out[c] = s.sum_v[r * dv_padded + c] * factor;
    }
}

}  // namespace bertie::dot_product::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::dot_product {
namespace {

HWY_EXPORT(attend);

// Lays parts out one after the other, each on its own cache line; with no memory it only counts.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <class T>
  void take(T*& part, size_t count) {
    part = memory_ ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += Arena::bytes_for<T>(count);
  }
  size_t used() const { return used_; }

 private:
  std::byte* memory_;
  size_t used_ = 0;
};

struct Worker {
  Scratch scratch;
  size_t bytes;
};

Worker carve(const Batch& b, bool exact, std::byte* memory) {
  size_t n = 0, m = 0;
  for (size_t s = 0; s < b.sequences(); ++s) n = std::max(n, b.queries(s)), m = std::max(m, b.keys(s));
  n = std::min(n, kRowGroup);
  const size_t dv = round_up(b.value_size(), kPanel),
               width = round_up(exact ? m : std::min(m, kKeyBlock), kPanel);
  Scratch s;
  Carver carver(memory);
  carver.take(s.q, n * b.head_size());
  carver.take(s.k, round_up(m, kPanel) * b.head_size());
  carver.take(s.v, m * dv);
  carver.take(s.scores, kernels::kTileRowsLimit * width);
  carver.take(s.sum_v, n * dv);
  carver.take(s.max, n);
  carver.take(s.sum, n);
  carver.take(s.panels, width / kPanel);
  carver.take(s.bits, kernels::kTileRowsLimit * (width / kPanel));
  carver.take(s.masked, width / kPanel);
  carver.take(s.packed, round_up(m, kPanel) / kPanel);
  carver.take(s.seen, n);
  return {s, carver.used()};
}

void run(const Batch& b, Matrix<float> out, float* weights, std::span<float> log_sums, std::byte* workspace,
         Team& team) {
  assert(b.q.rows() == out.rows() && b.v.cols() == out.cols() && b.k.rows() == b.v.rows());
  const bool exact = weights != nullptr;
  const size_t worker_bytes = carve(b, exact, nullptr).bytes, dv = b.value_size();
  const auto attend_group = HWY_DYNAMIC_DISPATCH(attend);
  // All groups are numbered through, head by head: waiting at the end of each sequence would leave threads
  // idle, and a worker that goes on with the next group of a head finds its keys packed.
  const auto groups_of = [&](size_t s) { return (b.queries(s) + kRowGroup - 1) / kRowGroup; };
  size_t groups = 0;
  for (size_t s = 0; s < b.sequences(); ++s) groups += groups_of(s) * b.heads;
  auto* packed_head = reinterpret_cast<size_t*>(workspace);  // which head each worker has packed, from 1
  std::fill_n(packed_head, team.threads(), size_t{0});
  std::byte* const scratch = workspace + Arena::bytes_for<size_t>(size_t(team.threads()));
  team.parallel_for(groups, [&](size_t chunk, size_t worker) {
    size_t s = 0, before = 0, weights_before = 0;
    for (;; ++s) {  // the sequence is found by walking the (few) sequences
      const size_t here = groups_of(s) * b.heads;
      if (chunk < before + here) break;
      before += here;
      weights_before += b.heads * b.queries(s) * b.keys(s);
    }
    const size_t n = b.queries(s), m = b.keys(s), q0 = size_t(b.q_offsets[s]);
    const size_t h = (chunk - before) / groups_of(s), r0 = (chunk - before) % groups_of(s) * kRowGroup;
    const Scratch mine = carve(b, exact, scratch + worker * worker_bytes).scratch;
    if (packed_head[worker] != s * b.heads + h + 1) {
      packed_head[worker] = s * b.heads + h + 1;
      std::fill_n(mine.packed, round_up(m, kPanel) / kPanel, uint8_t{0});
    }
    const Head head = head_of(b, s, h);
    Pattern pattern = pattern_of(b, s, h);
    const size_t rows = std::min(kRowGroup, n - r0);
    pattern.prepare(r0, r0 + rows);
    attend_group(
        {.head = head,
         .pattern = pattern,
         .r0 = r0,
         .rows = rows,
         .out = out.slice_rows(q0, n).slice_cols(h * dv, dv),
         .weights = weights ? weights + weights_before + h * n * m : nullptr,
         .log_sums = log_sums.empty() ? Matrix<float>()
                                      : Matrix<float>(log_sums.data() + q0 * b.heads + h, n, 1, b.heads)},
        mine);
  });
}

}  // namespace

size_t weights_size(const Batch& b) {
  size_t total = 0;
  for (size_t s = 0; s < b.sequences(); ++s) total += b.heads * b.queries(s) * b.keys(s);
  return total;
}

size_t workspace_bytes(const Batch& b, bool exact, int threads) {
  return carve(b, exact, nullptr).bytes * size_t(threads) + Arena::bytes_for<size_t>(size_t(threads));
}

void exact(const Batch& b, Matrix<float> out, std::span<float> weights, std::byte* workspace, Team& team) {
  assert(weights.size() == weights_size(b));
  float nothing;  // no weights to return, but not tiled
  run(b, out, weights.empty() ? &nothing : weights.data(), {}, workspace, team);
}

void tiled(const Batch& b, Matrix<float> out, std::span<float> log_sums, std::byte* workspace, Team& team) {
  assert(log_sums.empty() || log_sums.size() == b.q.rows() * b.heads);
  run(b, out, nullptr, log_sums, workspace, team);
}

}  // namespace bertie::dot_product
#endif
