#pragma once
// Tensors to convert, wherever they are: safetensors, files of torch.save or .npz, one file or many.
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace bertie {

struct InputTensor {
  std::string name;
  io::DType dtype{};
  std::vector<size_t> shape;
  size_t elements = 0;
  std::function<std::vector<float>()> read;  // all of it
  std::function<void(size_t, std::span<float>)> read_part =
      nullptr;  // or elements first..; null: only all at once
};

// Sorted by name; they keep their file open. A format that is not read is an Error that says why, and which
// few lines of Python make one that is.
std::vector<InputTensor> open_tensors(const std::filesystem::path& path);

}  // namespace bertie
