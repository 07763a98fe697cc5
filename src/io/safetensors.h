#pragma once
// Tensors in safetensors files: one file, or several shards behind model.safetensors.index.json. Files that
// torch.save wrote (torch_file.h) and TensorFlow's checkpoints (tensorflow_checkpoint.h) are taken, too,
// where there is nothing else.
//
// A file is 8 bytes of header length, a JSON header that gives each tensor's dtype, shape and byte range,
// and the bytes. Nothing in it is trusted. After open():
//   - the ranges follow each other from the first byte of the data to the last, without hole or overlap;
//   - a tensor's range is exactly its shape times its dtype's size;
//   - names are unique and valid UTF-8.
// Anything else is an Error that names the file, the tensor and the problem.
//
// Data is mapped, not read: it may be at any address, so go through to_float or memcpy, not a cast. A
// SafeTensors is constant; any number of threads may use it, and TensorInfos live as long as it does (or
// the one it was moved into).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/files.h"

namespace bertie::io {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64
};

size_t size_of(DType dtype);            // bytes of one element
std::string_view name_of(DType dtype);  // as files write it: "F32"

struct TensorInfo {
  std::string name;
  DType dtype{};
  std::vector<size_t> shape;        // empty for a scalar
  std::span<const std::byte> data;  // elements() * size_of(dtype) bytes
  // Of a matrix of I8: an F32 for each row, with which to_float multiplies. Empty: none.
  std::span<const std::byte> row_scales = {};

  size_t elements() const { return data.size() / size_of(dtype); }
};

// What a file may ask for. The largest published models have some 10,000 tensors of rank 4.
inline constexpr size_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensors = 100'000;
inline constexpr size_t kMaxRank = 8;
inline constexpr size_t kMaxTensorName = 512;

// The bytes of a shape. An Error that names the tensor, where they do not fit into 64 bits.
size_t bytes_of(DType dtype, std::span<const size_t> shape, const std::string& file, std::string_view tensor);
// What a tensor may be called, where files do not promise UTF-8: ASCII, without control characters.
bool is_plain_name(std::string_view name);

class SafeTensors {
 public:
  // A .safetensors file or one of torch.save, an index of such, that of a TensorFlow checkpoint, an .onnx
  // file, or files with weights among them (weights_file says which).
  static SafeTensors open(const ModelFiles& files);

  // The same for a file that is already in memory and outlives the result; errors call it `name`.
  static SafeTensors from_memory(std::span<const std::byte> file, const std::string& name);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // sorted by name
  const TensorInfo* find(std::string_view name) const;                 // null where there is none

  // Others in their place, made of these: in the same files, or in `copies`. Throws Error where two have one
  // name.
  SafeTensors with(std::vector<TensorInfo> tensors, std::vector<std::vector<std::byte>> copies) &&;

 private:
  static SafeTensors open_file(const ModelFiles& files, std::string_view file);
  static SafeTensors open_shards(const ModelFiles& files, std::string_view index);

  std::vector<FileBytes> files_;
  std::vector<std::vector<std::byte>> copies_;  // of tensors that do not lie in a file as they are
  std::vector<TensorInfo> tensors_;
};

// A matrix of any dtype the other way round: column by column.
std::vector<std::byte> transposed(const TensorInfo& matrix);

// Elements first .. first + out.size() - 1 of an F64 (rounded), F32, F16 or BF16 tensor, in the file's
// (row-major) order. Another dtype, or elements that the tensor does not have, is an Error.
void to_float(const TensorInfo& tensor, size_t first, std::span<float> out);
// The same, and of I8 and I32 the whole numbers, without scales. The caller keeps within the tensor.
void as_stored(const TensorInfo& tensor, size_t first, std::span<float> out);

}  // namespace bertie::io
