// Any bytes as a file of torch.save: either an Error, or tensors whose bytes are all there.
// tests/io/torch_file_test.cc runs it on mutations of PyTorch's files; tools/fuzz.sh on everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_tensors.h"
#include "io/torch_file.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::span file(reinterpret_cast<const std::byte*>(data), size);
    bertie::io::check_tensors(bertie::io::torch_tensors(file, "file").tensors);
  } catch (const bertie::Error&) {
    return kRefused;
  }
  return 0;
}
