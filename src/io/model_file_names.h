#pragma once
// The files that make a model, in the layout of transformers and sentence-transformers. Whoever looks for
// one, downloads, copies or lists them takes the names from here.
#include <span>
#include <string_view>

namespace bertie::io {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kWeightsFile = "model.safetensors";
inline constexpr std::string_view kWeightsIndexFile = "model.safetensors.index.json";  // of shards
inline constexpr std::string_view kTorchFile = "pytorch_model.bin";  // what torch.save wrote
inline constexpr std::string_view kTorchIndexFile = "pytorch_model.bin.index.json";
// Weights: the first of these that is there; without any, a TensorFlow checkpoint (tensorflow_checkpoint.h).
inline constexpr std::string_view kWeightsFiles[] = {kWeightsFile, kWeightsIndexFile, kTorchFile,
                                                     kTorchIndexFile};
inline constexpr std::string_view kGenerationConfigFile = "generation_config.json";

// The tokenizer itself: the first of these that is there.
inline constexpr std::string_view kTokenizerFile = "tokenizer.json";
inline constexpr std::string_view kWordPieceFile = "vocab.txt";
inline constexpr std::string_view kBpeFile = "vocab.json";
inline constexpr std::string_view kAlbertPiecesFile = "spiece.model";
inline constexpr std::string_view kTokenizerFiles[] = {kTokenizerFile, kWordPieceFile, kBpeFile,
                                                       kAlbertPiecesFile, "sentencepiece.bpe.model"};
// What may be beside it.
inline constexpr std::string_view kMergesFile = "merges.txt";  // of kBpeFile
inline constexpr std::string_view kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensFile = "special_tokens_map.json";
inline constexpr std::string_view kAddedTokensFile = "added_tokens.json";
inline constexpr std::string_view kTokenizerCompanions[] = {kMergesFile, kTokenizerConfigFile,
                                                            kSpecialTokensFile, kAddedTokensFile};

// sentence-transformers: the list of modules, and settings at the top and beside the transformer.
inline constexpr std::string_view kModulesFile = "modules.json";
inline constexpr std::string_view kSentenceConfigFile = "sentence_bert_config.json";
inline constexpr std::string_view kSentenceTransformersFile = "config_sentence_transformers.json";

// Whether a file of this name (without its folder) is one of the above, weights excluded.
bool is_small_model_file(std::string_view name);
// All of them, weights excluded, in the order in which they are listed and downloaded.
std::span<const std::string_view> small_model_files();

}  // namespace bertie::io
