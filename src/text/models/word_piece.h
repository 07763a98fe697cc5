#pragma once
// The WordPiece model: the longest token that a word begins with, then the longest "##" token that the rest
// begins with, and so on. A word that cannot be covered whole is one unknown token.
//
// Not a SubwordModel (models/subword_model.h): only BertSegmenter uses it, which inlines it into its loop.
#include <cstdint>
#include <utility>

#include "text/buffers.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

inline constexpr size_t kMaxWordChars = 1000;  // the upper limit of max_word_chars

class WordPiece {
 public:
  WordPiece(Vocabulary vocabulary, int32_t unk_id, size_t max_word_chars = 100)
      : vocabulary_(std::move(vocabulary)), unk_id_(unk_id), max_word_chars_(max_word_chars) {}

  const Vocabulary& vocabulary() const { return vocabulary_; }
  int32_t unk_id() const { return unk_id_; }
  size_t max_word_chars() const { return max_word_chars_; }  // a longer word is unknown

  // The id of a whole word, unk_id if it is not a token; n and padding as for Vocabulary::find.
  int32_t id_or_unk(const char* word, size_t n) const {
    const int32_t id = vocabulary_.find(word, n, false);
    return id < 0 ? unk_id_ : id;
  }

  // Appends the pieces of a word of n bytes that is not a token itself. origin(i) is the code point of the
  // original text that byte i came from.
  template <class Origin>
  void push_pieces(const char* word, size_t n, const Origin& origin, PieceWriter& out) const {
    const PieceWriter::Mark mark = out.mark();
    for (size_t begin = 0, length = 0; begin < n; begin += length) {
      const int32_t id = vocabulary_.find_longest(word + begin, n - begin, begin > 0, length);
      if (id < 0) {
        out.rewind(mark);
        return out.push_word(unk_id_, origin(0), origin(n - 1) + 1);
      }
      out.push(id, origin(begin), origin(begin + length - 1) + 1);
    }
    ++out.word;
  }

  // Appends the pieces of any word of `chars` code points.
  void push_word(const char* word, size_t n, size_t chars, const uint32_t* origins, PieceWriter& out) const {
    if (chars > max_word_chars_) return out.push_word(unk_id_, origins[0], origins[n - 1] + 1);
    if (int32_t id = vocabulary_.find(word, n, false); id >= 0)
      return out.push_word(id, origins[0], origins[n - 1] + 1);
    push_pieces(
        word, n, [&](size_t i) { return origins[i]; }, out);
  }

 private:
  Vocabulary vocabulary_;
  int32_t unk_id_;
  size_t max_word_chars_;
};

}  // namespace bertie::text
