#pragma once
// The random part of BigBird's pattern (Zaheer et al. 2020), a function of (seed, head, block of queries)
// alone: forward and backward pass, any thread and the reference draw the same blocks.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "bertie/attention.h"
#include "core/random.h"

namespace bertie {

// The block that a position is in. A query may stand before the first key (queries_at_end with more queries
// than keys), so positions and blocks are signed.
inline int64_t big_bird_block(const BigBird& pattern, int64_t position) {
  const auto size = int64_t(pattern.block);
  return position >= 0 ? position / size : -((size - 1 - position) / size);
}

// min(random, candidates) different blocks out of the key blocks that are neither global nor in the window of
// query block `block`, increasing, in `blocks`, which has room for min(random, key_blocks); returns how many.
// By Floyd's algorithm: every subset is as likely as any other, and no list of the candidates is needed. (A
// global block of queries sees everything and needs no draw.)
inline size_t random_blocks(const BigBird& pattern, size_t head, int64_t block, size_t key_blocks,
                            int32_t* blocks) {
  size_t count = 0;
  const auto side = int64_t(pattern.window / 2), keys = int64_t(key_blocks);
  // The candidates are [first, window_begin) and [window_end, keys).
  const int64_t first = std::min(int64_t(pattern.global), keys);
  const int64_t window_begin = std::clamp(block - side, first, keys);
  const int64_t window_end = std::clamp(block + side + 1, window_begin, keys);
  const int64_t before = window_begin - first, candidates = before + (keys - window_end);
  Random random(pattern.seed, uint64_t(head) << 32 | uint32_t(block));
  for (int64_t i = candidates - std::min(int64_t(pattern.random), candidates); i < candidates; ++i) {
    const int64_t drawn = random.below(uint32_t(i + 1));
    const auto block_of = [&](int64_t c) {
      return int32_t(c < before ? first + c : window_end + c - before);
    };
    const bool taken = std::find(blocks, blocks + count, block_of(drawn)) != blocks + count;
    blocks[count++] = block_of(taken ? i : drawn);
  }
  std::sort(blocks, blocks + count);
  return count;
}

inline void random_blocks(const BigBird& pattern, size_t head, int64_t block, size_t key_blocks,
                          std::vector<int32_t>& blocks) {
  blocks.resize(std::min(pattern.random, key_blocks));
  blocks.resize(random_blocks(pattern, head, block, key_blocks, blocks.data()));
}

}  // namespace bertie
