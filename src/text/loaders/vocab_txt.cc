// vocab.txt of BERT.
#include <algorithm>

#include "bertie/error.h"
#include "io/quote.h"
#include "text/loaders/loaders.h"
#include "text/segmenters/bert_segmenter.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

Vocabulary read_vocabulary(std::string_view lines, const std::string& name) {
  if (lines.size() > kMaxVocabularyBytes)
    throw Error(name + " has " + std::to_string(lines.size()) + " bytes, too many for a vocabulary");
  if (!valid_utf8(lines))
    throw Error(name + " is not UTF-8 text", "A vocabulary is a text file with one token per line.");
  Vocabulary vocabulary(name);
  vocabulary.reserve(size_t(std::count(lines.begin(), lines.end(), '\n')) + 1, lines.size());
  uint64_t id = 0;
  for (size_t begin = 0; begin < lines.size(); ++id) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    std::string_view line = lines.substr(begin, end - begin);
    line.remove_suffix(trailing_whitespace(line));  // a carriage return, for example
    vocabulary.add(line, id);
    begin = end + 1;
  }
  vocabulary.seal();
  return vocabulary;
}

}  // namespace

TokenizerParts read_vocab_txt(std::string_view lines, const std::string& name,
                              const TokenizerOptions& options, const TokenizerConfig& config) {
  const bool lowercase = config.lowercase.value_or(options.lowercase);
  const BertNormalizerSettings normalizer{
      .split_cjk = config.split_cjk.value_or(options.split_cjk),
      .strip_accents = config.strip_accents.value_or(options.strip_accents.value_or(lowercase)),
      .lowercase = lowercase};
  TokenizerParts parts;
  parts.model_max_length = config.model_max_length.value_or(options.model_max_length);
  SpecialTokenNames& names = parts.names;
  config.override_names(names);

  Vocabulary vocabulary = read_vocabulary(lines, name);
  for (const std::string* token : {&names.unk, &names.cls, &names.sep})
    if (vocabulary.id(*token) < 0)
      throw Error(name + ": the token " + io::quote(*token) + " is missing among " +
                      std::to_string(vocabulary.size()),
                  "A BERT vocabulary holds " + names.unk + ", " + names.cls + " and " + names.sep +
                      ", one per line; other names can be given in tokenizer_config.json.");
  AddedTokenBuilder added(vocabulary);
  config.add_tokens_with_ids(names, added);
  // A model seldom has an embedding for a name that its vocabulary lacks. Such a name is added only if tokens
  // follow whose ids depend on it.
  for (const std::string* token : names.in_id_order())
    if (vocabulary.id(*token) >= 0 || !config.additional_special_tokens.empty())
      added.add(config.special_token(*token));
  for (const AddedToken& t : config.additional_special_tokens) added.add(t);
  parts.added =
      added.finish([&](const std::string& content) { return bert_normalized_text(content, normalizer); });

  parts.post_processor = bert_template(vocabulary.id(names.cls), vocabulary.id(names.sep));
  parts.decoders.push_back(word_piece_decoder());
  const int32_t unk_id = vocabulary.id(names.unk);
  parts.segmenter =
      std::make_unique<BertSegmenter>(WordPiece(std::move(vocabulary), unk_id), normalizer, parts.added);
  return parts;
}

}  // namespace bertie::text
