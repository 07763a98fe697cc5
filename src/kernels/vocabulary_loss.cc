// The loss of a language model's head, fused: products, softmax, and the products back.
//
// All is done the other way round, zᵀ = table·xᵀ: the table's rows are a product's left side as they lie, and
// only x, which is small, is packed. Tokens go in blocks, whose zᵀ (V × block) is kept; words in blocks of
// 224 rows of the table, so that what is computed one after the other is still in the cache:
//
//   for every block of words:    zᵀ = table·xᵀ + bias,  m[t] = max zᵀ,  e = exp(zᵀ − m),  s[t] = Σ e
//   for every token:             log-sum-exp from the blocks' m and s; f[t] = scale·e^(m − log-sum-exp)
//   for every block of words:    dzᵀ = e·f − scale at the target,  d_table += dzᵀ·x,  dx += (dzᵀ)ᵀ·table
//
// dzᵀ is kept twice: as it is, and for the last product in pieces (see gemm_backward.cc). For products of
// bf16 all that is multiplied is made into pairs first (see bf16-inl.h).
//
// Consecutive blocks of words form at most 32 parts, each with a dx of its own; these are added in order. So
// sums do not depend on the team.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/arena.h"
#include "kernels/amx.h"
#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"

#ifndef BERTIE_KERNELS_VOCABULARY_LOSS_CC_
#define BERTIE_KERNELS_VOCABULARY_LOSS_CC_
namespace bertie::kernels {

inline constexpr size_t kTokenBlock = 320, kWordBlock = 224, kMostParts = 32;

// A block of tokens, and where everything is.
struct VocabularyBlock {
  size_t tokens, padded;  // to whole panels
  size_t words, width, word_blocks, parts;
  const int32_t* targets;
  float scale;
  Products products;
  float* x_transposed;  // panels of 32 tokens, each width_padded × 32
  float* x_packed;      // panels of 32 columns, each padded × 32
  float* logits;        // words × padded
  float* max;           // word_blocks × padded, and after that f
  float* sum;           // word_blocks × padded
  float* at_target;     // padded: the target's logit
  float* largest;       // padded: the largest logit
  double* log_sum;      // padded: log Σ e^(z − largest)
  float* dx_parts;      // parts × tokens × width in whole panels
  float* scratch;       // scratch_floats() for each thread

  size_t width_padded() const { return panels_for(width) * kPanel; }
  size_t part_begin(size_t part) const { return part * word_blocks / parts; }
  size_t word_count(size_t block) const { return std::min(kWordBlock, words - block * kWordBlock); }
  float* logits_of(size_t block) const { return logits + block * kWordBlock * padded; }
  // Which of the block's words is token t's target; kWordBlock or more if none.
  size_t target_in(size_t block, size_t t) const {
    return targets[t] < 0 ? kWordBlock : size_t(targets[t]) - block * kWordBlock;
  }
  bool in_pairs() const { return are_bf16(products); }
  bool amx() const { return products == Products::kAmx; }
  size_t steps(size_t inner) const { return steps_of(inner, products); }
  // Of a tile of dz: so many words in pieces of that stride, or AMX's rows of them.
  size_t piece_floats(size_t count, size_t piece_stride) const {
    return amx() ? kAmxRows * round_up(steps(count), kAmxSteps) : steps(count) * piece_stride;
  }
  // A block of the table in pairs, its rows apart as in gemm.cc, or a panel of it; and dz in pieces, which
  // have gaps: 16 floats for 14 tokens, or 8 for 6.
  size_t pair_stride() const { return round_up(width, 32) / 2 + 16; }
  size_t scratch_floats() const {
    return kWordBlock * (std::max(kPanel, pair_stride()) + padded + padded / 2 + kPanel);
  }
};

}  // namespace bertie::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vocabulary_loss.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/math-inl.h"
#include "kernels/pack-inl.h"
#include "kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {

constexpr float kLog2E = 1.44269504f;
constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>()), kVectors = kPanel / kLanes;

// A block of the table, or nothing after the last.
HWY_INLINE Matrix<const float> table_rows(const VocabularyHead& head, const VocabularyBlock& b,
                                          size_t block) {
  return block < b.word_blocks ? head.table.slice_rows(block * kWordBlock, b.word_count(block))
                               : Matrix<const float>();
}

// Tokens without a target are packed as zeros, so that NaN in them does not spread.
void pack_tokens(Matrix<const float> x, const VocabularyBlock& b, size_t panel) {
  const size_t first = panel * kPanel, count = std::min(kPanel, b.tokens - first);
  float* to = b.x_transposed + panel * b.width_padded() * kPanel;
  transpose_panel(x.slice_rows(first, count), 1.0f, to);
  for (size_t j = 0; j < count; ++j)
    if (b.targets[first + j] < 0)
      for (size_t e = 0; e < b.width; ++e) to[e * kPanel + j] = 0;
  if (b.in_pairs()) pair_panel(to, b.width, to);
  if (b.amx()) fill_amx_step(to, b.steps(b.width));
  HWY_ALIGN float beside[kPanel * kPanel];
  for (size_t c = 0; c < b.width; c += kPanel) {
    float* const packed = b.x_packed + c * b.padded + b.steps(first) * kPanel;
    float* const rows = b.in_pairs() ? beside : packed;
    copy_panel(x.slice_rows(first, count).slice_cols(c, std::min(kPanel, b.width - c)), rows);
    for (size_t j = 0; j < count; ++j)
      if (b.targets[first + j] < 0) std::fill_n(rows + j * kPanel, kPanel, 0.0f);
    if (b.in_pairs()) pair_panel(beside, count, packed);
    if (b.amx()) fill_amx_step(packed, b.steps(count));
  }
}

// logits[:, 0..31] of `rows` words: max = their largest for each column, then e^(z − max) in their place, and
// the sums of these. Two rows at a time: a sum alone would wait for its own last addition.
HWY_INLINE void exp_columns(float* z, size_t rows, size_t stride, float* max, float* sum) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V best[2][kVectors], total[2][kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    best[0][v] = best[1][v] = hn::Set(d, -std::numeric_limits<float>::infinity());
    total[0][v] = total[1][v] = hn::Zero(d);
  }
  const auto see = [&](size_t r, V * to) HWY_ATTR __attribute__((always_inline)) {
#pragma GCC unroll 32
    for (size_t v = 0; v < kVectors; ++v) to[v] = hn::Max(hn::LoadU(d, z + r * stride + v * kLanes), to[v]);
  };
  for (size_t r = 0; r + 2 <= rows; r += 2) see(r, best[0]), see(r + 1, best[1]);
  if (rows % 2 == 1) see(rows - 1, best[0]);
  for (size_t v = 0; v < kVectors; ++v) best[0][v] = hn::Max(best[0][v], best[1][v]);
  const auto raise = [&](size_t r, V * to) HWY_ATTR __attribute__((always_inline)) {
#pragma GCC unroll 32
    for (size_t v = 0; v < kVectors; ++v) {
      float* at = z + r * stride + v * kLanes;
      const V e = exp2(d, hn::Mul(hn::Sub(hn::LoadU(d, at), best[0][v]), hn::Set(d, kLog2E)));
      hn::StoreU(e, d, at);
      to[v] = hn::Add(to[v], e);
    }
  };
  for (size_t r = 0; r + 2 <= rows; r += 2) raise(r, total[0]), raise(r + 1, total[1]);
  if (rows % 2 == 1) raise(rows - 1, total[0]);
  for (size_t v = 0; v < kVectors; ++v) {
    hn::StoreU(best[0][v], d, max + v * kLanes);
    hn::StoreU(hn::Add(total[0][v], total[1][v]), d, sum + v * kLanes);
  }
}

// Logits of a part of the words, as e^(z − max). `scratch` is the thread's.
void logits_of_part(const VocabularyHead& head, const VocabularyBlock& b, size_t part, float* scratch) {
  const AmxScope scope(b.amx());
  for (size_t block = b.part_begin(part); block < b.part_begin(part + 1); ++block) {
    const size_t v0 = block * kWordBlock, words = b.word_count(block);
    const RowTiles tiles(words, b.products);
    float* const z = b.logits_of(block);
    const auto next_rows = table_rows(head, b, block + 1);
    Matrix<const float> table = table_rows(head, b, block);
    if (b.in_pairs()) {
      for (size_t r = 0; r < words; ++r) pair_row(table.row(r), b.width, scratch + r * b.pair_stride());
      table = {scratch, words, b.steps(b.width), b.pair_stride()};
    }
    for (size_t t0 = 0; t0 < b.padded; t0 += kPanel) {
      for (size_t i = 0; i < tiles.count; ++i) {
        const size_t r0 = tiles.begin(i), turns = tiles.count * (b.padded / kPanel);
        multiply_tile(tiles.begin(i + 1) - r0,
                      {.a = table.row(r0),
                       .a_stride = table.stride(),
                       .b = b.x_transposed + t0 * b.width_padded(),
                       .k_count = table.cols(),
                       .out = z + r0 * b.padded + t0,
                       .out_stride = b.padded,
                       .start = head.bias ? head.bias + v0 + r0 : nullptr,
                       .next = Lines::of_run(next_rows.data(), next_rows.rows() * next_rows.stride(),
                                             t0 / kPanel * tiles.count + i, turns),
                       .products = b.products});
      }
      for (size_t t = t0; t < std::min(b.tokens, t0 + kPanel); ++t)
        if (const size_t r = b.target_in(block, t); r < words) b.at_target[t] = z[r * b.padded + t];
      const size_t at = block * b.padded + t0;
      exp_columns(z + t0, words, b.padded, b.max + at, b.sum + at);
    }
  }
}

// From the blocks' sums those of all words, for a panel of tokens; max becomes f.
void finish_sums(const VocabularyBlock& b, size_t panel) {
  const hn::ScalableTag<float> d;
  const size_t t0 = panel * kPanel, tokens = std::min(kPanel, b.tokens - t0);
  float* const largest = b.largest + t0;
  std::fill_n(largest, kPanel, -std::numeric_limits<float>::infinity());
  double sums[kPanel] = {};
  float factor[kPanel] = {};
  for (size_t block = 0; block < b.word_blocks; ++block)
    for (size_t j = 0; j < kPanel; ++j) largest[j] = std::max(largest[j], b.max[block * b.padded + t0 + j]);
  for (size_t block = 0; block < b.word_blocks; ++block) {
    float* const max = b.max + block * b.padded + t0;
    for (size_t j = 0; j < kPanel; j += kLanes)
      hn::StoreU(exp(d, hn::Sub(hn::LoadU(d, max + j), hn::LoadU(d, largest + j))), d, max + j);
    for (size_t j = 0; j < kPanel; ++j) sums[j] += double(max[j]) * double(b.sum[block * b.padded + t0 + j]);
  }
  for (size_t j = 0; j < tokens; ++j) {
    b.log_sum[t0 + j] = std::log(sums[j]);
    if (b.targets[t0 + j] >= 0) factor[j] = float(double(b.scale) / sums[j]);
  }
  for (size_t block = 0; block < b.word_blocks; ++block)
    for (size_t j = 0; j < kPanel; ++j) b.max[block * b.padded + t0 + j] *= factor[j];
}

// dzᵀ of a block of words, also in pieces, and d_bias.
HWY_INLINE void logit_gradients(const VocabularyBlock& b, size_t block, float* d_bias, float* pieces) {
  const hn::ScalableTag<float> d;
  const size_t words = b.word_count(block);
  const RowTiles tiles(b.tokens, b.products);
  float* const z = b.logits_of(block);
  const float* const factor = b.max + block * b.padded;
  for (size_t r = 0; r < words; ++r) {
    float* const row = z + r * b.padded;
    auto sum = hn::Zero(d);
    for (size_t t = 0; t < b.padded; t += kLanes) {
      const auto dz = hn::Mul(hn::LoadU(d, row + t), hn::LoadU(d, factor + t));
      hn::StoreU(dz, d, row + t);
      sum = hn::Add(sum, dz);
    }
    if (d_bias) d_bias[block * kWordBlock + r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  for (size_t t = 0; t < b.tokens; ++t) {
    const size_t r = b.target_in(block, t);
    if (r >= words) continue;
    z[r * b.padded + t] -= b.scale;
    if (d_bias) d_bias[block * kWordBlock + r] -= b.scale;
  }
  const Matrix<const float> dz(z, words, b.padded);
  for (size_t i = 0; i < tiles.count; ++i) {
    float* const to = pieces + i * b.piece_floats(words, kPieceStride);
    if (b.amx())
      pack_amx_tile(dz, tiles.begin(i), to, b.piece_floats(words, kPieceStride) / kAmxRows);
    else
      pack_tile(dz, tiles.begin(i), b.products, to);
  }
  for (size_t r = 0; r < words && b.in_pairs(); ++r) pair_row(z + r * b.padded, b.tokens, z + r * b.padded);
}

// A part of the words on the way back. `scratch` is the thread's.
void gradients_of_part(const VocabularyHead& head, const VocabularyBlock& b, size_t part,
                       const VocabularyGradient& gradient, float* scratch) {
  const size_t width = b.width_padded(), panels = width / kPanel;
  const Matrix<float> dx(b.dx_parts + part * b.tokens * width, b.tokens, width);
  float* const packed = scratch;
  float* const pieces = scratch + kWordBlock * std::max(kPanel, b.pair_stride());
  const RowTiles of_tokens(b.tokens, b.products);
  const AmxScope scope(b.amx());
  for (size_t block = b.part_begin(part); block < b.part_begin(part + 1); ++block) {
    const size_t words = b.word_count(block);
    const RowTiles of_words(words, b.products);
    const size_t piece_floats = b.piece_floats(words, kPieceStride);
    logit_gradients(b, block, gradient.d_bias, pieces);
    const Matrix<const float> table = table_rows(head, b, block), table_next = table_rows(head, b, block + 1);
    const Matrix<float> d_table = gradient.d_table.slice_rows(block * kWordBlock, words);
    const size_t turns = panels * of_tokens.count;
    for (size_t panel = 0; panel < panels; ++panel) {
      const size_t c = panel * kPanel, columns = std::min(kPanel, b.width - c);
      const auto rows_of = [&](size_t i) HWY_ATTR {
        const size_t r0 = of_words.begin(i);
        return d_table.slice_rows(r0, of_words.begin(i + 1) - r0).slice_cols(c, columns);
      };
      for (size_t i = 0; i < of_words.count; ++i) {
        const Matrix<float> out = rows_of(i);
        multiply_tile(out.rows(),
                      {.a = b.logits_of(block) + of_words.begin(i) * b.padded,
                       .a_stride = b.padded,
                       .b = b.x_packed + c * b.padded,
                       .k_count = b.steps(b.tokens),
                       .out = out.data(),
                       .out_stride = out.stride(),
                       .accumulate = true,
                       .next = i + 1 < of_words.count ? Lines::of_panel(rows_of(i + 1), 0, 1) : Lines{},
                       .products = b.products},
                      columns);
      }
      copy_panel(table.slice_cols(c, columns), packed);
      if (b.in_pairs()) pair_panel(packed, words, packed);
      if (b.amx()) fill_amx_step(packed, b.steps(words));
      for (size_t i = 0; i < of_tokens.count; ++i) {
        const size_t t0 = of_tokens.begin(i), turn = panel * of_tokens.count + i;
        const TileArgs args{
            .a = pieces + i * piece_floats,
            .a_stride = b.amx() ? piece_floats / kAmxRows : kPieceStride,
            .b = packed,
            .k_count = b.steps(words),
            .out = dx.row(t0) + c,
            .out_stride = width,
            .accumulate = block > b.part_begin(part),
            .next = turn % 2 == 0 ? Lines::of_run(b.logits_of(block + 1), table_next.rows() * b.padded,
                                                  turn / 2, (turns + 1) / 2)
                                  : Lines::of_run(table_next.data(), table_next.rows() * table_next.stride(),
                                                  turn / 2, (turns + 1) / 2),
            .products = b.products};
        const size_t rows = of_tokens.begin(i + 1) - t0;
        b.amx() ? tile_amx(rows, args) : tile_transposed(rows, args);
      }
    }
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(pack_tokens);
HWY_EXPORT(logits_of_part);
HWY_EXPORT(finish_sums);
HWY_EXPORT(gradients_of_part);

namespace {

// Lays out the workspace for `rows` tokens; returns the floats it takes.
size_t lay_out(size_t rows, size_t words, size_t width, int threads, float* memory, VocabularyBlock& b) {
  const size_t blocks = std::max<size_t>(1, (rows + kTokenBlock - 1) / kTokenBlock);
  b.tokens = (rows + blocks - 1) / blocks;
  b.padded = round_up(b.tokens, kPanel);
  b.words = words, b.width = width;
  b.word_blocks = (words + kWordBlock - 1) / kWordBlock;
  b.parts = std::min(b.word_blocks, kMostParts);
  size_t used = 0;
  const auto take = [&](size_t floats) {
    float* at = memory ? memory + used : nullptr;
    used += round_up(floats, kAlignment / sizeof(float));
    return at;
  };
  b.x_transposed = take(b.padded * b.width_padded());
  b.x_packed = take(b.padded * b.width_padded());
  b.logits = take(round_up(words, kAmxRows) * b.padded);
  b.max = take(b.word_blocks * b.padded);
  b.sum = take(b.word_blocks * b.padded);
  b.at_target = take(b.padded);
  b.largest = take(b.padded);
  b.log_sum = reinterpret_cast<double*>(take(2 * b.padded));
  b.dx_parts = take(b.parts * b.tokens * b.width_padded());
  b.scratch = take(size_t(threads) * b.scratch_floats());
  return used;
}

}  // namespace

size_t vocabulary_loss_workspace(size_t rows, size_t vocabulary, size_t width, int threads) {
  VocabularyBlock block;
  return lay_out(rows, vocabulary, width, threads, nullptr, block);
}

LossSum vocabulary_loss(Matrix<const float> x, const VocabularyHead& head, std::span<const int32_t> targets,
                        float scale, const VocabularyGradient* gradient, float* workspace, Team& team,
                        Products products) {
  assert(targets.size() == x.rows() && x.cols() == head.table.cols());
  VocabularyBlock b;
  lay_out(x.rows(), head.table.rows(), x.cols(), team.threads(), workspace, b);
  b.scale = scale, b.products = products_here(products);
  const size_t most = b.tokens;
  LossSum sum;
  for (size_t t0 = 0; t0 < x.rows(); t0 += most) {
    b.tokens = std::min(most, x.rows() - t0);
    b.padded = round_up(b.tokens, kPanel);
    b.targets = targets.data() + t0;
    const auto pack = HWY_DYNAMIC_DISPATCH(pack_tokens);
    team.parallel_for(panels_for(b.tokens),
                      [&](size_t panel) { pack(x.slice_rows(t0, b.tokens), b, panel); });
    const auto logits = HWY_DYNAMIC_DISPATCH(logits_of_part);
    const auto scratch = [&](size_t worker) { return b.scratch + worker * b.scratch_floats(); };
    team.parallel_for(b.parts, [&](size_t part, size_t worker) { logits(head, b, part, scratch(worker)); });
    const auto finish = HWY_DYNAMIC_DISPATCH(finish_sums);
    team.parallel_for(panels_for(b.tokens), [&](size_t panel) { finish(b, panel); });
    for (size_t t = 0; t < b.tokens; ++t)
      if (b.targets[t] >= 0)
        sum += {.loss = b.log_sum[t] + (double(b.largest[t]) - double(b.at_target[t])),
                .count = 1,
                .right = b.at_target[t] >= b.largest[t] && !std::isnan(b.log_sum[t])};
    if (!gradient) continue;
    const auto back = HWY_DYNAMIC_DISPATCH(gradients_of_part);
    team.parallel_for(b.parts,
                      [&](size_t part, size_t worker) { back(head, b, part, *gradient, scratch(worker)); });
    team.parallel_for(panels_for(b.tokens), [&](size_t panel) {
      for (size_t t = panel * kPanel; t < std::min(b.tokens, (panel + 1) * kPanel); ++t) {
        float* const to = gradient->dx.row(t0 + t);
        std::copy_n(b.dx_parts + t * b.width_padded(), b.width, to);
        for (size_t part = 1; part < b.parts; ++part) {
          const float* const from = b.dx_parts + (part * b.tokens + t) * b.width_padded();
          for (size_t e = 0; e < b.width; ++e) to[e] += from[e];
        }
      }
    });
  }
  return sum;
}

}  // namespace bertie::kernels
#endif
