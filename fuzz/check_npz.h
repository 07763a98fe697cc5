#pragma once
// What must hold for any .npz file that opened.
#include <cstdlib>
#include <span>

#include "bertie/error.h"
#include "io/npz.h"

namespace bertie::io {

// Throws Error where the file is refused; the result is how many of its tensors could be read.
inline size_t check_npz(std::span<const std::byte> file) {
  const Npz npz = Npz::from_memory(file, "fuzz");
  size_t read = 0;
  for (const NpzTensor& tensor : npz.tensors()) {
    if (npz.find(tensor.name) != &tensor) std::abort();
    if (tensor.bytes > 2000 * file.size()) std::abort();  // deflate cannot
    size_t elements = 1;
    for (size_t n : tensor.shape) elements *= n;
    try {
      if (npz.read(tensor).size() != elements) std::abort();
      ++read;
    } catch (const Error&) {  // its checksum is wrong, or it is not of numbers
    }
  }
  return read;
}

}  // namespace bertie::io
