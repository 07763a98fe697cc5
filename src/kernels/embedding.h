#pragma once
// y[t] = word[ids[t]] + position[t − start of its sequence] + type[types[t]]
// backward: dword[ids[t]] += dy[t], dposition[…] += dy[t], dtype[types[t]] += dy[t], in the order of t
//
// The word table may be in half precision in a mapped file, so the caller looks word rows up and this adds
// the rest.
#include <cstdint>
#include <span>

#include "bertie/view.h"
#include "core/parallel.h"

namespace bertie::kernels {

// y[0..n-1] += position + type for one token; type may be null, for models that have none.
inline void add_position_and_type(const float* position, const float* type, std::span<float> y) {
  if (!type)
    for (size_t c = 0; c < y.size(); ++c) y[c] += position[c];
  else
    for (size_t c = 0; c < y.size(); ++c) y[c] += position[c] + type[c];
}

// d_table[rows[t]] += factor·dy[t], in the order of t whatever the team.
void embedding_backward(std::span<const int32_t> rows, Matrix<const float> dy, float factor,
                        Matrix<float> d_table, Team& team);

}  // namespace bertie::kernels
