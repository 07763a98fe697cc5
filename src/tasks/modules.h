#pragma once
// sentence-transformers' modules.json: what happens to a model's token vectors on the way to a sentence
// vector.
#include <optional>
#include <string>
#include <vector>

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

  size_t pooled_size(size_t hidden) const;  // before the dense modules
  size_t output_size(size_t hidden) const {
    return dense.empty() ? pooled_size(hidden) : dense.back().linear.outputs;
  }
};

// The model and its tokenizer: all the files, or those in the folder below that modules.json names.
ModelFiles transformer_files(const ModelFiles& files);
// That folder, relative; "" for the top.
std::string transformer_folder(const ModelFiles& files);
// The folders of all modules, relative, without the top; none where there is no modules.json.
std::vector<std::string> module_folders(const ModelFiles& files);

// The tokens that a text may have: what sentence_bert_config.json says, else what the tokenizer says, and
// never more than the model has positions for.
size_t max_length(const Modules& modules, size_t positions, size_t tokenizer_max_length);

// Without modules.json it is mean pooling, as in sentence-transformers. A module that is not known, or in an
// order that does not make sense, is an Error.
Modules load_modules(const ModelFiles& files, size_t hidden);
// Error where the modules ask for something that the tokenizer does not do.
void check_modules(const Modules& modules, const Tokenizer& tokenizer, const ModelFiles& files);

// Error where the tokenizer has ids for which the model has no embeddings; `name` is the model's.
void check_vocabulary(const Tokenizer& tokenizer, const Config& config, const std::string& name);

}  // namespace bertie
