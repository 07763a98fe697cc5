// vocab.json and merges.txt, as transformers 5 reads them for GPT-2 and RoBERTa.
#include <algorithm>

#include "bertie/error.h"
#include "io/json.h"
#include "text/loaders/loaders.h"
#include "text/segmenters/byte_level_fast_path.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

// vocab.json: {"token": id, ...}
struct VocabHandler : io::JsonHandler {
  VocabHandler(Vocabulary& v, const std::string& file) : vocabulary(v) {
    name = file, expected = "an object of tokens and their ids";
  }
  void begin_object() {
    if (++depth > 1) unexpected("an object");
  }
  void end_object() {}
  void key(std::string& value) { token.swap(value); }
  void whole(uint64_t id) {
    if (depth == 0) unexpected("a number");
    vocabulary.add(token, id);
  }
  Vocabulary& vocabulary;
  std::string token;
  int depth = 0;
};

Vocabulary read_vocab_json(std::string_view text, const std::string& name) {
  Vocabulary vocabulary(name);
  vocabulary.reserve(text.size() / 15, text.size());
  VocabHandler handler(vocabulary, name);
  io::read_json(text, name, handler);
  vocabulary.seal("");
  return vocabulary;
}

// merges.txt: "left right" on each line, in order of rank.
Merges read_merges(std::string_view lines, const std::string& name) {
  if (!valid_utf8(lines)) throw Error(name + " is not UTF-8 text", "merges.txt has two tokens per line.");
  Merges merges;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string_view line = lines.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    merges.add_line(line, name);
  }
  return merges;
}

// RoBERTa or GPT-2: by tokenizer_class, else by model_type, else by the tokens of the vocabulary.
bool is_roberta(const BpeFiles& files, const TokenizerConfig& config, const Vocabulary& vocabulary) {
  for (const std::string& name : {config.tokenizer_class, files.model_type}) {
    if (name.starts_with("Roberta") || name == "roberta") return true;
    if (name.starts_with("GPT2") || name == "gpt2") return false;
  }
  auto has = [&](const char* token) { return vocabulary.id(token) >= 0; };
  return has("<s>") && has("</s>") && has("<mask>");
}

}  // namespace

TokenizerParts read_bpe_files(const BpeFiles& files, const TokenizerConfig& config) {
  Vocabulary vocabulary = read_vocab_json(files.vocab, files.vocab_name);
  const Merges merges = read_merges(files.merges, files.merges_name);

  TokenizerParts parts;
  const bool roberta = is_roberta(files, config, vocabulary);
  parts.names = roberta ? roberta_names() : gpt2_names();
  config.override_names(parts.names);
  parts.model_max_length = config.model_max_length.value_or(kNoLimit);

  AddedTokenBuilder added(vocabulary);
  config.add_tokens_with_ids(parts.names, added);
  for (const std::string* name : parts.names.in_id_order()) added.add(config.special_token(*name));
  for (const AddedToken& t : config.additional_special_tokens) added.add(t);
  parts.added = added.finish([](const std::string& content) { return content; });

  const ByteLevelSettings byte_level{.add_prefix_space = config.add_prefix_space.value_or(false)};
  PostProcessor& post_processor = parts.post_processor;
  if (roberta) {
    post_processor = roberta_template(vocabulary.id(parts.names.cls), vocabulary.id(parts.names.sep));
    if (config.trim_offsets.value_or(true)) post_processor.trim_offsets = {{byte_level.add_prefix_space}};
  } else if (config.add_bos_token.value_or(false)) {
    const int32_t bos = vocabulary.id(parts.names.bos);
    post_processor.single = {{-1, 0, {bos}}, {0, 0}};
    post_processor.pair = {{-1, 0, {bos}}, {0, 0}, {-1, 1, {bos}}, {1, 1}};
  }
  parts.decoders.push_back(byte_level_decoder());

  SegmenterSteps steps;
  auto model = std::make_unique<Bpe>(std::move(vocabulary), merges, BpeSettings{}, files.merges_name);
  steps.pre_tokenizers.push_back(byte_level_pre_tokenizer(byte_level));
  steps.fast_path = make_byte_level_fast_path(*model, byte_level);
  steps.model = std::move(model);
  parts.segmenter = std::make_unique<ComposedSegmenter>(std::move(steps), parts.added);
  return parts;
}

}  // namespace bertie::text
