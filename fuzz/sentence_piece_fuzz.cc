// Any bytes as a SentencePiece model, and as text for it: an Error, or encodings whose offsets lie inside the
// text.
//
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -o sentence_piece_fuzz
//     fuzz/sentence_piece_fuzz.cc src/text/*.cc src/text/*/*.cc src/io/{json,file}.cc src/core/error.cc -lfmt
//   ./sentence_piece_fuzz -max_len=65536 tests/golden/tokenizer/albert
//
// The first byte chooses the family. tests/text/unigram_test.cc runs it on mutations of valid models.
#include <cstdint>

#include "bertie/error.h"
#include "check_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bertie;
  if (size == 0) return -1;
  static constexpr const char* kFamilies[] = {"albert", "xlm-roberta", "camembert"};
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    Tokenizer tokenizer = Tokenizer::from_sentence_piece(rest, kFamilies[data[0] % 3]);
    check_tokenizer(tokenizer, rest.substr(0, 1000));
    check_tokenizer(tokenizer, "A \xC2\xBD e\xCC\x81\xE3\x8D\xBF\xEF\xAC\x81 [MASK] <mask>");
  } catch (const Error&) {
    return -1;
  }
  return 0;
}
