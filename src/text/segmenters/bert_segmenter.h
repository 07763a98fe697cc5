#pragma once
// Text to word pieces: the whole road from bytes to ids without special tokens around them.
//
// The fast road reads the text once. A run of ASCII letters and digits is cut out eight bytes at a time and
// looked up whole; other code points take one look-up in a CharTable. Text with a code point that needs the
// thorough normaliser is done again that way, from the last added token on.
//
// Const after building; any number of threads may tokenize.
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/steps/added_tokens.h"
#include "text/segmenters/bert_char_table.h"
#include "text/steps/bert_normalizer.h"
#include "text/segmenters/segmenter.h"

namespace bertie::text {

inline constexpr size_t kMaxWordChars = 1000;  // the most that max_word_chars may say

struct WordPieceSettings {
  NormalizerSettings normalizer;
  int32_t unk_id = 0;
  size_t max_word_chars = 100;  // a longer word is unknown
};

class WordPiece : public Road {
 public:
  // `added` in order of precedence.
  WordPiece(Vocabulary vocabulary, const WordPieceSettings& settings, const std::vector<AddedToken>& added);

  void tokenize(std::string_view text, bool special_tokens_in_text, Pieces& out) const override;

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view kind() const override { return "WordPiece"; }
  bool lowercase() const override { return settings_.normalizer.lowercase; }
  bool marks_continuations() const override { return true; }
  const WordPieceSettings& settings() const { return settings_; }
  // Only the thorough road; for tests.
  void tokenize_thoroughly(std::string_view text, bool special_tokens_in_text, Pieces& out) const;

 private:
  struct Word;
  // False if the text needs the thorough road; then some words may have been pushed.
  bool fast(std::string_view text, uint32_t first, Pieces& out) const;
  void thorough(std::string_view text, uint32_t first, bool skip_special, Pieces& out) const;
  const char* mixed_word(const char* p, const char* end, uint32_t& point_index, Word& word,
                         Pieces& out) const;
  void push_word(const char* word, size_t n, size_t chars, const uint32_t* origins, Pieces& out) const;
  template <class Place>
  void push_pieces(const char* word, size_t n, const Place& place, Pieces& out) const;

  Vocabulary vocabulary_;
  WordPieceSettings settings_;
  AddedTokens raw_, normalized_;
  CharTable table_;
  uint8_t ascii_[256];     // what a byte is: see Ascii in the .cc
  int32_t ascii_id_[128];  // a punctuation character's id
};

}  // namespace bertie::text
