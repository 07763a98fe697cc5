#pragma once
// Who computes what of a product. Rows go in blocks that fit into the L2 cache. Each thread has a share: as
// many whole blocks as every other or, where there are fewer blocks than threads, as many panels of every
// block. So what a thread wrote in one operation it reads in the next. A share goes in large chunks, which
// find their next panels prefetched; its last block goes in smaller ones, and the end of that in single
// panels of half the rows, for whoever is done first to take, so that threads end about together, also when
// one was disturbed. For two threads and four blocks, or one:
//
//   block 0   |   A   |   A   |        rows of a block down, panels across
//   block 1   |A |A |A |A |a|a|        upper halves of the rows
//             |A |A |A |A |a|a|        lower halves
//   block 2   |   B   |   B   |        block 0   |A|A|A|A|a|B|B|B|B|b|
//   block 3   |B |B |B |B |b|b|                  |A|A|A|A|a|B|B|B|B|b|
//             |B |B |B |B |b|b|
//
// Chunks are numbered share by share, all shares have as many, and Team gives each thread a share.
#include <algorithm>
#include <cstddef>

#include "core/arena.h"
#include "kernels/gemm.h"

namespace bertie::kernels {

class Schedule {
 public:
  static constexpr size_t kMaxBlocks = 256;
  struct Chunk {
    size_t block, r0, r1;      // rows [r0, r1)
    size_t first, last, then;  // panels [first, last), and the one that this thread will want after them
  };

  // `fitting` rows fit into the cache; blocks are larger where that would be very few, or very many blocks.
  Schedule(size_t rows, size_t panels, size_t fitting, size_t threads)
      : rows_(rows), panels_(panels), threads_(threads) {
    const size_t block_rows = std::max({4 * kTileRowsLimit, fitting, (rows + kMaxBlocks - 1) / kMaxBlocks});
    blocks_ = (rows + block_rows - 1) / block_rows;
    by_rows_ = blocks_ >= threads;
    if (by_rows_) {
      const size_t more = round_up(blocks_, threads);
      blocks_ = more <= kMaxBlocks ? more : blocks_ / threads * threads;
    }
    own_blocks_ = by_rows_ ? blocks_ / threads : blocks_;
    if (threads == 1) return;
    large_ = 2, last_ = 4;
    halves_ = rows / blocks_ >= 4 * kTileRowsLimit ? 2 : 1;
    single_ = std::max<size_t>(1, (by_rows_ ? panels_ : panels_ / threads) / 8);
  }

  bool by_rows() const { return by_rows_; }  // shares are whole blocks
  size_t blocks() const { return blocks_; }
  size_t block_begin(size_t b) const { return b * rows_ / blocks_; }
  size_t chunks() const { return threads_ * share(); }
  size_t chunks_of(size_t block) const {
    const bool is_last = (by_rows_ ? block % own_blocks_ : block) + 1 == own_blocks_;
    const size_t of_share = is_last ? last_ + single_ * halves_ : large_;
    return by_rows_ ? of_share : threads_ * of_share;
  }

  Chunk operator[](size_t chunk) const {
    const size_t owner = chunk / share(), c = chunk % share();
    const size_t own_block = std::min(c / large_, own_blocks_ - 1), part = c - own_block * large_;
    const size_t b = by_rows_ ? owner * own_blocks_ + own_block : own_block;
    const size_t begin = by_rows_ ? 0 : owner * panels_ / threads_,
                 end = by_rows_ ? panels_ : (owner + 1) * panels_ / threads_;
    const size_t r0 = block_begin(b), r1 = block_begin(b + 1);
    if (own_block + 1 < own_blocks_) {
      const auto from = [&](size_t n) { return begin + n * (end - begin) / large_; };
      return {b, r0, r1, from(part), from(part + 1), from((part + 1) % large_)};
    }
    // The last block of the share; one of few panels has empty chunks.
    const size_t singles = end - std::min(single_, end - begin);
    const auto next = [&](size_t panel) { return panel < end ? panel : panels_; };
    if (part < last_) {
      const auto from = [&](size_t n) { return begin + n * (singles - begin) / last_; };
      return {b, r0, r1, from(part), from(part + 1), next(from(part + 1))};
    }
    const size_t single = part - last_, half = single % halves_;
    const size_t panel = std::min(end, singles + single / halves_);
    const auto at_half = [&](size_t h) { return r0 + h * (r1 - r0) / halves_; };
    return {b,
            at_half(half),
            at_half(half + 1),
            panel,
            std::min(end, panel + 1),
            next(singles + (single + 1) / halves_)};
  }

 private:
  size_t share() const { return (own_blocks_ - 1) * large_ + last_ + single_ * halves_; }  // chunks of one

  size_t rows_, panels_, threads_, blocks_;
  bool by_rows_;
  size_t own_blocks_;  // blocks that a share is of
  size_t large_ = 1;   // chunks of each but the last of them
  size_t last_ = 1;    // of the last
  size_t single_ = 0;  // single panels at its end
  size_t halves_ = 1;  // of the rows, for single panels: 2, or 1 where rows are few
};

}  // namespace bertie::kernels
