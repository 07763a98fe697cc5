#pragma once
// What models do with a packed batch before their layers: look whether it fits, and look its rows up.
#include <algorithm>

#include "bertie/model.h"
#include "core/parallel.h"
#include "io/safetensors.h"
#include "model/cache.h"

namespace bertie {

// Error if offsets or ids are wrong, or a sequence (with what the cache holds of it) has more than
// `max_tokens`.
void check_batch(const Batch& batch, size_t vocabulary, size_t max_tokens, const KeyValues* cache);
// Error if a cache is not for so many sequences of a model with so many layers of this size.
void check_cache(const KeyValues& cache, size_t sequences, size_t depth, size_t hidden);
// Error if a row that logits are wanted for is not there.
void check_rows(std::span<const int32_t> rows, size_t tokens);

// Room in the cache for a batch that goes on where its sequences ended; and the end of it.
void grow(KeyValues& cache, const Batch& batch);
void advance(KeyValues& cache, const Batch& batch);

// y[t] is row ids[t] of a table that stays as the file stores it; then add(t, y[t]).
template <class Add>
void look_up(const io::TensorInfo& table, std::span<const int32_t> ids, Matrix<float> y, Team& team,
             const Add& add) {
  constexpr size_t kRows = 32;
  team.parallel_for((y.rows() + kRows - 1) / kRows, [&](size_t chunk) {
    for (size_t t = chunk * kRows; t < std::min(y.rows(), (chunk + 1) * kRows); ++t) {
      io::to_float(table, size_t(ids[t]) * y.cols(), y[t]);
      add(t, y[t]);
    }
  });
}

}  // namespace bertie
