#pragma once
// Sequences of words side by side, as lstm.h has them: step by step, the longest sequence first.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bertie::baseline {

struct WordBatch {
  std::vector<int32_t> words = {};  // numbers of a Vocabulary, step by step
  std::vector<size_t> steps = {};   // steps[t] .. steps[t + 1] − 1 are the words of step t
  // Where each sequence would begin if they lay one after the other, and the end; and, in that order, where
  // each word is in `words`.
  std::vector<int32_t> offsets = {}, rows = {};

  size_t sequences() const { return offsets.size() - 1; }
};

WordBatch make_word_batch(std::span<const std::span<const int32_t>> sequences);

// All sequences in an order that is random, in batches of similar lengths: places in `lengths`. The same seed
// and epoch give the same batches.
std::vector<std::vector<size_t>> batches_of_similar_length(const std::vector<size_t>& lengths, size_t batch,
                                                           uint64_t seed, uint64_t epoch);

}  // namespace bertie::baseline
