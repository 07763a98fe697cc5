#pragma once
// Tokenizing as tokenizer.json describes it, in steps:
//
//   added tokens in the raw text → normalizers → added tokens in the normalised text → pre-tokenizers → model
//
// Each step is a small class of one of the kinds below. To add one, derive from Normalizer, PreTokenizer or
// Model, and name it in make_normalizers (text/steps/normalizers.h), make_pre_tokenizers (text/steps/pre_tokenizers.h) or
// read_tokenizer_json. A Shortcut does pre-tokenizers and model at once where the steps are well known.
//
// Everything is const after building; any number of threads may tokenize. Text is valid UTF-8 from the first
// step on: bytes that are not have become U+FFFD, one code point each, so that places stay.
#include <memory>
#include <vector>

#include "text/steps/added_tokens.h"
#include "text/segmenters/segmenter.h"

namespace bertie::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Changes text.bytes and text.places together. `spare` may be used and swapped with `text`.
  virtual void apply(Aligned& text, Workspace& spare) const = 0;
  // True if apply would change nothing, as far as a quick look tells.
  virtual bool leaves_alone(std::string_view) const { return false; }
  // What decides the fate of a code point: itself (and marks or jamo that join it), a string that it is part
  // of (then leaves_alone is exact), spaces next to each other or at the ends, or anything.
  enum class Sees { kPoint, kString, kSpaces, kAll };
  virtual Sees sees() const { return Sees::kAll; }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Splits every word of `words` (spans of `text`, in order, none empty) further, and may change the text.
  virtual void apply(Aligned& text, std::vector<Span>& words, Workspace& spare) const = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the pieces of one word: n > 0 bytes, places[i] the place of byte i. kPadding more bytes may be
  // read. The caller counts words.
  virtual void push_word(const char* word, size_t n, const Offset* places, Pieces& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::string_view kind() const = 0;
};

class Shortcut {
 public:
  virtual ~Shortcut() = default;
  // True if it does the normalizers' work too; else it only gets text that they leave alone.
  virtual bool normalizes() const { return false; }
  // Appends the pieces of text that no normaliser changes and that holds no added token; its first code point
  // is number `first`. Counts words. False: this text needs the steps; what was pushed is taken back.
  virtual bool tokenize(std::string_view text, uint32_t first, Pieces& out) const = 0;
};

struct PipelineParts {
  std::vector<std::unique_ptr<const Normalizer>> normalizers;
  std::vector<std::unique_ptr<const PreTokenizer>> pre_tokenizers;
  std::unique_ptr<const Model> model;
  std::unique_ptr<const Shortcut> shortcut;  // may be missing; may refer to the model
};

// What the normalizers make of a text on its own; for added tokens that are matched in normalised text.
std::string normalized_text(const std::vector<std::unique_ptr<const Normalizer>>& normalizers,
                            std::string_view text);

class Pipeline : public Road {
 public:
  // `added` in order of precedence, contents normalised where that applies.
  Pipeline(PipelineParts parts, const std::vector<AddedToken>& added);

  void tokenize(std::string_view text, bool special_tokens_in_text, Pieces& out) const override;
  const Vocabulary& vocabulary() const override { return parts_.model->vocabulary(); }
  std::string_view kind() const override { return parts_.model->kind(); }
  // Without the shortcut; for tests.
  void tokenize_by_steps(std::string_view text, bool special_tokens_in_text, Pieces& out) const;

 private:
  void tokenize(std::string_view text, bool special_tokens_in_text, bool by_steps, Pieces& out) const;
  void steps(Span part, Pieces& out) const;  // of workspace.text

  PipelineParts parts_;
  AddedTokens raw_, normalized_;
};

}  // namespace bertie::text
