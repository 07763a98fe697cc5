#pragma once
// Tensors in NumPy's .npz files: a zip archive of .npy files, stored (numpy.savez) or deflated
// (numpy.savez_compressed), zip64 and data descriptors included.
//
// Nothing in the file is trusted. After open():
//   - every entry lies inside the file, before the directory, and overlaps no other;
//   - declared sizes are within limits and no more than deflate can make of what is there;
//   - each array's header fits its size; names are unique.
// A checksum is checked when a tensor is read. Anything wrong is an Error that names the file, the tensor and
// the problem. Python objects (a pickle) are refused.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "io/safetensors.h"

namespace bertie::io {

struct NpzTensor {
  std::string name;  // the entry's, without ".npy"
  DType dtype{};     // as stored; F16, F32 and F64 can be read
  std::vector<size_t> shape;
  bool fortran_order = false;
  size_t elements = 0;

  // Where it is in the archive.
  std::span<const std::byte> packed;  // as stored
  bool deflated = false;
  size_t bytes = 0;   // unpacked, header included
  size_t header = 0;  // bytes before the numbers
  uint32_t crc = 0;
};

inline constexpr size_t kMaxNpzTensorBytes = size_t{16} << 30;
inline constexpr size_t kMaxNpzBytes = size_t{64} << 30;

class Npz {
 public:
  static Npz open(const std::filesystem::path& path);
  // The same for a file that is already in memory and outlives the result; errors call it `name`.
  static Npz from_memory(std::span<const std::byte> file, const std::string& name);

  const std::vector<NpzTensor>& tensors() const { return tensors_; }  // sorted by name
  const NpzTensor* find(std::string_view name) const;                 // null where there is none

  // All elements in row-major order, as float (F64 is rounded).
  std::vector<float> read(const NpzTensor& tensor) const;

 private:
  std::vector<MappedFile> files_;
  std::string name_;
  std::vector<NpzTensor> tensors_;
};

}  // namespace bertie::io
