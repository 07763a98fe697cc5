#pragma once
// Any bytes as a file of torch.save: either an Error, or tensors whose bytes are all there.
#include <span>

#include "io/torch_file.h"

namespace bertie::io {

// A sum over every byte of every tensor, so that each is looked at.
inline size_t check_torch(std::span<const std::byte> file) {
  size_t sum = 0;
  const TorchTensors torch = torch_tensors(file, "file");
  for (const TensorInfo& t : torch.tensors) {
    size_t elements = 1;
    for (const size_t n : t.shape) elements *= n;
    if (t.data.size() != elements * size_of(t.dtype)) __builtin_trap();
    for (const std::byte b : t.data) sum += size_t(b);
  }
  return sum;
}

}  // namespace bertie::io
