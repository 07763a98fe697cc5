#pragma once
// BERT's normalizer, pre-tokenizer and WordPiece in one pass over the text.
//
// The fast path reads the text once. A run of ASCII letters and digits is cut out eight bytes at a time and
// looked up whole; other code points take one lookup in a BertCharTable. If a part between two added tokens
// has a code point whose result depends on its neighbors, the slow path does the part again: bert_normalize,
// then split, then look up. Text that is not to be cleaned, and added tokens that match normalized text, take
// the slow path too.
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/models/word_piece.h"
#include "text/segmenters/bert_char_table.h"
#include "text/segmenters/segmenter.h"
#include "text/steps/added_tokens.h"
#include "text/steps/bert_normalizer.h"

namespace bertie::text {

class BertSegmenter : public Segmenter {
 public:
  // `added` in order of precedence.
  BertSegmenter(WordPiece model, const BertNormalizerSettings& normalizer,
                const std::vector<AddedToken>& added);

  void tokenize(std::string_view text, bool special_tokens_in_text, PieceWriter& out) const override;
  // Only by the slow path; for tests.
  void tokenize_slowly(std::string_view text, bool special_tokens_in_text, PieceWriter& out) const;

  const Vocabulary& vocabulary() const override { return model_.vocabulary(); }
  std::string_view kind() const override { return "WordPiece"; }
  bool lowercase() const override { return normalizer_.lowercase; }
  bool marks_continuations() const override { return true; }

 private:
  enum class AsciiClass : uint8_t { kWord, kSpace, kPunct, kOther };  // kOther: not ASCII, or dropped
  struct Word;
  // `first` is the index of the first code point. Returns false if the text needs the slow path; some words
  // may have been pushed then.
  bool fast_path(std::string_view text, uint32_t first, PieceWriter& out) const;
  void slow_path(std::string_view text, uint32_t first, bool skip_special, PieceWriter& out) const;
  const char* push_mixed_words(const char* p, const char* end, uint32_t& index, Word& word,
                               PieceWriter& out) const;

  WordPiece model_;
  BertNormalizerSettings normalizer_;
  AddedTokenMatcher raw_, normalized_;
  BertCharTable table_;
  AsciiClass ascii_class_[256];
  int32_t ascii_id_[128];  // the id of a character as a word, or unk_id
};

}  // namespace bertie::text
