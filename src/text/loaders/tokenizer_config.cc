#include "text/loaders/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "io/json.h"
#include "text/json_object.h"

namespace bertie::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxModelLength = 1'000'000'000;

// In the order of SpecialTokens::all().
constexpr const char* kSpecialTokenKeys[] = {"unk_token",  "cls_token", "sep_token", "pad_token",
                                             "mask_token", "bos_token", "eos_token"};

json parse_object(std::string_view text, const std::string& name) {
  json root = io::parse_json(text, name);
  if (!root.is_object()) throw Error(name + ": expected an object, found " + root.type_name());
  return root;
}

std::optional<bool> optional_flag(const JsonObject& object, const char* key) {
  if (!object.find(key)) return {};
  return object.flag(key, {});
}

void check_content(const AddedToken& token, const std::string& where) {
  if (token.content.empty() || token.content.size() > kMaxTokenBytes)
    throw Error(where + ": expected a token, found " + io::quote(token.content));
}

// "[UNK]", or {"content": "[UNK]", ...}.
AddedToken read_special_token(const json& value, const std::string& where) {
  AddedToken token;
  token.special = true;
  if (value.is_object()) {
    const JsonObject object(value, where);
    token.content = object.string("content", {});
    token.single_word = object.flag("single_word", false);
    token.lstrip = object.flag("lstrip", false);
    token.rstrip = object.flag("rstrip", false);
    token.normalized = object.flag("normalized", false);
  } else if (value.is_string()) {
    token.content = value.get<std::string>();
  } else {
    throw Error(where + ": expected a token, found " + describe(value));
  }
  check_content(token, where);
  return token;
}

// A list of tokens, or an object of names and tokens, which has no order to give ids by.
void read_additional_special_tokens(const JsonObject& root, const char* key, TokenizerConfig& config) {
  const json* tokens = root.find(key);
  if (!tokens) return;
  const std::string where = root.where(key);
  if (!tokens->is_array() && !tokens->is_object())
    throw Error(where + ": expected a list of tokens, found " + describe(*tokens));
  if (tokens->size() > kMaxAddedTokens) throw Error(where + ": more than " + std::to_string(kMaxAddedTokens));
  if (tokens->is_object() && tokens->size() > 1 && !config.has_added_tokens_decoder)
    throw Error(where + ": the ids of the " + std::to_string(tokens->size()) + " tokens are not known",
                "Give them as a list, or with their ids as added_tokens_decoder.");
  for (const json& token : *tokens)
    config.additional_special_tokens.push_back(read_special_token(token, where));
}

void read_special_tokens(const JsonObject& root, TokenizerConfig& config) {
  const auto all = config.special.all();
  for (size_t i = 0; i < all.size(); ++i)
    if (const json* token = root.find(kSpecialTokenKeys[i]))
      *all[i] = read_special_token(*token, root.where(kSpecialTokenKeys[i]));
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"})
    read_additional_special_tokens(root, key, config);
}

void add_with_id(AddedToken token, uint64_t id, const std::string& where, TokenizerConfig& config) {
  check_content(token, where);
  if (id >= kMaxTokens - 1) throw Error(where + ": the id " + std::to_string(id) + " is too large");
  if (config.added_with_ids.size() == kMaxAddedTokens)
    throw Error(where + ": more than " + std::to_string(kMaxAddedTokens));
  token.id = int32_t(id);
  config.added_with_ids.push_back(std::move(token));
}

void sort_by_id(const std::string& name, std::vector<AddedToken>& tokens) {
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (size_t i = 1; i < tokens.size(); ++i)
    if (tokens[i - 1].id == tokens[i].id)
      throw Error(name + ": the id " + std::to_string(tokens[i].id) + " stands for both " +
                  io::quote(tokens[i - 1].content) + " and " + io::quote(tokens[i].content));
}

// {"30522": {"content": "[E1]", ...}, ...}
void read_added_tokens_decoder(const JsonObject& root, TokenizerConfig& config) {
  const JsonObject decoder = root.object("added_tokens_decoder");
  config.has_added_tokens_decoder = root.has("added_tokens_decoder");
  if (decoder.missing()) return;
  for (const auto& [key, value] : decoder.value().items()) {
    uint64_t id = 0;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      throw Error(decoder.where() + ": expected an id, found " + io::quote(key));
    const JsonObject object(value, decoder.where() + "." + key);
    AddedToken token = read_special_token(value, object.where());
    token.special = object.flag("special", false);
    token.normalized = object.flag("normalized", !token.special);
    add_with_id(std::move(token), id, object.where(), config);
  }
  sort_by_id(decoder.where(), config.added_with_ids);
}

}  // namespace

TokenizerConfig read_tokenizer_config(std::string_view text, const std::string& name) {
  const json root = parse_object(text, name);
  const JsonObject object(root, name);
  TokenizerConfig config;
  config.lowercase = optional_flag(object, "do_lower_case");
  config.strip_accents = optional_flag(object, "strip_accents");
  config.split_cjk = optional_flag(object, "tokenize_chinese_chars");
  config.keep_accents = optional_flag(object, "keep_accents");
  config.add_prefix_space = optional_flag(object, "add_prefix_space");
  config.trim_offsets = optional_flag(object, "trim_offsets");
  config.add_bos_token = optional_flag(object, "add_bos_token");
  config.tokenizer_class = object.string("tokenizer_class", "");
  read_added_tokens_decoder(object, config);
  read_special_tokens(object, config);
  // Hugging Face writes 1e30 for an unknown limit.
  if (object.find("model_max_length")) {
    const double value = io::get_number(root, "model_max_length", name);
    if (value < 1) throw Error(name + ": model_max_length must be at least 1");
    if (value <= double(kMaxModelLength)) config.model_max_length = size_t(value);
  }
  return config;
}

void TokenizerConfig::read_special_tokens_map(std::string_view text, const std::string& name) {
  const json root = parse_object(text, name);
  read_special_tokens(JsonObject(root, name), *this);
}

void TokenizerConfig::read_added_tokens(std::string_view text, const std::string& name) {
  const json root = parse_object(text, name);
  std::unordered_set<std::string_view> known;
  for (const auto* token : special.all())
    if (*token) known.insert((*token)->content);
  for (const AddedToken& t : additional_special_tokens) known.insert(t.content);
  for (const auto& [content, id] : root.items()) {
    const std::string where = name + ": " + io::quote(content);
    if (!id.is_number_unsigned()) throw Error(where + ": expected an id, found " + describe(id));
    const bool is_special = known.contains(content);
    add_with_id({.content = content, .normalized = !is_special, .special = is_special}, id.get<uint64_t>(),
                where, *this);
  }
  sort_by_id(name, added_with_ids);
}

void TokenizerConfig::override_names(SpecialTokenNames& names) const {
  const auto from = special.all();
  const auto to = names.all();
  for (size_t i = 0; i < from.size(); ++i)
    if (*from[i]) *to[i] = (*from[i])->content;
}

AddedToken TokenizerConfig::special_token(const std::string& content) const {
  for (const auto* token : special.all())
    if (*token && (*token)->content == content) return **token;
  return {.content = content, .special = true};
}

void TokenizerConfig::add_tokens_with_ids(const SpecialTokenNames& names, AddedTokenBuilder& out) const {
  for (AddedToken t : added_with_ids) {
    for (const std::string* name : names.all()) t.special = t.special || t.content == *name;
    out.add(std::move(t));
  }
}

}  // namespace bertie::text
