// Any bytes as an ONNX model: either an Error, or tensors whose bytes are all there.
// tests/io/onnx_test.cc runs mutations of exported graphs; tools/fuzz.sh everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_tensors.h"
#include "io/onnx.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const ModelFiles files = ModelFiles::in_memory({{"model.onnx", file}, {"today.onnx.data", file}});
    io::check_tensors(io::onnx_tensors(files, "model.onnx").tensors);
  } catch (const Error&) {
    return kRefused;
  }
  return 0;
}
