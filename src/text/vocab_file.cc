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

// "[UNK]", or {"content": "[UNK]", ...} as older files have it.
std::optional<std::string> optional_token(const nlohmann::json& object, const char* key,
                                          const std::string& name) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  if (it->is_object()) return io::get_string(*it, "content", name);
  return io::get_string(object, key, name);
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

}  // namespace

SpecialNames albert_names() { return {.unk = "<unk>", .pad = "<pad>", .bos = "[CLS]", .eos = "[SEP]"}; }
SpecialNames fairseq_names() {
  return {.unk = "<unk>",
          .cls = "<s>",
          .sep = "</s>",
          .pad = "<pad>",
          .mask = "<mask>",
          .bos = "<s>",
          .eos = "</s>"};
}

TokenizerConfig read_tokenizer_config(std::string_view json, const std::string& name) {
  nlohmann::json root = io::parse_json(json, name);
  if (!root.is_object()) throw Error(name + ": expected an object, found " + root.type_name());
  TokenizerConfig config;
  config.lowercase = optional_bool(root, "do_lower_case", name);
  config.strip_accents = optional_bool(root, "strip_accents", name);
  config.split_cjk = optional_bool(root, "tokenize_chinese_chars", name);
  config.keep_accents = optional_bool(root, "keep_accents", name);
  config.add_prefix_space = optional_bool(root, "add_prefix_space", name);
  config.tokenizer_class = io::get_string(root, "tokenizer_class", name, "");
  if (auto mask = root.find("mask_token"); mask != root.end() && mask->is_object()) {
    config.mask_lstrip = optional_bool(*mask, "lstrip", name);
    config.mask_normalized = optional_bool(*mask, "normalized", name);
  }
  config.unk = optional_token(root, "unk_token", name);
  config.cls = optional_token(root, "cls_token", name);
  config.sep = optional_token(root, "sep_token", name);
  config.pad = optional_token(root, "pad_token", name);
  config.mask = optional_token(root, "mask_token", name);
  config.bos = optional_token(root, "bos_token", name);
  config.eos = optional_token(root, "eos_token", name);
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
    if (*said) *to = **said;
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
