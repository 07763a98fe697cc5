// Any bytes as a TensorFlow checkpoint, the first half its index and the second its numbers: either an Error,
// or tensors whose bytes are all there. CRCs are not looked at: no fuzzer guesses them.
// tests/io/tensorflow_checkpoint_test.cc runs mutations of TensorFlow's files; tools/fuzz.sh everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_tensors.h"
#include "io/tensorflow_checkpoint.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const size_t index = size - size / 2;
  try {
    const ModelFiles files = ModelFiles::in_memory(
        {{"a.index", file.first(index)}, {"a.data-00000-of-00001", file.subspan(index)}});
    io::check_tensors(io::tensorflow_tensors(files, "a.index", io::Crcs::kIgnore).tensors);
  } catch (const Error&) {
    return kRefused;
  }
  return 0;
}
