#pragma once
// The files that make a model, in the layout of transformers and sentence-transformers. Whoever looks for
// one, downloads, copies or lists them takes the names from here.
#include <span>
#include <string_view>

namespace bertie::io {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kWeightsFile = "model.safetensors";
inline constexpr std::string_view kWeightsIndexFile = "model.safetensors.index.json";  // of shards
inline constexpr std::string_view kGenerationConfigFile = "generation_config.json";

// The tokenizer itself: the first of these that is there.
inline constexpr std::string_view kTokenizerFiles[] = {"tokenizer.json", "vocab.txt", "vocab.json",
                                                       "spiece.model", "sentencepiece.bpe.model"};
// What may be beside it. merges.txt belongs to vocab.json.
inline constexpr std::string_view kTokenizerCompanions[] = {"merges.txt", "tokenizer_config.json",
                                                            "special_tokens_map.json", "added_tokens.json"};

// sentence-transformers: the list of modules, and settings at the top and beside the transformer.
inline constexpr std::string_view kModulesFile = "modules.json";
inline constexpr std::string_view kSentenceConfigFile = "sentence_bert_config.json";
inline constexpr std::string_view kSentenceTransformersFile = "config_sentence_transformers.json";

// Whether a file of this name (without its folder) is one of the above, weights excluded.
bool is_small_model_file(std::string_view name);
// All of them, weights excluded, in the order in which they are listed and downloaded.
std::span<const std::string_view> small_model_files();

}  // namespace bertie::io
