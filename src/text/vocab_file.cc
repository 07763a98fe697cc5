// vocab.txt, one token a line, its number the id; and tokenizer_config.json beside it.
#include <algorithm>
#include <cstring>

#include "io/json.h"
#include "text/tokenizer_state.h"
#include "text/unicode.h"
#include "text/word_piece.h"

namespace bertie::text {
namespace {

constexpr size_t kMaxModelLength = 1'000'000'000;

std::optional<bool> optional_bool(const nlohmann::json& object, const char* key, const std::string& name) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  return io::get_bool(object, key, name);
}

// "[UNK]", or {"content": "[UNK]", ...} as other files have it.
std::optional<AddedToken> optional_token(const nlohmann::json& object, const char* key,
                                         const std::string& name) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  AddedToken token;
  token.special = true;
  if (it->is_object()) {
    Section said(*it, name + ": " + key);
    token.content = said.string("content", {});
    token.single_word = said.flag("single_word", false);
    token.lstrip = said.flag("lstrip", false);
    token.rstrip = said.flag("rstrip", false);
    token.normalized = said.flag("normalized", false);
  } else {
    token.content = io::get_string(object, key, name);
  }
  if (token.content.empty() || token.content.size() > kMaxTokenBytes)
    throw Error(name + ": " + key + ": expected a token, found " + io::quote(token.content));
  return token;
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
  for (const std::string* token : {&names.pad, &names.unk, &names.cls, &names.sep, &names.mask})
    if (int32_t id_of = vocabulary.id(*token); id_of >= 0)
      d.added.push_back({.content = *token, .id = id_of, .normalized = false, .special = true});
  d.post_processor = bert_frame(vocabulary.id(names.cls), vocabulary.id(names.sep));
  d.decoders.push_back(word_piece_decoder());
  WordPieceSettings settings{.normalizer = normalizer, .unk_id = vocabulary.id(names.unk)};
  d.road = std::make_unique<WordPiece>(std::move(vocabulary), settings, d.added);
  return d;
}

}  // namespace bertie::text
