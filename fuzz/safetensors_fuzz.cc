// Any bytes as a safetensors file: either an Error, or tensors that lie inside the file and can be read.
// tests/io/hostile_safetensors_test.cc runs it on mutations of a valid file; tools/fuzz.sh on everything
// else.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "io/safetensors.h"
#include "refused.h"

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
    return kRefused;
  }
  return 0;
}

#ifdef BERTIE_FUZZING
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// A change inside the header that adds or takes a byte makes its length wrong, and what it broke deeper
// inside is never seen: half of the time the length is set to where the last brace is.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  const size_t end = std::string_view(reinterpret_cast<const char*>(data), size).rfind('}');
  if (seed % 2 && end != std::string_view::npos && end >= 8) {
    const uint64_t header = end + 1 - 8;
    std::memcpy(data, &header, sizeof header);
  }
  return size;
}
#endif
