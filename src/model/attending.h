#pragma once
// A layer's attention as the models use it: over the batch itself, over another batch (a decoder's over the
// encoder's), or over a cache that holds what was read before.
#include "attention/scaled_dot_product.h"
#include "core/parallel.h"
#include "model/cache.h"

namespace bertie {

struct Attending {
  dot_product::Batch batch;    // with a cache, k and v are the new rows, which are added to it
  KeyValues* cache = nullptr;  // null: none

  size_t workspace_bytes(bool exact, int threads) const;
  // `weights`, if not null, has room for dot_product::weights_size(batch) and gets the weights; not with a
  // cache.
  void run(size_t layer, Matrix<float> context, float* weights, std::byte* workspace, Team& team) const;

 private:
  dot_product::Batch cached(size_t layer, size_t sequence, int32_t* offsets) const;
};

}  // namespace bertie
