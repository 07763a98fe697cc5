#pragma once
// The models that are part of the program: the files of models/ as they were when it was built, mapped with
// it.
//
// bertie-mini is a language model. A folder below it has a head for a task, and what the task changed of the
// weights, cut to a low rank (model/low_rank.h); the rest it shares with bertie-mini, whose weights it knows
// as the shard base.safetensors.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/files.h"

namespace bertie::hub {

// A file of models/, by its path there.
struct EmbeddedFile {
  std::string_view path;
  std::span<const std::byte> bytes;
};
std::span<const EmbeddedFile> embedded_files();  // made by cmake/embed.cmake

// Nothing: there is no such model.
std::optional<ModelFiles> embedded_model(std::string_view name,
                                         std::span<const EmbeddedFile> all = embedded_files());
std::vector<std::string> embedded_names(std::span<const EmbeddedFile> all);  // sorted

}  // namespace bertie::hub
