#pragma once
// A whole way from text to pieces, without the special tokens of a template around them. Two exist: WordPiece
// (text/segmenters/bert_segmenter.h), BERT's own and the quickest; and Pipeline (text/segmenters/composed_segmenter.h), any order of steps.
//
// Const after building; any number of threads may tokenize.
#include <string_view>

#include "text/models/vocabulary.h"
#include "text/buffers.h"

namespace bertie::text {

class Road {
 public:
  virtual ~Road() = default;
  // Appends to `out`. Added tokens are found too; special ones only if special_tokens_in_text.
  virtual void tokenize(std::string_view text, bool special_tokens_in_text, Pieces& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::string_view kind() const = 0;  // the model's name: "WordPiece"
  virtual bool lowercase() const { return false; }
  // A piece that goes on with a word says so ("##").
  virtual bool marks_continuations() const { return false; }
};

}  // namespace bertie::text
