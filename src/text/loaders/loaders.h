#pragma once
// Reads tokenizers from files. `name` is what errors call a file. All throw Error.
#include <string>
#include <string_view>

#include "bertie/files.h"
#include "text/loaders/tokenizer_config.h"
#include "text/tokenizer_parts.h"

namespace bertie::text {

class JsonObject;

// The name of the tokenizer's file; empty if there is none.
std::string find_tokenizer_file(const ModelFiles& files);
// That file, with the configuration beside it.
TokenizerParts load_tokenizer(const ModelFiles& files);

TokenizerParts read_tokenizer_json(std::string_view json, const std::string& name,
                                   const TokenizerConfig& config);

// vocab.txt: one token per line; the line number, from 0, is the id. `config` overrides `options`.
TokenizerParts read_vocab_txt(std::string_view lines, const std::string& name,
                              const TokenizerOptions& options, const TokenizerConfig& config);

// vocab.json and merges.txt of GPT-2 and RoBERTa; `model_type` is config.json's, if there is one.
struct BpeFiles {
  std::string_view vocab, merges;
  std::string vocab_name, merges_name, model_type;
};
TokenizerParts read_bpe_files(const BpeFiles& files, const TokenizerConfig& config);

// spiece.model or sentencepiece.bpe.model. `family`: a tokenizer_class ("AlbertTokenizer",
// "XLMRobertaTokenizerFast") or a model_type ("albert", "xlm-roberta", "camembert"); empty: by the file's
// name.
TokenizerParts read_sentence_piece(std::string_view bytes, const std::string& name, const std::string& family,
                                   const TokenizerConfig& config);

// The object "post_processor" of a tokenizer.json; only the texts if it is missing.
PostProcessor read_post_processor(const JsonObject& object, const Vocabulary& vocabulary);

}  // namespace bertie::text
