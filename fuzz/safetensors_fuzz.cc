// Any bytes as a safetensors file: either an Error, or tensors that lie inside the file and can be read.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -o safetensors_fuzz
//     fuzz/safetensors_fuzz.cc src/io/{safetensors,json,file,convert}.cc src/core/error.cc -lfmt
//   ./safetensors_fuzz -max_len=4096
//
// tests/io/hostile_safetensors_test.cc runs it on mutations of a valid file.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "bertie/error.h"
#include "io/safetensors.h"

// 0: a valid file; -1: refused, not worth keeping in a corpus of valid files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie::io;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    SafeTensors tensors = SafeTensors::from_memory(file, "fuzz");
    size_t bytes = 0;
    std::vector<float> values;
    for (const TensorInfo& tensor : tensors.tensors()) {
      if (tensors.find(tensor.name) != &tensor) std::abort();
      if (tensor.data.size() != tensor.elements() * size_of(tensor.dtype)) std::abort();
      bytes += tensor.data.size();
      values.resize(tensor.elements());
      try {
        to_float(tensor, 0, values);
      } catch (const bertie::Error&) {
      }
    }
    if (bytes > size) std::abort();
  } catch (const bertie::Error&) {
    return -1;
  }
  return 0;
}
