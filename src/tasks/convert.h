#pragma once
// A checkpoint under old names, in another precision or in an .npz file, to a folder that Bertie and
// transformers load. Streams: a tensor at a time is in memory.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/safetensors.h"

namespace bertie {

struct Conversion {
  std::filesystem::path from;           // a model folder, .safetensors, .safetensors.index.json or .npz
  std::filesystem::path to;             // a folder, written whole or not at all
  std::filesystem::path config = {};    // empty: the one beside the tensors
  std::optional<io::DType> dtype = {};  // F32, F16 or BF16; nothing: as stored (F64 becomes F32)
  std::vector<std::string> drop = {};   // tensors to leave out, by their old or new name
  bool drop_unknown = false;            // leave out what the model has no use for; else that is an Error
  bool force = false;  // replace a folder that is there, if convert could have made all of it
  // Called before each piece with the bytes written and the bytes to write, and with 0 and 0 before anything
  // is written; may throw to give up.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

struct Converted {
  size_t tensors = 0, renamed = 0;
  uint64_t bytes = 0;                                        // of numbers
  std::vector<std::pair<std::string, std::string>> dropped;  // name and why
  std::vector<std::string> files;                            // in the new folder
};

// Throws Error that names the tensor and the file; then there is no new folder, and an old one is as it was.
Converted convert_model(const Conversion& conversion);

}  // namespace bertie
