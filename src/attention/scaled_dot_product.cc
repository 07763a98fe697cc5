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

// They fit into the smallest caches met, 32 KB of L1 and 512 KB of L2, and are the same everywhere, so that
// sums are, too.
inline constexpr size_t kBandBlock = 1024;  // a window of so many keys is taken at once
inline constexpr size_t kKeyBlock = 512;    // keys at a time in tiled: 14 rows of S stay in L1
inline constexpr size_t kRowGroup = 504;    // queries at a time: whole tiles of 14 and of 6
inline constexpr size_t kBandGroup = 2016;  // of a window: more of them share the keys that are packed
// 2^±30 times a million keys times values from 1e-25 to 1e22 is still a normal float.
inline constexpr float kSmallScore = 30;

// One worker's scratch.
struct Scratch {
  float* scores;     // a tile's rows of S, then of 2^(S − max), panels that no query sees left out
  float* sum_v;      // (rows, panels·32): Σ 2^(S − max)·v so far
  float* max;        // (rows)
  float* sum;        // (rows): Σ 2^(S − max)
  float* norms;      // (rows): |q|
  uint32_t* panels;  // of a tile and a block of keys, see Panels
  uint32_t* bits;    // (tile's rows, panels)
  uint8_t* masked;   // (panels)
  uint8_t* seen;     // for each tile of rows: has it seen any keys yet?
  int32_t* random;   // Pattern's
  PackedHead packed;
};

// Some queries of a head.
struct Group {
  const AttentionHead& head;
  const Pattern& pattern;
  PackedHead packed;
  size_t r0, rows;
  Matrix<float> out;                   // (n, Dv)
  float* weights;                      // (n, m), or null
  Matrix<float> log_sums;              // (n, 1), or empty
  Matrix<const float> next_k, next_v;  // what this thread will most likely need next, or empty
};

}  // namespace bertie::dot_product
#endif

HWY_BEFORE_NAMESPACE();
namespace bertie::dot_product::HWY_NAMESPACE {

void pack_panel(const AttentionHead& h, size_t panel, const PackedHead& to) {
  const size_t j = panel * kPanel, count = std::min(kPanel, h.k.rows() - j), d = h.k.cols();
  transpose_panel(h.k.slice_rows(j, count), h.packed_scale(), to.k + j * d);
  if (h.additive.empty())
    panel_norms(to.k + j * d, d, to.norms + j);
  else
    std::fill_n(to.norms + j, kPanel, 1.0f);
  to.top_norms[panel] = kn::max_panels(to.norms + j, kPanel);
  const bool finite = pack_rows(h.v.slice_rows(j, count), to.v + j * kPanel, to.rows);
  to.state[panel] = finite ? PackedHead::kPacked : PackedHead::kNotFinite;
}

// out (count rows) += or = scores·V over keys j..j_end−1, whose scores begin at `scores`.
void add_values(const Group& g, const float* scores, size_t stride, size_t count, size_t j, size_t j_end,
                float* out, bool accumulate) {
  const size_t dv = g.head.v.cols();
  for (size_t c = 0; c < dv; c += kPanel)
    kn::tile(count, {.a = scores,
                     .a_stride = stride,
                     .b = g.packed.v + c * g.packed.rows + j * kPanel,
                     .k_count = j_end - j,
                     .out = out + c,
                     .out_stride = round_up(dv, kPanel),
                     .accumulate = accumulate});
}

// Brings nearer what will be needed soon, a few lines between two products: the next tile's queries, the
// place of this tile's output, and the next head's keys and values. Their rows are far apart, so that the
// processor does not guess them by itself.
class Ahead {
 public:
  explicit Ahead(const Group& g) : g_(g), key_(g.r0 * g.next_k.rows() / g.head.q.rows()) {}
  // The keys up to `end` of this head will soon be packed.
  void expect(size_t end) {
    if (end > coming_end_)
      coming_ = std::max(coming_, end - kPanel), coming_end_ = std::min(end, g_.head.k.rows());
  }

  // Before product number `step` of the tile that begins at row `first` of the group.
  void operator()(size_t step, size_t first, size_t count, bool first_block, bool last_block) {
    const size_t r = g_.r0 + first + step, n = g_.head.q.rows();
    if (step < count && last_block)
      for (size_t c = 0; c < g_.out.cols(); c += 16) __builtin_prefetch(g_.out.row(r) + c, 1, 2);
    if (step < count && first_block && r + count < n) prefetch_row(g_.head.q[r + count]);
    if (coming_ < coming_end_) {
      prefetch_row(g_.head.k[coming_]), prefetch_row(g_.head.v[coming_]);
      ++coming_;
    }
    for (due_ += count * kPanel; due_ >= n && key_ < g_.next_k.rows(); due_ -= n, ++key_)
      prefetch_row(g_.next_k[key_]), prefetch_row(g_.next_v[key_]);
  }

 private:
  const Group& g_;
  size_t key_, due_ = 0, coming_ = 0, coming_end_ = 0;
};

// A tile of a group's queries, rows first.., and a block of keys.
struct TileBlock {
  size_t tile, first, count;
  size_t j0, j1;
  bool last;  // the tile sees no keys after these
};

// The panels of a block that have to be computed, in Scratch's panels, masked and bits.
struct Found {
  size_t count = 0;
  bool any_masked = false;
  float top_norm = 0;  // of the panels that all of the tile see whole
};

Found find(const Group& g, const Scratch& s, const TileBlock& b) {
  const size_t words = (b.j1 - b.j0 + kPanel - 1) / kPanel;
  Found found{.count = find_panels(g.pattern, g.r0 + b.first, b.count, b.j0, b.j1,
                                   {s.panels, s.masked, s.bits, words})};
  for (size_t u = 0; u < found.count; ++u) {
    const size_t panel = b.j0 / kPanel + s.panels[u];
    if (g.packed.state[panel] == PackedHead::kNotPacked) pack_panel(g.head, panel, g.packed);
    if (s.masked[u])
      found.any_masked = true;
    else
      found.top_norm = std::max(found.top_norm, g.packed.top_norms[panel]);
  }
  return found;
}

void attend_block(const Group& g, const Scratch& s, const TileBlock& block, const Found& panels,
                  Ahead& ahead) {
  const auto [tile, first, count, j0, j1, last] = block;
  const AttentionHead& h = g.head;
  const size_t found = panels.count, dv_padded = round_up(h.v.cols(), kPanel);
  const size_t stride = round_up(j1 - j0, kPanel), words = stride / kPanel;
  const auto q = h.q.slice_rows(g.r0 + first, count);
  const bool again = s.seen[tile];
  for (size_t u = 0; u < found; ++u) {
    ahead(u, first, count, !again, last);
    const float* k = g.packed.k + (j0 + s.panels[u] * kPanel) * h.k.cols();
    score_panel(h, count, q, k, nullptr, s.scores + u * kPanel, stride);
  }
  s.seen[tile] = 1;
  for (size_t i = 0; !again && i < count; ++i) s.norms[first + i] = h.score_bound(norm(q[i]));
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < count; ++i) {
    const size_t r = first + i, width = found * kPanel;
    float* row = s.scores + i * stride;
    // Most rows have scores so small that 2^score can neither overflow nor vanish: no maximum to look for.
    // Whether a row is one of these depends on the keys that it sees alone.
    float largest = panels.top_norm;
    for (size_t u = 0; panels.any_masked && u < found; ++u)
      if (s.masked[u])
        largest = std::max(largest, largest_seen(g.packed.norms + j0 + s.panels[u] * kPanel,
                                                 s.bits[i * words + s.panels[u]]));
    const bool small = (s.max[r] == kNothing || s.max[r] == 0) && s.norms[r] * largest <= kSmallScore;
    for (size_t u = 0; panels.any_masked && u < found; ++u)
      if (s.masked[u])
        set_unseen(row + u * kPanel, s.bits[i * words + s.panels[u]], small ? -127.0f : kNothing);
    const float max = small ? 0.0f : std::max(s.max[r], kn::max_panels(row, width));
    // A row that sees nothing yet has the maximum −Inf: any shift leaves its weights 0.
    float sum =
        small ? kn::exp2_panels(row, width) : kn::exp2_panels(row, width, max == kNothing ? 0.0f : max);
    if (g.pattern.has_ramp()) {
      sum = 0;
      for (size_t u = 0; u < found; ++u)
        for (size_t b = 0; b < kPanel; ++b)
          sum += row[u * kPanel + b] *=
              ramp_factor(g.pattern, g.pattern.position(g.r0 + r), int64_t(j0 + s.panels[u] * kPanel + b));
    }
    if (again && max != s.max[r] && s.max[r] != kNothing) {
      const float fade = std::exp2(s.max[r] - max);
      s.sum[r] *= fade;
      kn::scale_row(s.sum_v + r * dv_padded, dv_padded, fade);
    }
    s.sum[r] += sum;
    s.max[r] = max;
    if (h.drop_below) {
      kn::Keep keep = kept_keys(h, g.r0 + r);
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
    if (s.masked[u] && g.packed.state[j / kPanel] == PackedHead::kNotFinite) {
      // 0·Inf and 0·NaN are NaN: what a query does not see must not even be multiplied by 0.
      if (!accumulate) std::fill_n(sum_v, count * dv_padded, 0.0f);
      for (size_t i = 0; i < count; ++i)
        for (size_t b = 0; b < kPanel && j + b < j1; ++b)
          if (s.bits[i * words + s.panels[u]] >> b & 1)
            add_values(g, s.scores + i * stride + u * kPanel + b, stride, 1, j + b, j + b + 1,
                       sum_v + i * dv_padded, true);
    } else {
      while (end < found && s.panels[end] == s.panels[end - 1] + 1 &&
             !(s.masked[end] && g.packed.state[j / kPanel + end - u] == PackedHead::kNotFinite))
        ++end;
      add_values(g, s.scores + u * kPanel, stride, count, j, std::min(j1, j + (end - u) * kPanel), sum_v,
                 accumulate);
    }
    accumulate = true;
  }
}

// The output of a tile of queries, when all keys have been seen.
void finish_tile(const Group& g, const Scratch& s, bool seen, size_t first, size_t count) {
  const size_t dv_padded = round_up(g.head.v.cols(), kPanel);
  for (size_t r = first; r < first + count; ++r) {
    const std::span<float> out = g.out[g.r0 + r];
    const bool nothing = !seen || s.sum[r] == 0;
    if (!g.log_sums.empty()) g.log_sums(g.r0 + r, 0) = nothing ? 0.0f : s.max[r] + std::log2(s.sum[r]);
    if (nothing)
      std::fill(out.begin(), out.end(), 0.0f);
    else
      store_scaled(s.sum_v + r * dv_padded, g.weights ? 1.0f : g.head.growth / s.sum[r], out);
  }
}

void attend(const Group& g, const Scratch& s) {
  Ahead ahead(g);
  const size_t m = g.head.k.rows(), block = g.weights ? std::max<size_t>(m, 1) : kKeyBlock;
  std::fill_n(s.max, g.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, g.rows, 0.0f);
  if (g.weights && !g.pattern.full()) std::fill_n(g.weights + g.r0 * m, g.rows * m, 0.0f);
  const kn::RowTiles tiles(g.rows);
  std::fill_n(s.seen, tiles.count, uint8_t{0});
  if (!g.weights && g.pattern.is_band()) {
    for (size_t t = 0; t < tiles.count; ++t) {
      const size_t first = tiles.begin(t), count = tiles.begin(t + 1) - first;
      const auto [begin, end] = g.pattern.band(g.r0 + first, g.r0 + first + count);
      const size_t aligned = begin / kPanel * kPanel,
                   step = end - aligned <= kBandBlock ? kBandBlock : kKeyBlock;
      ahead.expect(round_up(end, kPanel) + kPanel);
      for (size_t j0 = aligned; begin < end && j0 < end; j0 += step) {
        const TileBlock here{t, first, count, j0, std::min(end, j0 + step), j0 + step >= end};
        const Found found = find(g, s, here);
        if (found.count > 0) attend_block(g, s, here, found, ahead);
      }
      finish_tile(g, s, s.seen[t], first, count);
    }
    return;
  }
  for (size_t j0 = 0; j0 < std::max<size_t>(m, 1); j0 += block) {
    const size_t j1 = std::min(m, j0 + block);
    const bool last = j0 + block >= m, any = j0 < j1 && g.pattern.any(g.r0, g.r0 + g.rows, j0, j1);
    if (!any && !last) continue;
    Found found;
    for (size_t t = 0; t < tiles.count; ++t) {
      const size_t first = tiles.begin(t), count = tiles.begin(t + 1) - first;
      const TileBlock here{t, first, count, j0, j1, last};
      if (any && !g.pattern.full())
        found = find(g, s, here);
      else if (any && t == 0)  // with a full view all tiles, however high, see the same
        found = find(g, s, {t, first, kn::kMaxTileRows, j0, j1, last});
      if (found.count > 0) attend_block(g, s, here, found, ahead);
      if (last) finish_tile(g, s, s.seen[t], first, count);
    }
  }
}

}  // namespace bertie::dot_product::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::dot_product {
namespace {

HWY_EXPORT(attend);

size_t group_rows(const Look& look) { return Pattern::is_band(look) ? kBandGroup : kRowGroup; }

struct Worker {
  Scratch scratch;
  size_t bytes;
};

Worker carve(const AttentionBatch& b, bool exact, std::byte* memory) {
  size_t n = 0, m = 0;
  for (size_t s = 0; s < b.sequences(); ++s) n = std::max(n, b.queries(s)), m = std::max(m, b.keys(s));
  n = std::min(n, group_rows(b.look));
  const size_t dv = round_up(b.value_size(), kPanel),
               width = round_up(exact ? m : std::min(m, kBandBlock), kPanel);
  Scratch s;
  Carver carver(memory);
  carver.take(s.scores, kernels::kTileRowsLimit * width);
  carver.take(s.sum_v, n * dv);
  carver.take(s.max, n);
  carver.take(s.sum, n);
  carver.take(s.norms, n);
  carver.take(s.panels, width / kPanel);
  carver.take(s.bits, kernels::kTileRowsLimit * (width / kPanel));
  carver.take(s.masked, width / kPanel);
  carver.take(s.seen, n);
  carver.take(s.random, Pattern::memory_size(b.look, n, m));
  PackedHead& p = s.packed;
  p.rows = round_up(m, kPanel);
  carver.take(p.k, p.rows * b.head_size());
  carver.take(p.v, p.rows * dv);
  carver.take(p.norms, p.rows);
  carver.take(p.top_norms, p.rows / kPanel);
  carver.take(p.state, p.rows / kPanel);
  return {s, carver.used()};
}

void run(const AttentionBatch& b, Matrix<float> out, float* weights, std::span<float> log_sums,
         std::byte* workspace, Team& team) {
  assert(b.q.rows() == out.rows() && b.v.cols() == out.cols() && b.k.rows() == b.v.rows());
  const bool exact = weights != nullptr;
  const size_t worker_bytes = carve(b, exact, nullptr).bytes, dv = b.value_size();
  auto* const packed_head =
      reinterpret_cast<size_t*>(workspace);  // which head each worker has packed, from 1
  std::fill_n(packed_head, team.threads(), size_t{0});
  std::byte* const scratch = workspace + Arena::bytes_for<size_t>(size_t(team.threads()));

  // All groups are numbered through, head by head: waiting at the end of each sequence would leave threads
  // idle, and a worker that goes on with the next group of a head finds its keys packed.
  const size_t most = group_rows(b.look);
  const auto groups_of = [&](size_t s) { return (b.queries(s) + most - 1) / most * b.heads; };
  const auto rows_of = [&](size_t s) {  // of a group: as equal as whole tiles allow
    const size_t groups = std::max<size_t>(1, groups_of(s) / b.heads);
    return round_up((b.queries(s) + groups - 1) / groups, kernels::kTileRowsLimit);
  };
  size_t groups = 0;
  for (size_t s = 0; s < b.sequences(); ++s) groups += groups_of(s);
  const auto attend_group = HWY_DYNAMIC_DISPATCH(attend);
  team.parallel_for(groups, [&](size_t chunk, size_t worker) {
    size_t s = 0, weights_before = 0;
    for (; chunk >= groups_of(s); ++s) {
      chunk -= groups_of(s);
      weights_before += b.heads * b.queries(s) * b.keys(s);
    }
    const size_t n = b.queries(s), m = b.keys(s), q0 = size_t(b.q_offsets[s]);
    const size_t groups_a_head = groups_of(s) / b.heads, h = chunk / groups_a_head;
    const size_t r0 = std::min(n, chunk % groups_a_head * rows_of(s));
    const AttentionHead head = head_of(b, s, h);
    Pattern pattern = pattern_of(b, s, h);
    const size_t rows = std::min(rows_of(s), n - r0);
    const Scratch mine = carve(b, exact, scratch + worker * worker_bytes).scratch;
    pattern.prepare(r0, r0 + rows, mine.random);
    if (packed_head[worker] != s * b.heads + h + 1) {
      packed_head[worker] = s * b.heads + h + 1;
      std::fill_n(mine.packed.state, mine.packed.rows / kPanel, uint8_t{PackedHead::kNotPacked});
    }
    const size_t next = h + (groups_a_head > 1 ? 1 : size_t(team.threads()));
    const AttentionHead after = head_of(b, s, std::min(next, b.heads - 1));
    attend_group(
        {.head = head,
         .pattern = pattern,
         .packed = mine.packed,
         .r0 = r0,
         .rows = rows,
         .out = out.slice_rows(q0, n).slice_cols(h * dv, dv),
         .weights = weights ? weights + weights_before + h * n * m : nullptr,
         .log_sums = log_sums.empty() ? Matrix<float>()
                                      : Matrix<float>(log_sums.data() + q0 * b.heads + h, n, 1, b.heads),
         .next_k = next < b.heads ? after.k : Matrix<const float>(),
         .next_v = next < b.heads ? after.v : Matrix<const float>()},
        mine);
  });
}

}  // namespace

size_t weights_size(const AttentionBatch& b) {
  size_t total = 0;
  for (size_t s = 0; s < b.sequences(); ++s) total += b.heads * b.queries(s) * b.keys(s);
  return total;
}

size_t workspace_bytes(const AttentionBatch& b, bool exact, int threads) {
  return Arena::bytes_for<size_t>(size_t(threads)) + carve(b, exact, nullptr).bytes * size_t(threads);
}

void exact(const AttentionBatch& b, Matrix<float> out, std::span<float> weights, std::byte* workspace,
           Team& team) {
  assert(weights.size() == weights_size(b));
  float nothing;  // no weights to return, but not tiled
  run(b, out, weights.empty() ? &nothing : weights.data(), {}, workspace, team);
}

void tiled(const AttentionBatch& b, Matrix<float> out, std::span<float> log_sums, std::byte* workspace,
           Team& team) {
  assert(log_sums.empty() || log_sums.size() == b.q.rows() * b.heads);
  run(b, out, nullptr, log_sums, workspace, team);
}

}  // namespace bertie::dot_product
#endif
