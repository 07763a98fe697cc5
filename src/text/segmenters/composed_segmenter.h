#pragma once
// Tokenizing in the steps of a tokenizer.json:
//
//   added tokens in the raw text → normalizers → added tokens in the normalized text → pre-tokenizers → model
//
// Invalid bytes become U+FFFD before the first step, one code point each, so that offsets do not change.
#include <memory>
#include <vector>

#include "text/models/subword_model.h"
#include "text/segmenters/segmenter.h"
#include "text/steps/added_tokens.h"
#include "text/steps/normalizers.h"
#include "text/steps/pre_tokenizers.h"

namespace bertie::text {

// A faster way through some of the steps, with the same result.
class FastPath {
 public:
  virtual ~FastPath() = default;
  // True if it replaces the normalizers as well. Otherwise it gets only text that they leave unchanged.
  virtual bool normalizes() const { return false; }
  // Appends the pieces of text without added tokens, whose first code point has index `first`. Returns false
  // if this text needs the steps; the caller then removes what was pushed.
  virtual bool tokenize(std::string_view text, uint32_t first, PieceWriter& out) const = 0;
};

struct SegmenterSteps {
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<const SubwordModel> model;
  std::unique_ptr<const FastPath> fast_path;  // optional; may refer to the others
};

// Runs the model on out.buffers.words, spans of out.buffers.text.
void push_words(const SubwordModel& model, PieceWriter& out);

class ComposedSegmenter : public Segmenter {
 public:
  // `added` in order of precedence, with normalized contents where they are matched in normalized text.
  ComposedSegmenter(SegmenterSteps steps, const std::vector<AddedToken>& added);

  void tokenize(std::string_view text, bool special_tokens_in_text, PieceWriter& out) const override {
    tokenize(text, special_tokens_in_text, steps_.fast_path.get(), out);
  }
  // Without the fast path; for tests.
  void tokenize_by_steps(std::string_view text, bool special_tokens_in_text, PieceWriter& out) const {
    tokenize(text, special_tokens_in_text, nullptr, out);
  }
  const Vocabulary& vocabulary() const override { return steps_.model->vocabulary(); }
  std::string_view kind() const override { return steps_.model->kind(); }

 private:
  void tokenize(std::string_view text, bool special_tokens_in_text, const FastPath* fast_path,
                PieceWriter& out) const;
  // Pre-tokenizers and model, on out.buffers.text.
  void push_normalized(PieceWriter& out) const;
  // Normalizers, added tokens in the result, and the rest, on out.buffers.text.
  void normalize_and_push(bool skip_special, PieceWriter& out) const;

  SegmenterSteps steps_;
  AddedTokenMatcher raw_, normalized_;
};

}  // namespace bertie::text
