#pragma once
// A model's weights, and the one table that declares them (weights.cc). Loading, saving, random
// initialization and counting walk the table.
#include <string>
#include <vector>

#include "bertie/config.h"
#include "bertie/model.h"
#include "core/arena.h"
#include "io/safetensors.h"
#include "kernels/activation.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"
#include "model/family.h"
#include "model/tensors.h"
#include "model/trunk.h"

namespace bertie {

struct LanguageModelWeights {  // decoder(norm(f(dense(h)))) + bias; without dense, decoder(h)
  kernels::Linear dense;
  kernels::LayerNorm norm;
  kernels::Activation activation = kernels::Activation::kNone;
  float* bias = nullptr;          // null: none
  io::TensorInfo decoder;         // (V, E); if it is not tied to the word embeddings
  io::TensorInfo decoder_scales;  // of its rows, where it is integers
};

struct Weights {
  Config config;
  const Family* family = nullptr;
  bool has_pooler = true;
  std::vector<Head> heads;
  WeightFormat format = WeightFormat::kFloat32;  // of layers and decoder
  kernels::Activation activation = kernels::Activation::kGelu;

  io::TensorInfo word;         // (V, E), left as the file stores it
  io::TensorInfo word_scales;  // of its rows, where it is integers
  TrunkWeights trunk;
  kernels::Linear pooler;

  LanguageModelWeights language_model;
  kernels::Linear next_sentence;
  kernels::Linear classifier_dense, classifier;
  kernels::Activation classifier_activation = kernels::Activation::kNone;
  kernels::Linear tagger, answerer;

  Block memory;                           // everything that the pointers above point to
  io::SafeTensors files;                  // what `word` and the decoder look into, for a model from files
  std::vector<Block> tables;              // or for a random one
  std::shared_ptr<const Weights> origin;  // or for a pruned one: whose tables it looks into

  std::vector<TensorSpec> tensors;  // the table

  Weights(const Config& c, const std::string& file);
  Weights(const Weights&) = delete;  // the table points into it

  // Fills the table: every tensor that a model with this config, pooler and heads has.
  void declare();
  bool has(Head head) const { return std::find(heads.begin(), heads.end(), head) != heads.end(); }
  // The weights of layer l of config.depth(); ALBERT's layers share.
  const LayerWeights& layer(size_t l) const { return trunk.layer(l); }
  // The language model's last product, packed when it is first asked for.
  const kernels::Linear& decoder() const;
  void decoder_learned() const { decoder_.forget(); }  // so that it is packed anew
  // The same as a table of plain numbers (V, E), where allocate made room for it: in a learner.
  Matrix<float> decoder_table() const;

 private:
  PackedTable decoder_;
};

// Model::save.
void save_weights(const Weights& w, const std::filesystem::path& directory, Precision precision);

// What Model::load would say of a folder that is wrong, without reading the numbers.
void check_checkpoint(const std::filesystem::path& directory);

// hidden_act's value as an Activation; Error naming the file and the key if there is no such one.
kernels::Activation activation_named(const std::string& name, const std::string& file,
                                     std::string_view key = "hidden_act");

}  // namespace bertie
