#pragma once
// tokenizer_config.json, special_tokens_map.json and added_tokens.json: what they say about the tokenizer.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/loaders/added_token_builder.h"
#include "text/tokenizer_parts.h"

namespace bertie::text {

// Any field may be missing.
struct TokenizerConfig {
  std::optional<bool> lowercase, strip_accents, split_cjk, keep_accents;
  std::optional<bool> add_prefix_space, trim_offsets, add_bos_token;
  std::optional<size_t> model_max_length;
  std::string tokenizer_class;
  SpecialTokens<std::optional<AddedToken>> special;
  bool has_added_tokens_decoder = false;              // then the other two files are not read
  std::vector<AddedToken> added_with_ids;             // sorted by id
  std::vector<AddedToken> additional_special_tokens;  // without ids

  // special_tokens_map.json; its names replace those read before.
  void read_special_tokens_map(std::string_view json, const std::string& name);
  // added_tokens.json; to be read last.
  void read_added_tokens(std::string_view json, const std::string& name);

  // Replaces the names that these files give.
  void override_names(SpecialTokenNames& names) const;
  // The special token with this content, with the flags that these files give.
  AddedToken special_token(const std::string& content) const;
  // Adds added_with_ids; those in `names` are special.
  void add_tokens_with_ids(const SpecialTokenNames& names, AddedTokenBuilder& out) const;
};

TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& name);

}  // namespace bertie::text
