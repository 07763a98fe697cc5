#include "tasks/reader.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "tasks/modules.h"

namespace bertie {

Reader load_reader(const std::filesystem::path& directory) {
  const std::filesystem::path folder = transformer_folder(directory);
  Model model = Model::load(folder);
  Tokenizer tokenizer = Tokenizer::load(folder);
  if (tokenizer.vocab_size() > model.config().vocabulary)
    throw Error(fmt::format("{}: the vocabulary has {} tokens but the model has embeddings for {}",
                            directory.string(), tokenizer.vocab_size(), model.config().vocabulary),
                "the tokenizer's files and the weights belong to different models");
  return {std::move(tokenizer), std::move(model)};
}

}  // namespace bertie
