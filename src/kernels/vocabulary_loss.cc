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
// Consecutive blocks of words form at most 32 parts, each with a dx of its own; these are added in order. So
// sums do not depend on the team.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/arena.h"
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
  float* x_transposed;  // panels of 32 tokens, each width × 32
  float* x_packed;      // panels of 32 columns, each tokens × 32
  float* logits;        // words × padded
  float* max;           // word_blocks × padded, and after that f
  float* sum;           // word_blocks × padded
  float* at_target;     // padded
  float* dx_parts;      // parts × tokens × width in whole panels
  float* table_packed;  // a word block for each thread, in panels of 32 columns

  size_t width_padded() const { return panels_for(width) * kPanel; }
  size_t word_count(size_t block) const { return std::min(kWordBlock, words - block * kWordBlock); }
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

// Tokens without a target are packed as zeros: whatever they hold, it reaches nobody.
void pack_tokens(Matrix<const float> x, const VocabularyBlock& b, size_t panel) {
  const size_t first = panel * kPanel, count = std::min(kPanel, b.tokens - first);
  float* to = b.x_transposed + panel * b.width * kPanel;
  transpose_panel(x.slice_rows(first, count), 1.0f, to);
  for (size_t j = 0; j < count; ++j)
    if (b.targets[first + j] < 0)
      for (size_t e = 0; e < b.width; ++e) to[e * kPanel + j] = 0;
  for (size_t c = 0; c < b.width; c += kPanel) {
    float* rows = b.x_packed + c * b.tokens + first * kPanel;
    copy_panel(x.slice_rows(first, count).slice_cols(c, std::min(kPanel, b.width - c)), rows);
    for (size_t j = 0; j < count; ++j)
      if (b.targets[first + j] < 0) std::fill_n(rows + j * kPanel, kPanel, 0.0f);
  }
}

// logits[:, 0..31] of `rows` words: max = their largest for each column, then e^(z − max) in their place, and
// the sums of these.
HWY_INLINE void exp_columns(float* z, size_t rows, size_t stride, float* max, float* sum) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  for (size_t c = 0; c < kPanel; c += hn::Lanes(d)) {
    V best = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (size_t r = 0; r < rows; ++r) best = hn::Max(hn::LoadU(d, z + r * stride + c), best);
    V total = hn::Zero(d);
    for (size_t r = 0; r < rows; ++r) {
      float* at = z + r * stride + c;
      const V e = exp2(d, hn::Mul(hn::Sub(hn::LoadU(d, at), best), hn::Set(d, kLog2E)));
      hn::StoreU(e, d, at);
      total = hn::Add(total, e);
    }
    hn::StoreU(best, d, max + c);
    hn::StoreU(total, d, sum + c);
  }
}

void logits_of_block(const VocabularyHead& head, const VocabularyBlock& b, size_t block) {
  const size_t v0 = block * kWordBlock, words = b.word_count(block);
  const RowTiles tiles(words);
  float* const z = b.logits + v0 * b.padded;
  for (size_t t0 = 0; t0 < b.padded; t0 += kPanel) {
    for (size_t tile_number = 0; tile_number < tiles.count; ++tile_number) {
      const size_t r0 = tiles.begin(tile_number);
      tile(tiles.begin(tile_number + 1) - r0, {.a = head.table.row(v0 + r0),
                                               .a_stride = head.table.stride(),
                                               .b = b.x_transposed + t0 * b.width,
                                               .k_count = b.width,
                                               .out = z + r0 * b.padded + t0,
                                               .out_stride = b.padded,
                                               .start = head.bias ? head.bias + v0 + r0 : nullptr});
    }
    for (size_t t = t0; t < std::min(b.tokens, t0 + kPanel); ++t) {
      const size_t target = size_t(b.targets[t]);
      if (b.targets[t] >= 0 && target >= v0 && target < v0 + words)
        b.at_target[t] = z[(target - v0) * b.padded + t];
    }
    const size_t at = block * b.padded + t0;
    exp_columns(z + t0, words, b.padded, b.max + at, b.sum + at);
  }
}

// max becomes f; the loss of the block's tokens.
LossSum finish_sums(const VocabularyBlock& b) {
  LossSum result;
  for (size_t t = 0; t < b.tokens; ++t) {
    float max = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < b.word_blocks; ++i) max = std::max(max, b.max[i * b.padded + t]);
    double sum = 0;
    for (size_t i = 0; i < b.word_blocks; ++i) {
      const size_t at = i * b.padded + t;
      b.max[at] = std::exp(b.max[at] - max);
      sum += double(b.sum[at]) * double(b.max[at]);
    }
    const bool counts = b.targets[t] >= 0;
    const float factor = counts ? float(double(b.scale) / sum) : 0.0f;
    for (size_t i = 0; i < b.word_blocks; ++i) b.max[i * b.padded + t] *= factor;
    if (counts)
      result += {.loss = std::log(sum) + (double(max) - double(b.at_target[t])),
                 .count = 1,
                 .right = b.at_target[t] >= max};
  }
  for (size_t i = 0; i < b.word_blocks; ++i)
    std::fill(b.max + i * b.padded + b.tokens, b.max + (i + 1) * b.padded, 0.0f);
  return result;
}

// dzᵀ of a block of words, and d_bias.
HWY_INLINE void logit_gradients(const VocabularyBlock& b, size_t block, float* d_bias) {
  const hn::ScalableTag<float> d;
  const size_t v0 = block * kWordBlock, words = b.word_count(block);
  float* const z = b.logits + v0 * b.padded;
  const float* const factor = b.max + block * b.padded;
  for (size_t r = 0; r < words; ++r) {
    auto sum = hn::Zero(d);
    for (size_t t = 0; t < b.padded; t += hn::Lanes(d)) {
      float* at = z + r * b.padded + t;
      const auto dz = hn::Mul(hn::LoadU(d, at), hn::LoadU(d, factor + t));
      hn::StoreU(dz, d, at);
      sum = hn::Add(sum, dz);
    }
    if (d_bias) d_bias[v0 + r] += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  for (size_t t = 0; t < b.tokens; ++t) {
    const size_t target = size_t(b.targets[t]);
    if (b.targets[t] < 0 || target < v0 || target >= v0 + words) continue;
    z[(target - v0) * b.padded + t] -= b.scale;
    if (d_bias) d_bias[target] -= b.scale;
  }
}

// Word blocks [first, last) of the way back; `packed` is memory for one block of the table.
void gradients_of_part(const VocabularyHead& head, const VocabularyBlock& b, size_t part,
                       const VocabularyGradient& gradient, float* packed) {
  const size_t first = part * b.word_blocks / b.parts, last = (part + 1) * b.word_blocks / b.parts;
  const size_t width = b.width_padded();
  const Matrix<float> dx(b.dx_parts + part * b.tokens * width, b.tokens, width);
  const RowTiles of_tokens(b.tokens);
  for (size_t block = first; block < last; ++block) {
    const size_t v0 = block * kWordBlock, words = b.word_count(block);
    const float* const dz = b.logits + v0 * b.padded;
    const RowTiles of_words(words);
    logit_gradients(b, block, gradient.d_bias);
    for (size_t c = 0; c < b.width; c += kPanel) {
      const size_t columns = std::min(kPanel, b.width - c);
      for (size_t i = 0; i < of_words.count; ++i) {
        const size_t r0 = of_words.begin(i);
        tile(of_words.begin(i + 1) - r0,
             {.a = dz + r0 * b.padded,
              .a_stride = b.padded,
              .b = b.x_packed + c * b.tokens,
              .k_count = b.tokens,
              .out = gradient.d_table.row(v0 + r0) + c,
              .out_stride = gradient.d_table.stride(),
              .accumulate = true},
             columns);
      }
      copy_panel(head.table.slice_rows(v0, words).slice_cols(c, columns), packed);
      for (size_t i = 0; i < of_tokens.count; ++i) {
        const size_t t0 = of_tokens.begin(i);
        tile_transposed(of_tokens.begin(i + 1) - t0, {.a = dz + t0,
                                                      .a_stride = b.padded,
                                                      .b = packed,
                                                      .k_count = words,
                                                      .out = dx.row(t0) + c,
                                                      .out_stride = width,
                                                      .accumulate = block > first});
      }
    }
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(pack_tokens);
HWY_EXPORT(logits_of_block);
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
  b.x_transposed = take(b.padded * width);
  b.x_packed = take(b.tokens * b.width_padded());
  b.logits = take(words * b.padded);
  b.max = take(b.word_blocks * b.padded);
  b.sum = take(b.word_blocks * b.padded);
  b.at_target = take(b.padded);
  b.dx_parts = take(b.parts * b.tokens * b.width_padded());
  b.table_packed = take(size_t(threads) * kWordBlock * kPanel);
  return used;
}

}  // namespace

size_t vocabulary_loss_workspace(size_t rows, size_t vocabulary, size_t width, int threads) {
  VocabularyBlock block;
  return lay_out(rows, vocabulary, width, threads, nullptr, block);
}

LossSum vocabulary_loss(Matrix<const float> x, const VocabularyHead& head, std::span<const int32_t> targets,
                        float scale, const VocabularyGradient* gradient, float* workspace, Team& team) {
  assert(targets.size() == x.rows() && x.cols() == head.table.cols());
  VocabularyBlock b;
  lay_out(x.rows(), head.table.rows(), x.cols(), team.threads(), workspace, b);
  b.scale = scale;
  const size_t most = b.tokens;
  LossSum sum;
  for (size_t t0 = 0; t0 < x.rows(); t0 += most) {
    b.tokens = std::min(most, x.rows() - t0);
    b.padded = round_up(b.tokens, kPanel);
    b.targets = targets.data() + t0;
    const auto pack = HWY_DYNAMIC_DISPATCH(pack_tokens);
    team.parallel_for(panels_for(b.tokens),
                      [&](size_t panel) { pack(x.slice_rows(t0, b.tokens), b, panel); });
    const auto logits = HWY_DYNAMIC_DISPATCH(logits_of_block);
    team.parallel_for(b.word_blocks, [&](size_t block) { logits(head, b, block); });
    sum += HWY_DYNAMIC_DISPATCH(finish_sums)(b);
    if (!gradient) continue;
    const auto back = HWY_DYNAMIC_DISPATCH(gradients_of_part);
    team.parallel_for(b.parts, [&](size_t part, size_t worker) {
      back(head, b, part, *gradient, b.table_packed + worker * kWordBlock * kPanel);
    });
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
