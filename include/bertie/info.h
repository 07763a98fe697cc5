#pragma once
// What a model is, by its files: shape, heads, tokenizer, vectors, sizes. `bertie info` prints it.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/config.h"
#include "bertie/export.h"
#include "bertie/files.h"
#include "bertie/model.h"
#include "bertie/text_model.h"
#include "bertie/transformer.h"

namespace bertie {

struct BERTIE_API ModelInfo {
  struct File {
    std::string name;
    uint64_t bytes = 0;
  };
  struct TokenizerInfo {
    std::string kind;  // "WordPiece", "BPE" or "Unigram"
    bool cased = false;
    size_t tokens = 0;
  };

  // One of the two: a model with one side, or an encoder-decoder.
  std::optional<Config> config;
  std::optional<TransformerConfig> transformer;

  size_t parameters = 0;
  std::vector<std::string> warnings;       // what loading would warn of
  std::string notice;                      // NOTICE.txt: whose texts it learned from; empty: there is none
  std::map<std::string, uint64_t> stored;  // numbers in the files, by type: "F32"
  std::vector<File> files;                 // that Bertie reads, the largest first
  uint64_t weights_bytes = 0;              // in memory

  // Of a model with one side.
  bool has_pooler = false;
  std::vector<Head> heads;
  std::optional<TokenizerInfo> tokenizer;  // nothing: there is none
  Pooling pooling;
  std::string no_vectors;        // why embed cannot, of a model that can something else; else empty
  bool has_dense = false;        // modules between pooling and the vector
  size_t dimension = 0;          // of a text's vector
  size_t max_length = 0;         // tokens of a text
  uint64_t bytes_per_token = 0;  // of a batch at work (Run::bytes_per_token)

  bool has_labels() const;  // one of the heads gives config->labels
};

// Loads the model to see that it can be, and throws Error where it cannot. Weights are counted in this
// format.
BERTIE_API ModelInfo describe(const ModelFiles& files, WeightFormat format = WeightFormat::kFloat32);

// "mean", "cls+max", …
BERTIE_API std::string pooling_name(const Pooling& pooling);
// "masked language model", "question answering", …
BERTIE_API std::string_view head_name(Head head);

}  // namespace bertie
