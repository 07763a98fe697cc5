#pragma once
// Who reads texts: a model and the tokenizer that belongs to it.
#include <filesystem>

#include "bertie/model.h"
#include "bertie/tokenizer.h"

namespace bertie {

struct Reader {
  Tokenizer tokenizer;
  Model model;
};

// From a directory in the Hugging Face or sentence-transformers layout. Error if they do not fit together.
Reader load_reader(const std::filesystem::path& directory);

}  // namespace bertie
