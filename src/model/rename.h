#pragma once
// Names that other programs and other times gave to tensors, and what transformers calls them today.
//
// - bert/encoder/layer_0/attention/self/query/kernel: bert.encoder.layer.0.attention.self.query.weight,
//   transposed; bert/encoder/transformer/group_0/inner_group_0/… is ALBERT's
// - model/h0/attn/c_attn/w: transformer.h.0.attn.c_attn.weight, without the first dimension of 1
// - module.bert.embeddings.LayerNorm.gamma: bert.embeddings.LayerNorm.weight
//
// A name says nothing about whether a model has such a tensor; that is the table's to know (tensors.h).
#include <string>
#include <string_view>

#include "io/safetensors.h"

namespace bertie {

struct Renamed {
  std::string name;         // today's; empty: left out
  bool transposed = false;  // a matrix of (inputs, outputs) becomes (outputs, inputs)
  bool squeezed = false;    // dimensions of 1 go, as those of TensorFlow's convolutions
  // Why it is left out: optimizer state, or a buffer that the model makes itself.
  std::string_view dropped = {};
};

// Today's name for a tensor of a model of this type ("bert", "gpt2", …). A name of today stays as it is.
Renamed rename_tensor(std::string_view name, std::string_view model_type);

// The tensors of a model of this type under today's names, whatever they are stored as: a TensorFlow
// checkpoint's are renamed and transposed here, in memory, and low-rank changes made (low_rank.h); others are
// as they lie.
io::SafeTensors open_weights(const ModelFiles& files, std::string_view model_type);

// Whether it is a tensor that older versions stored although the model makes it itself.
bool is_buffer(std::string_view name);

}  // namespace bertie
