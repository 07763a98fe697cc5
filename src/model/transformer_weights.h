#pragma once
// An encoder-decoder's weights, and the one table that declares them, under the names of transformers'
// MarianMTModel.
#include <string>
#include <vector>

#include "bertie/transformer.h"
#include "core/arena.h"
#include "io/safetensors.h"
#include "kernels/gemm.h"
#include "model/tensors.h"
#include "model/trunk.h"
#include "model/weights.h"

namespace bertie {

struct TransformerWeights {
  TransformerConfig config;
  kernels::Activation activation;
  io::TensorInfo word;            // (V, C), left as the file stores it; the output's weights too
  Matrix<float> position;         // (positions, C), of both; computed
  TrunkWeights encoder, decoder;  // of which the decoder's layers have cross-attention
  bool has_logits_bias = true;
  WeightFormat format = WeightFormat::kFloat32;  // of layers and output
  float* logits_bias = nullptr;                  // (V)

  Block memory;  // everything that the pointers above point to
  Block position_memory;
  io::SafeTensors files;      // what `word` looks into, for a model from files
  std::vector<Block> tables;  // or for a random one
  std::vector<TensorSpec> tensors;

  TransformerWeights(const TransformerConfig& c, const std::string& file);
  TransformerWeights(const TransformerWeights&) = delete;  // the table points into it

  // Fills the table: every tensor that a model with this config has.
  void declare();
  // Computes the positions: sines in the first half of the columns, cosines in the second, wavelengths from
  // 2π to 10000·2π.
  void place();
  // x·Wᵀ + b with the word embeddings as W: logits.
  const kernels::Linear& output() const { return output_.linear(word, logits_bias); }

 private:
  PackedTable output_;
};

}  // namespace bertie
