#pragma once
// A segmenter turns text into pieces, without the special tokens around them: all of a tokenizer but
// post-processing and decoding. There are two: BertSegmenter does BERT's steps in one pass; ComposedSegmenter
// runs any normalizers, pre-tokenizers and model one after the other.
//
// Const after building; any number of threads may use one.
#include <string_view>

#include "text/buffers.h"
#include "text/models/vocabulary.h"

namespace bertie::text {

class Segmenter {
 public:
  virtual ~Segmenter() = default;
  // Appends the pieces and added tokens of a text; special tokens only if special_tokens_in_text.
  virtual void tokenize(std::string_view text, bool special_tokens_in_text, PieceWriter& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::string_view kind() const = 0;  // the model's name in tokenizer.json: "WordPiece"
  virtual bool lowercase() const { return false; }
  // True if pieces that continue a word have a prefix ("##").
  virtual bool marks_continuations() const { return false; }
};

}  // namespace bertie::text
