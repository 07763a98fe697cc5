#pragma once
// Where one head of one sequence looks, in the units of the kernel: panels of 32 keys and a word of 32 bits
// for each query and panel. Panels that no query of a tile sees are not computed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "bertie/attention.h"

namespace bertie {

class Pattern {
 public:
  // n queries, m keys; first_row is the sequence's first row of q in the batch.
  Pattern(const Look& look, size_t head, size_t first_row, size_t n, size_t m);

  // Prepares for queries r0..r1−1; call it before the others. memory has memory_size(look, r1 − r0, m)
  // numbers.
  void prepare(size_t r0, size_t r1, int32_t* memory);
  static size_t memory_size(const Look& look, size_t rows, size_t m);

  // False only if none of queries r0..r1−1 sees any of keys j0..j1−1. O(1) or nearly.
  bool any(size_t r0, size_t r1, size_t j0, size_t j1) const;

  // A band: each query sees keys near its position only, and a tile of them the keys from band(r0, r1).first
  // to before .second.
  static bool is_band(const Look& look) {
    return look.kind == Look::Kind::kWindow || look.kind == Look::Kind::kAdaptiveSpan;
  }
  bool is_band() const { return is_band(look_); }
  std::pair<size_t, size_t> band(size_t r0, size_t r1) const;

  // bits[p], bit b: query i sees key j0 + 32·p + b. Writes all words up to j1.
  void row(size_t i, size_t j0, size_t j1, uint32_t* bits) const;

  bool full() const { return look_.kind == Look::Kind::kFull; }
  // Adaptive span: weights fade from `span` to `span + ramp`.
  bool has_ramp() const { return look_.kind == Look::Kind::kAdaptiveSpan; }
  float span() const { return span_; }
  float ramp() const { return look_.ramp; }
  int64_t position(size_t i) const { return int64_t(i) + shift_; }

 private:
  const Look& look_;
  size_t head_, first_row_;
  int64_t m_, shift_;
  int64_t before_, after_;  // of a window or span, not longer than all positions
  float span_ = 0;
  // BigBird: random blocks of the prepared queries' blocks, from block first_block_ on.
  int64_t first_block_ = 0;
  const int32_t* random_ = nullptr;  // for each block how many, and room for per_block_ − 1
  size_t per_block_ = 0;
  std::span<const int32_t> random_blocks_of(int64_t block) const {
    const int32_t* list = random_ + size_t(block - first_block_) * per_block_;
    return {list + 1, size_t(list[0])};
  }
};

}  // namespace bertie
