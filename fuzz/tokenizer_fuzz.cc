// Any bytes as a tokenizer file and as text: an Error, or encodings whose offsets lie inside the text.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -o tokenizer_fuzz
//     fuzz/tokenizer_fuzz.cc src/text/*.cc src/text/*/*.cc src/io/{json,file}.cc src/core/error.cc -lfmt
//   ./tokenizer_fuzz -max_len=4096
//
// The first byte chooses: a vocab.txt, a tokenizer.json, or text for a fixed vocabulary. What follows is that
// file, or the text. tests/text/hostile_test.cc runs it on mutations of valid files.
#include <cstdint>

#include "bertie/error.h"
#include "check_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  static const Tokenizer fixed =
      Tokenizer::from_vocab_text("[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\ne\n##e\n.\nab\n##ab\n");
  if (size == 0) return -1;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 3 == 2)
      check_tokenizer(fixed, rest);
    else
      check_tokenizer(data[0] % 3 ? Tokenizer::from_json_text(rest) : Tokenizer::from_vocab_text(rest),
                      rest.substr(0, 1000));
  } catch (const Error&) {
    return -1;
  }
  return 0;
}
