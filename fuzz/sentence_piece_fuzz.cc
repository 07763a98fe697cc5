// Any bytes as a SentencePiece model, and as text for it: an Error, or encodings whose offsets lie inside the
// text. The first byte chooses the family. tests/text/unigram_test.cc runs it on mutations of valid models;
// tools/fuzz.sh on everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_tokenizer.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  if (size == 0) return kRefused;
  static constexpr const char* kFamilies[] = {"albert", "xlm-roberta", "camembert"};
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    Tokenizer tokenizer = Tokenizer::from_sentence_piece(rest, kFamilies[data[0] % 3]);
    check_tokenizer(tokenizer, rest.substr(0, 1000));
    check_tokenizer(tokenizer, kOddText);
  } catch (const Error&) {
    return kRefused;
  }
  return 0;
}
