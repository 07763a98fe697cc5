#pragma once
// sentence-transformers' modules.json: what happens to a model's token vectors on the way to a sentence
// vector.
#include <filesystem>
#include <optional>
#include <vector>

#include "bertie/encoder.h"
#include "core/arena.h"
#include "kernels/gemm.h"

namespace bertie {

// A Dense module: y = f(W·x + b), after pooling.
struct DenseModule {
  kernels::Linear linear;
  kernels::Activation activation = kernels::Activation::kNone;
  Block memory;
};

struct Modules {
  Pooling pooling;
  std::vector<DenseModule> dense;
  std::optional<size_t> max_length;  // sentence_bert_config.json's max_seq_length
  bool lowercase = false;            // its do_lower_case

  size_t pooled_size(size_t hidden) const;  // before the dense modules
  size_t output_size(size_t hidden) const {
    return dense.empty() ? pooled_size(hidden) : dense.back().linear.outputs;
  }
};

// Where the model and its tokenizer are: the directory itself, or the folder below it that modules.json
// names.
std::filesystem::path transformer_folder(const std::filesystem::path& directory);

// The tokens that a text may have: what sentence_bert_config.json says, else what the tokenizer says, and
// never more than the model has positions for.
size_t max_length(const Modules& modules, size_t positions, size_t tokenizer_max_length);

// A directory without modules.json gives mean pooling, as sentence-transformers does. A module that is not
// known, or in an order that does not make sense, is an Error.
Modules load_modules(const std::filesystem::path& directory, size_t hidden);

}  // namespace bertie
