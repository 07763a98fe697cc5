// Any bytes as a vocab.txt and as text: an Error, or encodings whose offsets lie inside the text. The first
// byte chooses: even, what follows is a vocab.txt; odd, it is text for a fixed vocabulary.
// tests/text/hostile_test.cc runs it on mutations of valid files; tools/fuzz.sh on everything else.
#include <cstdint>

#include "bertie/error.h"
#include "check_tokenizer.h"
#include "refused.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  static const Tokenizer fixed =
      Tokenizer::from_vocab_text("[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\ne\n##e\n.\nab\n##ab\n");
  if (size == 0) return kRefused;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2)
      check_tokenizer(fixed, rest);
    else
      check_tokenizer(Tokenizer::from_vocab_text(rest), rest.substr(0, 1000));
  } catch (const Error&) {
    return kRefused;
  }
  return 0;
}
