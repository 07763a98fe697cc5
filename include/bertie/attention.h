#pragma once
// Attention(Q, K, V) = softmax(Q·Kᵀ·scale)·V on your own buffers.
//
//   q (n, H·D)   k (m, H·D)   v (m, H·Dv)   out (n, H·Dv)   weights (H·n, m)
//
// Head h takes columns h·D.. of q and k and columns h·Dv.. of v. n and m may differ (cross-attention) and
// be 0: a query with nothing to look at gives zeros.
#include <cstddef>

#include "bertie/export.h"
#include "bertie/view.h"

namespace bertie {

struct AttentionOptions {
  size_t heads = 1;
  float scale = 0;  // 0 means 1/√D
  int threads = 1;
};

// Online softmax over blocks of keys: memory grows with n + m, not with n·m.
BERTIE_API void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                          Matrix<float> out, const AttentionOptions& options = {});

// The same, and the weights: row h·n + i says how much query i of head h looks at each key.
BERTIE_API void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                          Matrix<float> out, Matrix<float> weights, const AttentionOptions& options = {});

}  // namespace bertie
