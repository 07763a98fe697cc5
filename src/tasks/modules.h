#pragma once
// sentence-transformers' modules.json: what happens to a model's token vectors on the way to a sentence
// vector.
#include <optional>
#include <string>
#include <vector>

#include "bertie/error.h"
#include "bertie/files.h"
#include "bertie/text_model.h"
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

  size_t output_size(size_t hidden) const;
};

size_t pooled_size(const Pooling& pooling, size_t hidden);  // numbers of a vector before the dense modules

// The model and its tokenizer: all the files, or those in the folder below that modules.json names.
ModelFiles transformer_files(const ModelFiles& files);

// The tokens that a text may have: what sentence_bert_config.json says, else what the tokenizer says, and
// never more than the model has positions for.
size_t max_length(const Modules& modules, size_t positions, size_t tokenizer_max_length);

// Without modules.json it is mean pooling, as in sentence-transformers. A module that is not known, or in an
// order that does not make sense, is an Error.
Modules load_modules(const ModelFiles& files, size_t hidden);

// The same for a model and its tokenizer (null: none), which must do what the modules ask for. A model with a
// head may be for that alone: then what is wrong is `error`, unless it is strict.
struct ModulesOrError {
  Modules modules;
  std::optional<Error> error;
};
ModulesOrError load_modules(const ModelFiles& files, const Model& model, const Tokenizer* tokenizer,
                            bool strict);

// Error where the tokenizer has ids for which the model has no embeddings; `name` is the model's.
void check_vocabulary(const Tokenizer& tokenizer, const Config& config, const std::string& name);

}  // namespace bertie
