#pragma once
// BERT's weights, and the one table that declares them. Loading, random initialisation and counting walk
// the table; so will saving and the optimiser.
#include <string>
#include <variant>
#include <vector>

#include "bertie/config.h"
#include "core/arena.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "kernels/activation.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"

namespace bertie {

struct LayerWeights {
  kernels::Linear qkv;            // queries, keys and values as one product: 3·C outputs
  kernels::Linear attention_out;  // W^O
  kernels::LayerNorm attention_norm;
  kernels::Linear up, down;  // the feed-forward network: C → intermediate → C
  kernels::LayerNorm output_norm;
};

struct Weights {
  Config config;
  bool has_pooler = true;
  kernels::Activation activation = kernels::Activation::gelu;

  io::TensorInfo word;  // (V, C), left as the file stores it: rows are converted when looked up
  float* position = nullptr;
  float* type = nullptr;
  kernels::LayerNorm embedding_norm;
  std::vector<LayerWeights> layers;
  kernels::Linear pooler;

  Block memory;           // everything that the pointers above point to
  io::SafeTensors files;  // what `word` looks into, for a model from files
  Block words;            // or for a random one
};

// One tensor of a checkpoint: its name, its shape (vectors have one row) and where it goes. `to` points to
// members of the Weights that were walked.
struct TensorSpec {
  struct Rows {  // rows first_row.. of a packed matrix, of which this tensor may be a part
    kernels::Linear* linear;
    size_t first_row;
  };
  struct Bias {  // likewise of its bias
    kernels::Linear* linear;
    size_t first_row;
  };
  std::string name;
  size_t rows, cols;
  std::variant<io::TensorInfo*, float**, Rows, Bias> to;  // mapped table, plain numbers, or part of a Linear
};

template <class Visit>
void for_each_tensor(Weights& w, const Visit& visit) {
  const Config& c = w.config;
  w.layers.resize(c.layers);
  const auto linear = [&](const std::string& name, kernels::Linear& l, size_t first_row, size_t rows,
                          size_t cols) {
    visit(TensorSpec{name + ".weight", rows, cols, TensorSpec::Rows{&l, first_row}});
    visit(TensorSpec{name + ".bias", 1, rows, TensorSpec::Bias{&l, first_row}});
  };
  const auto norm = [&](const std::string& name, kernels::LayerNorm& n) {
    visit(TensorSpec{name + ".LayerNorm.weight", 1, c.hidden, &n.gamma});
    visit(TensorSpec{name + ".LayerNorm.bias", 1, c.hidden, &n.beta});
  };
  visit(TensorSpec{"embeddings.word_embeddings.weight", c.vocabulary, c.hidden, &w.word});
  visit(TensorSpec{"embeddings.position_embeddings.weight", c.positions, c.hidden, &w.position});
  visit(TensorSpec{"embeddings.token_type_embeddings.weight", c.types, c.hidden, &w.type});
  norm("embeddings", w.embedding_norm);
  for (size_t i = 0; i < c.layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i) + ".";
    LayerWeights& l = w.layers[i];
    linear(layer + "attention.self.query", l.qkv, 0, c.hidden, c.hidden);
    linear(layer + "attention.self.key", l.qkv, c.hidden, c.hidden, c.hidden);
    linear(layer + "attention.self.value", l.qkv, 2 * c.hidden, c.hidden, c.hidden);
    linear(layer + "attention.output.dense", l.attention_out, 0, c.hidden, c.hidden);
    norm(layer + "attention.output", l.attention_norm);
    linear(layer + "intermediate.dense", l.up, 0, c.intermediate, c.hidden);
    linear(layer + "output.dense", l.down, 0, c.hidden, c.intermediate);
    norm(layer + "output", l.output_norm);
  }
  if (w.has_pooler) linear("pooler.dense", w.pooler, 0, c.hidden, c.hidden);
}

// hidden_act's value as an Activation; Error naming the file if there is no such one.
kernels::Activation activation_named(const std::string& name, const std::string& file);

}  // namespace bertie
