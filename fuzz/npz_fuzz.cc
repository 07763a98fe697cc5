// Any bytes as an .npz file: either an Error, or tensors whose numbers are as many as their shape says.
// tests/io/npz_test.cc runs it on mutations of NumPy's files; tools/fuzz.sh on everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_npz.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    bertie::io::check_npz({reinterpret_cast<const std::byte*>(data), size});
  } catch (const bertie::Error&) {
    return kRefused;
  }
  return 0;
}
