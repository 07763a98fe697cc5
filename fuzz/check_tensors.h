#pragma once
// What a reader of a stranger's weights gave: every byte of every tensor is there.
#include <span>

#include "io/safetensors.h"

namespace bertie::io {

// A sum over all bytes, so that each is looked at.
inline size_t check_tensors(std::span<const TensorInfo> tensors) {
  size_t sum = 0;
  for (const TensorInfo& t : tensors) {
    size_t elements = 1;
    for (const size_t n : t.shape) elements *= n;
    if (t.data.size() != elements * size_of(t.dtype)) __builtin_trap();
    for (const std::byte b : t.data) sum += size_t(b);
  }
  return sum;
}

}  // namespace bertie::io
