#pragma once
// Which weights dropout keeps: a pure function of (seed, sequence, head, query, key). One call of Philox
// gives 128 bits, 16 for each of 8 keys that lie 16 apart: keys j, j+16 … j+112 of a run of 128. So a vector
// of 16 calls serves 128 keys in a row, and any narrower vector serves the same ones.
#include <cstdint>

#include "bertie/attention.h"
#include "core/random.h"
#include "kernels/dropout.h"

namespace bertie {

using kernels::dropout_growth, kernels::dropout_threshold;

// Query i and key j, both counted within their sequence.
inline bool dropout_keeps(const Dropout& dropout, size_t sequence, size_t head, size_t i, size_t j) {
  const auto words =
      philox({uint32_t(i), uint32_t(j / 128 * 16 + j % 16), uint32_t(head), uint32_t(sequence)},
             {uint32_t(dropout.seed), uint32_t(dropout.seed >> 32)});
  const size_t t = j % 128 / 16;  // low half of word 0, high half of word 0, low half of word 1 …
  const uint32_t bits = words[t / 2] >> (t % 2 * 16) & 0xFFFF;
  return bits >= dropout_threshold(dropout.rate);
}

// 0 or 1/(1 − rate).
inline double dropout_factor(const Dropout& dropout, size_t sequence, size_t head, size_t i, size_t j) {
  return dropout_keeps(dropout, sequence, head, i, j) ? dropout_growth(dropout_threshold(dropout.rate)) : 0;
}

}  // namespace bertie
