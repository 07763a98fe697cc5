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
  kernels::Activation activation = kernels::Activation::none;
  Block memory;
};

struct Modules {
  Pooling pooling;
  std::vector<DenseModule> dense;
  std::optional<size_t> max_length;  // sentence_bert_config.json's max_seq_length

  size_t pooled_size(size_t hidden) const;  // before the dense modules
  size_t output_size(size_t hidden) const { return dense.empty() ? pooled_size(hidden) : dense.back().linear.outputs; }
};

// A directory without modules.json gives mean pooling, as sentence-transformers does. A module that is not
// known, or in an order that does not make sense, is an Error.
Modules load_modules(const std::filesystem::path& directory, size_t hidden);

}  // namespace bertie
