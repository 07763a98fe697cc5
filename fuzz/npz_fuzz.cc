// Any bytes as an .npz file: either an Error, or tensors whose numbers are as many as their shape says.
// tests/io/npz_test.cc runs it on mutations of NumPy's files; tools/fuzz.sh builds it.
#include <cstdint>
#include <cstdlib>

#include "bertie/error.h"
#include "io/npz.h"

// 0: a valid file; -1: refused, not worth keeping in a corpus of valid files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie::io;
  try {
    const Npz npz = Npz::from_memory({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    for (const NpzTensor& tensor : npz.tensors()) {
      if (npz.find(tensor.name) != &tensor) std::abort();
      if (tensor.bytes > 2000 * size) std::abort();  // deflate cannot
      size_t elements = 1;
      for (size_t n : tensor.shape) elements *= n;
      try {
        if (npz.read(tensor).size() != elements) std::abort();
      } catch (const bertie::Error&) {
      }
    }
  } catch (const bertie::Error&) {
    return -1;
  }
  return 0;
}
