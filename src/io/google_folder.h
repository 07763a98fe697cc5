#pragma once
// Google's folders of BERT and ALBERT (uncased_L-12_H-768_A-12, albert_base) as transformers lays a model
// out:
//
//   config.json             bert_config.json or albert_config.json, and the model_type, which they do not say
//   tokenizer_config.json   do_lower_case, which they do not say either: a vocabulary for small letters has
//   no capitals spiece.model            30k-clean.model
//
// All other files are as they are; the weights are a TensorFlow checkpoint (tensorflow_checkpoint.h).
#include <memory>

#include "io/model_files.h"

namespace bertie::io {

// The same source, or one that shows Google's folder so.
std::shared_ptr<const ModelFiles::Source> in_transformers_layout(
    std::shared_ptr<const ModelFiles::Source> source);

}  // namespace bertie::io
