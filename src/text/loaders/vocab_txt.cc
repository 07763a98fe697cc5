// vocab.txt, one token a line, its number the id; and what lies beside it: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json.
#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "io/json.h"
#include "text/json_object.h"
#include "text/loaders/tokenizer_json_parser.h"
#include "text/tokenizer_parts.h"
#include "text/unicode/unicode.h"
#include "text/segmenters/bert_segmenter.h"

namespace bertie::text {
namespace {

constexpr size_t kMaxModelLength = 1'000'000'000;

std::optional<bool> optional_bool(const nlohmann::json& object, const char* key, const std::string& name) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  return io::get_bool(object, key, name);
}

void check_content(const AddedToken& token, const std::string& where) {
  if (token.content.empty() || token.content.size() > kMaxTokenBytes)
    throw Error(where + ": expected a token, found " + io::quote(token.content));
}

// "[UNK]", or {"content": "[UNK]", ...} as other files have it.
AddedToken read_token(const nlohmann::json& value, const std::string& where) {
  AddedToken token;
  token.special = true;
  if (value.is_object()) {
    Section said(value, where);
    token.content = said.string("content", {});
    token.single_word = said.flag("single_word", false);
    token.lstrip = said.flag("lstrip", false);
    token.rstrip = said.flag("rstrip", false);
    token.normalized = said.flag("normalized", false);
  } else if (value.is_string()) {
    token.content = value.get<std::string>();
  } else {
    throw Error(where + ": expected a token, found " + show(value));
  }
  check_content(token, where);
  return token;
}
std::optional<AddedToken> optional_token(const nlohmann::json& object, const char* key,
                                         const std::string& name) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  return read_token(*it, name + ": " + key);
}

// A list of tokens, or an object of names and tokens, whose order is not to be relied on.
void add_extra(const nlohmann::json& root, const char* key, const std::string& name,
               TokenizerConfig& config) {
  auto it = root.find(key);
  if (it == root.end() || it->is_null()) return;
  const std::string where = name + ": " + key;
  if (!it->is_array() && !it->is_object())
    throw Error(where + ": expected a list of tokens, found " + show(*it));
  if (it->size() > kMaxAdded) throw Error(where + ": more than " + std::to_string(kMaxAdded));
  if (it->is_object() && it->size() > 1 && !config.has_decoder)
    throw Error(where + ": which of the " + std::to_string(it->size()) + " tokens has which id?",
                "Give them as a list, or with their ids as added_tokens_decoder.");
  for (const auto& item : *it) config.extra.push_back(read_token(item, where));
}

// The id of one more added token; they come in any order.
void add_with_id(AddedToken token, uint64_t id, const std::string& where, TokenizerConfig& config) {
  check_content(token, where);
  if (id >= kMaxTokens - 1) throw Error(where + ": the id " + std::to_string(id) + " is too large");
  if (config.added.size() == kMaxAdded) throw Error(where + ": more than " + std::to_string(kMaxAdded));
  token.id = int32_t(id);
  config.added.push_back(std::move(token));
}
void sort_added(const std::string& name, TokenizerConfig& config) {
  auto less = [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; };
  std::sort(config.added.begin(), config.added.end(), less);
  for (size_t i = 1; i < config.added.size(); ++i)
    if (config.added[i - 1].id == config.added[i].id)
      throw Error(name + ": the id " + std::to_string(config.added[i].id) + " stands for both " +
                  io::quote(config.added[i - 1].content) + " and " + io::quote(config.added[i].content));
}

// {"30522": {"content": "[E1]", ...}, ...}
void add_decoder(const nlohmann::json& root, const std::string& name, TokenizerConfig& config) {
  const Section decoder = Section(root, name).section("added_tokens_decoder");
  config.has_decoder = root.contains("added_tokens_decoder");
  if (decoder.missing()) return;
  for (const auto& [key, value] : decoder.value().items()) {
    uint64_t id = 0;
    auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size())
      throw Error(decoder.where() + ": expected an id, found " + io::quote(key));
    const Section said(value, decoder.where() + "." + key);
    AddedToken token = read_token(value, said.where());
    token.special = said.flag("special", false);
    token.normalized = said.flag("normalized", !token.special);
    add_with_id(std::move(token), id, said.where(), config);
  }
  sort_added(decoder.where(), config);
}

// Spaces at a line's end (a carriage return among them) are no part of a token.
std::string_view without_trailing_space(std::string_view line) {
  while (!line.empty()) {
    size_t p = line.size() - 1;
    if (uint8_t(line[p]) < 0x80 && !(line[p] == ' ' || (line[p] >= '\t' && line[p] <= '\r'))) break;
    while (p > 0 && is_continuation(line[p])) --p;
    if (!(flags(decode_utf8(line.data() + p, line.data() + line.size()).point) & kRawSpace)) break;
    line = line.substr(0, p);
  }
  return line;
}

void add_tokens(const nlohmann::json& root, const std::string& name, TokenizerConfig& config) {
  for (auto [to, key] : {std::pair{&config.unk, "unk_token"},
                         {&config.cls, "cls_token"},
                         {&config.sep, "sep_token"},
                         {&config.pad, "pad_token"},
                         {&config.mask, "mask_token"},
                         {&config.bos, "bos_token"},
                         {&config.eos, "eos_token"}})
    if (auto said = optional_token(root, key, name)) *to = said;
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"})
    add_extra(root, key, name, config);
}

nlohmann::json parse_object(std::string_view json, const std::string& name) {
  nlohmann::json root = io::parse_json(json, name);
  if (!root.is_object()) throw Error(name + ": expected an object, found " + root.type_name());
  return root;
}

}  // namespace

void TokenizerConfig::add_special_tokens(std::string_view json, const std::string& name) {
  add_tokens(parse_object(json, name), name, *this);
}

TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& name) {
  nlohmann::json root = parse_object(json, name);
  TokenizerConfig config;
  config.lowercase = optional_bool(root, "do_lower_case", name);
  config.strip_accents = optional_bool(root, "strip_accents", name);
  config.split_cjk = optional_bool(root, "tokenize_chinese_chars", name);
  config.keep_accents = optional_bool(root, "keep_accents", name);
  config.add_prefix_space = optional_bool(root, "add_prefix_space", name);
  config.trim_offsets = optional_bool(root, "trim_offsets", name);
  config.add_bos_token = optional_bool(root, "add_bos_token", name);
  config.tokenizer_class = io::get_string(root, "tokenizer_class", name, "");
  add_decoder(root, name, config);
  add_tokens(root, name, config);
  // Hugging Face writes 1e30 where nobody knew the limit.
  auto length = root.find("model_max_length");
  if (length != root.end() && !length->is_null()) {
    double value = io::get_number(root, "model_max_length", name);
    if (value < 1) throw Error(name + ": model_max_length must be at least 1");
    if (value <= double(kMaxModelLength)) config.model_max_length = size_t(value);
  }
  return config;
}

void TokenizerConfig::add_added_tokens(std::string_view json, const std::string& name) {
  const nlohmann::json root = parse_object(json, name);
  std::unordered_set<std::string_view> special;
  for (const auto* said : {&unk, &cls, &sep, &pad, &mask, &bos, &eos})
    if (*said) special.insert((*said)->content);
  for (const AddedToken& t : extra) special.insert(t.content);
  for (const auto& [content, id] : root.items()) {
    const std::string where = name + ": " + io::quote(content);
    if (!id.is_number_unsigned()) throw Error(where + ": expected an id, found " + show(id));
    const bool is_special = special.contains(content);
    add_with_id({.content = content, .normalized = !is_special, .special = is_special}, id.get<uint64_t>(),
                where, *this);
  }
  sort_added(name, *this);
}

AddedToken TokenizerConfig::named(const std::string& content) const {
  for (const auto* said : {&unk, &cls, &sep, &pad, &mask, &bos, &eos})
    if (*said && (*said)->content == content) return **said;
  return {.content = content, .special = true};
}

void TokenizerConfig::add_first(const SpecialNames& names, AddedList& list) const {
  for (AddedToken t : added) {
    for (const std::string* name : names.all()) t.special = t.special || t.content == *name;
    list.add(std::move(t));
  }
}

void TokenizerConfig::name(SpecialNames& names) const {
  for (auto [said, to] : {std::pair{&unk, &names.unk},
                          {&cls, &names.cls},
                          {&sep, &names.sep},
                          {&pad, &names.pad},
                          {&mask, &names.mask},
                          {&bos, &names.bos},
                          {&eos, &names.eos}})
    if (*said) *to = (*said)->content;
}

Definition read_vocab(std::string_view lines, const std::string& name, const TokenizerOptions& options,
                      const TokenizerConfig& config) {
  Definition d;
  Vocabulary vocabulary(name);
  NormalizerSettings normalizer{.clean_text = true,
                                .split_cjk = config.split_cjk.value_or(options.split_cjk),
                                .strip_accents = false,
                                .lowercase = config.lowercase.value_or(options.lowercase)};
  std::optional<bool> strip = config.strip_accents ? config.strip_accents : options.strip_accents;
  normalizer.strip_accents = strip.value_or(normalizer.lowercase);
  d.model_max_length = config.model_max_length.value_or(options.model_max_length);
  SpecialNames& names = d.names;
  config.name(names);

  if (lines.size() > kMaxVocabularyBytes)
    throw Error(name + " has " + std::to_string(lines.size()) + " bytes, too many for a vocabulary");
  if (!valid_utf8(lines))
    throw Error(name + " is not UTF-8 text", "A vocabulary is a text file with one token a line.");
  vocabulary.reserve(size_t(std::count(lines.begin(), lines.end(), '\n')) + 1, lines.size());
  uint64_t id = 0;
  for (size_t begin = 0; begin < lines.size(); ++id) {
    size_t end = std::min(lines.find('\n', begin), lines.size());
    vocabulary.add(without_trailing_space(lines.substr(begin, end - begin)), id);
    begin = end + 1;
  }
  vocabulary.seal();

  for (const std::string* token : {&names.unk, &names.cls, &names.sep})
    if (vocabulary.id(*token) < 0)
      throw Error(name + ": the token " + io::quote(*token) + " is missing among " + std::to_string(id),
                  "A BERT vocabulary holds " + names.unk + ", " + names.cls + " and " + names.sep +
                      ", one a line; other names can be given in tokenizer_config.json.");
  AddedList list(vocabulary);
  config.add_first(names, list);
  // A model seldom has a row for a name that its vocabulary lacks: such a name counts only for the ids of
  // tokens that come after it.
  for (const std::string* token : names.all())
    if (vocabulary.id(*token) >= 0 || !config.extra.empty()) list.add(config.named(*token));
  for (const AddedToken& t : config.extra) list.add(t);
  d.added = list.finish([&](const std::string& content) {
    Normalized normal;
    normalize(content, 0, normalizer, normal);
    return std::string(normal.text());
  });
  d.post_processor = bert_frame(vocabulary.id(names.cls), vocabulary.id(names.sep));
  d.decoders.push_back(word_piece_decoder());
  WordPieceSettings settings{.normalizer = normalizer, .unk_id = vocabulary.id(names.unk)};
  d.road = std::make_unique<WordPiece>(std::move(vocabulary), settings, d.added);
  return d;
}

}  // namespace bertie::text
