#pragma once
// The shape of a BERT, as config.json gives it.
#include <cstddef>
#include <filesystem>
#include <string>

#include "bertie/export.h"

namespace bertie {

struct BERTIE_API Config {
  size_t layers = 12;          // num_hidden_layers
  size_t hidden = 768;         // hidden_size
  size_t heads = 12;           // num_attention_heads
  size_t intermediate = 3072;  // intermediate_size
  size_t vocabulary = 30522;   // vocab_size
  size_t positions = 512;      // max_position_embeddings
  size_t types = 2;            // type_vocab_size
  double layer_norm_eps = 1e-12;
  std::string activation = "gelu";  // hidden_act

  static Config base() { return {}; }
  static Config large() { return {.layers = 24, .hidden = 1024, .heads = 16, .intermediate = 4096}; }

  // Reads config.json, or the one in a directory. Throws Error naming the key that is wrong.
  static Config load(const std::filesystem::path& path);
  // Throws Error if the numbers do not make a model.
  void check(const std::string& name) const;

  size_t head_size() const { return hidden / heads; }
  // Numbers in the model: embeddings, layers and (if there) pooler. Base 109,482,240, Large 335,141,888.
  size_t parameters(bool pooler = true) const;
};

}  // namespace bertie
