#pragma once
// What a loaded tokenizer is made of. The loaders (vocab_file.cc, tokenizer_json.cc) make a Definition; the
// Tokenizer is built from it and never changes.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/tokenizer.h"
#include "text/word_piece.h"

namespace bertie::text {

// One item of the template around a text or a pair: a special token's ids, or a text.
struct TemplateItem {
  int sequence = -1;  // 0 or 1: that text goes here; -1: `ids`
  int32_t type = 0;
  std::vector<int32_t> ids;
};

struct Definition {
  explicit Definition(Vocabulary v) : vocabulary(std::move(v)) {}

  Vocabulary vocabulary;  // sealed by build()
  NormalizerSettings normalizer;
  size_t max_word_chars = 100;
  std::vector<AddedToken> added;  // special ones first, else in the file's order
  std::vector<TemplateItem> single, pair;
  std::string unk = "[UNK]", cls = "[CLS]", sep = "[SEP]", pad = "[PAD]", mask = "[MASK]";
  size_t model_max_length = kNoLimit;
  bool decoder = true;  // false: decode joins tokens with spaces
  std::string decoder_prefix = "##";
  bool cleanup = true;
};

// tokenizer_config.json, as far as it concerns a tokenizer: every field may be missing.
struct TokenizerConfig {
  std::optional<bool> lowercase, strip_accents, split_cjk;
  std::optional<size_t> model_max_length;
  std::optional<std::string> unk, cls, sep, pad, mask;
};
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& name);

Definition read_vocab(std::string_view lines, const std::string& name, const TokenizerOptions& options,
                      const TokenizerConfig& config);
Definition read_tokenizer_json(std::string_view json, const std::string& name);

// The classic frame: [CLS] a [SEP], and [CLS] a [SEP] b [SEP] with b and the last [SEP] of type 1.
void set_bert_template(Definition& definition, int32_t cls, int32_t sep);

}  // namespace bertie::text

namespace bertie {

struct Tokenizer::State {
  text::WordPiece pieces;
  std::vector<text::TemplateItem> single, pair;
  size_t single_specials, pair_specials;  // ids that the templates add
  std::vector<bool> special;              // by id
  int32_t unk, cls, sep, pad, mask;
  size_t model_max_length;
  bool decoder, cleanup;
  std::string decoder_prefix;
};

}  // namespace bertie
