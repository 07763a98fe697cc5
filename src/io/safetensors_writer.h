#pragma once
// Writes safetensors files: the same bytes for the same content, and the bytes that safetensors' own library
// writes for it.
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace bertie::io {

// One tensor to write.
struct TensorSource {
  std::string name;
  std::vector<size_t> shape;
  std::function<void(size_t first, std::span<float> out)>
      read;                         // elements first.. in row-major order, as float
  std::optional<DType> dtype = {};  // where it is not the file's
};

// Writes `file` whole or not at all (io::AtomicFile). dtype is kF32, kF16 or kBF16 (rounded to nearest even;
// a finite number that would become infinite is an Error, infinities and NaN stay), or, of whole numbers that
// fit, kI8 or kI32.
// Tensors are sorted as safetensors' own writer does (wide types first, then by name), so that equal content
// gives equal bytes; the header begins with {"__metadata__":{"format":"pt"}} and is padded with spaces to 8
// bytes. A tensor at a time is read, in pieces of `kWriteElements`: memory stays small.
void write_safetensors(const std::filesystem::path& file, DType dtype, std::span<const TensorSource> tensors);

inline constexpr size_t kWriteElements = size_t{1} << 18;

}  // namespace bertie::io
