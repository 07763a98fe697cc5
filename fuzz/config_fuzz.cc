// Any bytes as a config.json: an Error, or a shape that is written and read again as the same.
// tests/model/hostile_config_test.cc runs it on mutations of valid files; tools/fuzz.sh on everything else.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "bertie/error.h"
#include "bertie/transformer.h"
#include "refused.h"

namespace bertie {

inline ModelFiles config_file(std::span<const std::byte> bytes) {
  return ModelFiles::in_memory({{"config.json", bytes}});
}

// Whether C, a Config or a TransformerConfig, takes the file.
template <class C>
bool check_config(std::span<const std::byte> bytes) {
  std::string written;
  try {
    const C config = C::load(config_file(bytes));
    written = config.to_json();
    config.parameters();
  } catch (const Error&) {
    return false;
  }
  // Not caught: what was accepted and written must be accepted.
  if (C::load(config_file(std::as_bytes(std::span(written)))).to_json() != written) std::abort();
  return true;
}

}  // namespace bertie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const bool one_side = check_config<Config>(bytes), both_sides = check_config<TransformerConfig>(bytes);
  return one_side || both_sides ? 0 : kRefused;
}
