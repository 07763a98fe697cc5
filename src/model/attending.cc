#include "model/attending.h"

#include <algorithm>

namespace bertie {

// The rows of one sequence and its cache; `offsets` has room for 4 numbers.
dot_product::Batch Attending::cached(size_t layer, size_t s, int32_t* offsets) const {
  const size_t count = batch.queries(s), keys = cache->sequences[s].length + count;
  offsets[0] = offsets[2] = 0, offsets[1] = int32_t(count), offsets[3] = int32_t(keys);
  dot_product::Batch a = batch;
  a.q = batch.q.slice_rows(size_t(batch.q_offsets[s]), count);
  a.k = cache->table(s, layer, 0, keys), a.v = cache->table(s, layer, 1, keys);
  a.q_offsets = {offsets, 2}, a.k_offsets = {offsets + 2, 2};
  a.look.queries_at_end = true;
  return a;
}

size_t Attending::workspace_bytes(bool exact, int threads) const {
  if (!cache) return dot_product::workspace_bytes(batch, exact, threads);
  size_t most = 0;
  int32_t offsets[4];
  for (size_t s = 0; s < batch.sequences(); ++s)
    most = std::max(most, dot_product::workspace_bytes(cached(0, s, offsets), exact, threads));
  return most;
}

void Attending::run(size_t layer, Matrix<float> context, float* weights, std::byte* workspace,
                    Team& team) const {
  if (weights)
    return dot_product::exact(batch, context, {weights, dot_product::weights_size(batch)}, workspace, team);
  if (!cache) return dot_product::tiled(batch, context, {}, workspace, team);
  int32_t offsets[4];
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const auto first = size_t(batch.q_offsets[s]), count = batch.queries(s);
    if (count == 0) continue;
    const dot_product::Batch one = cached(layer, s, offsets);
    for (size_t which : {size_t{0}, size_t{1}}) {
      const Matrix<const float> from = (which == 0 ? batch.k : batch.v).slice_rows(first, count);
      const Matrix<float> to = cache->table(s, layer, which, one.keys(0));
      for (size_t t = 0; t < count; ++t) std::copy_n(from.row(t), from.cols(), to.row(to.rows() - count + t));
    }
    dot_product::tiled(one, context.slice_rows(first, count), {}, workspace, team);
  }
}

}  // namespace bertie
