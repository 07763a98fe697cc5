#include "model/embed.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "kernels/embedding.h"
#include "model/batch.h"

namespace bertie {

void check_tokens(const Batch& b, const Config& c, const KeyValues* cache) {
  if (!b.types.empty() && b.types.size() != b.ids.size())
    throw Error(fmt::format("batch: {} types for {} ids", b.types.size(), b.ids.size()));
  if (cache) check_cache(*cache, b.size(), c.depth(), c.hidden);
  check_batch(b, c.vocabulary, c.max_tokens(), cache);
  for (size_t t = 0; t < b.types.size() && c.types > 1; ++t)
    if (b.types[t] < 0 || size_t(b.types[t]) >= c.types)
      throw Error(fmt::format("token type {} at {} is outside the model's {} types", b.types[t], t, c.types));
}

void find_positions(const Weights& w, const Batch& b, const KeyValues* cache,
                    std::vector<int32_t>& positions) {
  positions.resize(b.ids.size());
  for (size_t s = 0; s < b.size(); ++s) {
    int32_t next = cache ? int32_t(cache->sequences[s].length) : 0;
    if (w.family->positions_after_pad) next = w.config.pad_id + 1;
    for (auto t = size_t(b.offsets[s]); t < size_t(b.offsets[s + 1]); ++t)
      positions[t] = w.family->positions_after_pad && b.ids[t] == w.config.pad_id ? w.config.pad_id : next++;
  }
}

void embed(const Weights& w, const Batch& b, std::span<const int32_t> positions, Matrix<float> y,
           Team& team) {
  const size_t width = y.cols();
  const bool types = w.config.types > 1 && !b.types.empty();
  look_up(w.word, b.ids, y, team, [&](size_t t, std::span<float> row) {
    const float* type = w.type ? w.type + (types ? size_t(b.types[t]) : 0) * width : nullptr;
    kernels::add_position_and_type(w.position + size_t(positions[t]) * width, type, row);
  });
}

void find_positions(const Batch& b, const KeyValues* cache, std::vector<int32_t>& positions) {
  positions.resize(b.ids.size());
  for (size_t s = 0; s < b.size(); ++s)
    for (int32_t t = b.offsets[s]; t < b.offsets[s + 1]; ++t)
      positions[size_t(t)] = t - b.offsets[s] + (cache ? int32_t(cache->sequences[s].length) : 0);
}

void embed(const TransformerWeights& w, const Batch& b, std::span<const int32_t> positions, Matrix<float> y,
           Team& team) {
  const float scale = w.word_scale();
  look_up(w.word, b.ids, y, team, [&](size_t t, std::span<float> row) {
    for (float& x : row) x *= scale;
    kernels::add_position_and_type(w.position.row(size_t(positions[t])), nullptr, row);
  });
}

}  // namespace bertie
