#pragma once
// What a loaded tokenizer is made of. The loaders (vocab_file.cc, tokenizer_json.cc, sentence_piece.cc) make
// a Definition; the Tokenizer is built from it and never changes.
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/tokenizer.h"
#include "text/loaders/added_token_builder.h"
#include "text/steps/decoders.h"
#include "text/steps/post_processor.h"
#include "text/segmenters/segmenter.h"

namespace bertie::text {

struct SpecialNames {
  std::string unk = "[UNK]", cls = "[CLS]", sep = "[SEP]", pad = "[PAD]", mask = "[MASK]", bos, eos;

  // In the order in which those that a vocabulary lacks are put after it.
  std::array<const std::string*, 7> all() const { return {&bos, &eos, &unk, &sep, &pad, &cls, &mask}; }
};

inline SpecialNames roberta_names() {
  return {.unk = "<unk>",
          .cls = "<s>",
          .sep = "</s>",
          .pad = "<pad>",
          .mask = "<mask>",
          .bos = "<s>",
          .eos = "</s>"};
}
inline SpecialNames albert_names() {
  return {.unk = "<unk>", .pad = "<pad>", .bos = "[CLS]", .eos = "[SEP]"};
}
inline SpecialNames gpt2_names() {
  const char* end = "<|endoftext|>";
  return {.unk = end, .cls = "", .sep = "", .pad = "", .mask = "", .bos = end, .eos = end};
}

struct Definition {
  std::unique_ptr<const Road> road;
  std::vector<AddedToken> added;
  PostProcessor post_processor;
  Decoders decoders;
  SpecialNames names;
  size_t model_max_length = kNoLimit;
};

// tokenizer_config.json and what else lies beside a vocabulary, as far as it concerns a tokenizer: every
// field may be missing.
struct TokenizerConfig {
  std::optional<bool> lowercase, strip_accents, split_cjk, keep_accents;
  std::optional<bool> add_prefix_space, trim_offsets, add_bos_token;
  std::optional<size_t> model_max_length;
  std::string tokenizer_class;
  std::optional<AddedToken> unk, cls, sep, pad, mask, bos, eos;
  bool has_decoder = false;       // there is an added_tokens_decoder: then no other file counts
  std::vector<AddedToken> added;  // with ids, in their order
  std::vector<AddedToken> extra;  // additional special tokens; without ids

  void name(SpecialNames& names) const;  // those that it says
  // special_tokens_map.json, whose names count more.
  void add_special_tokens(std::string_view json, const std::string& name);
  // added_tokens.json, after the others.
  void add_added_tokens(std::string_view json, const std::string& name);
  // A named token with what the files say of it.
  AddedToken named(const std::string& content) const;
  // `added`, of which those that have a name are special.
  void add_first(const SpecialNames& names, AddedList& list) const;
};
TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& name);

Definition read_vocab(std::string_view lines, const std::string& name, const TokenizerOptions& options,
                      const TokenizerConfig& config);
// vocab.json and merges.txt of GPT-2 and RoBERTa; `model_type` is config.json's, if there is one.
struct BpeFiles {
  std::string_view vocab, merges;
  std::string vocab_name, merges_name, model_type;
};
Definition read_bpe_files(const BpeFiles& files, const TokenizerConfig& config);
Definition read_tokenizer_json(std::string_view json, const std::string& name, const TokenizerConfig& config);

}  // namespace bertie::text

namespace bertie {

struct Tokenizer::State {
  text::Definition definition;
  size_t single_specials, pair_specials;  // ids that the templates add
  std::vector<bool> special;              // by id
  std::vector<uint16_t> spaces;           // by id, if offsets are trimmed: see packed() in tokenizer.cc
  int32_t unk, cls, sep, pad, mask, bos, eos;

  const text::Vocabulary& vocabulary() const { return definition.road->vocabulary(); }
};

}  // namespace bertie
