// Any bytes as a tokenizer.json, and as text for it: an Error, or encodings whose offsets lie inside the
// text. tests/text/hostile_test.cc runs it on mutations of valid files; tools/fuzz.sh on everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_tokenizer.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_json_text(json);
    check_tokenizer(tokenizer, json.substr(0, 1000));
    check_tokenizer(tokenizer, kOddText);
  } catch (const Error&) {
    return kRefused;
  }
  return 0;
}
