#pragma once
// A model splits a word into pieces: tokens of its vocabulary.
#include <cstdio>
#include <string>
#include <string_view>

#include "text/buffers.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

// Const after building; any number of threads may use it.
class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  // Appends the pieces of one word: n > 0 bytes, and the alignment of each. kPadding more bytes must be
  // readable. The caller counts words.
  virtual void push_word(const char* word, size_t n, const Offset* alignments, PieceWriter& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::string_view kind() const = 0;  // its name in tokenizer.json: "BPE"
};

// The token that byte_fallback uses for a byte: "<0x0A>".
inline std::string byte_fallback_token(uint8_t byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", byte);
  return name;
}

}  // namespace bertie::text
