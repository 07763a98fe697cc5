#include "model/batch.h"

#include <fmt/format.h>

#include "bertie/error.h"

namespace bertie {
namespace {

size_t length_of(const Batch& b, size_t s) { return size_t(b.offsets[s + 1] - b.offsets[s]); }

}  // namespace

void check_batch(const Batch& b, size_t vocabulary, size_t max_tokens, const KeyValues* cache) {
  if (b.offsets.empty() || b.offsets.front() != 0 || size_t(b.offsets.back()) != b.ids.size())
    throw Error(fmt::format("batch: offsets must go from 0 to the number of ids, {}", b.ids.size()));
  for (size_t s = 0; s < b.size(); ++s) {
    if (b.offsets[s] > b.offsets[s + 1])
      throw Error(fmt::format("batch: offsets go back at sequence {}: {} after {}", s, b.offsets[s + 1],
                              b.offsets[s]));
    const size_t tokens = length_of(b, s) + (cache ? cache->sequences[s].length : 0);
    if (tokens > max_tokens)
      throw Error(
          fmt::format("sequence {} has {} tokens, but the model has positions for {}", s, tokens, max_tokens),
          "truncate it (--max-length) or split it into windows");
  }
  for (size_t t = 0; t < b.ids.size(); ++t)
    if (b.ids[t] < 0 || size_t(b.ids[t]) >= vocabulary)
      throw Error(fmt::format("token id {} at {} is outside the vocabulary of {}", b.ids[t], t, vocabulary),
                  "the tokenizer and the model may not belong together");
}

void check_cache(const KeyValues& cache, size_t sequences, size_t depth, size_t hidden) {
  if (cache.sequences.size() != sequences)
    throw Error(fmt::format("batch: {} sequences, but the cache has {}", sequences, cache.sequences.size()));
  if (cache.depth != depth || cache.hidden != hidden) throw Error("the cache was made for another model");
}

void check_rows(std::span<const int32_t> rows, size_t tokens) {
  for (int32_t row : rows)
    if (row < 0 || size_t(row) >= tokens)
      throw Error(fmt::format("Capture::rows: there is no token {} in a batch of {}", row, tokens));
}

void grow(KeyValues& cache, const Batch& batch) {
  for (size_t s = 0; s < batch.size(); ++s) cache.grow(s, cache.sequences[s].length + length_of(batch, s));
}

void advance(KeyValues& cache, const Batch& batch) {
  for (size_t s = 0; s < batch.size(); ++s) cache.sequences[s].length += length_of(batch, s);
}

}  // namespace bertie
