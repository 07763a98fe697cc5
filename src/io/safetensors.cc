#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/half.h"
#include "io/json.h"
#include "io/model_contents.h"
#include "io/model_file_names.h"
#include "io/onnx.h"
#include "io/tensorflow_checkpoint.h"
#include "io/torch_file.h"

namespace bertie::io {
namespace {

struct DTypeRow {
  std::string_view name;
  size_t size;
};
// In the order of DType.
constexpr std::array<DTypeRow, 15> kDTypes{{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"F8_E4M3", 1},
                                            {"F8_E5M2", 1},
                                            {"U16", 2},
                                            {"I16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"U32", 4},
                                            {"I32", 4},
                                            {"F32", 4},
                                            {"U64", 8},
                                            {"I64", 8},
                                            {"F64", 8}}};

// A tensor as the header declares it: its bytes are begin .. end - 1 of the data.
struct Entry {
  TensorInfo info;
  uint64_t begin = 0, end = 0;
};

[[noreturn]] void malformed(const std::string& file, std::string_view tensor, const std::string& problem) {
  throw Error(fmt::format("{}: tensor {}: {}", file, quote(tensor), problem));
}

// {"__metadata__": {"text": "text"}, "<tensor>": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
class HeaderReader : public JsonHandler {
 public:
  explicit HeaderReader(const std::string& file) {
    name = file;
    expected = "an object with a tensor for each key";
  }

  std::vector<Entry> take_entries() { return std::move(entries_); }

  void begin_object() {
    switch (where_) {
      case Where::kStart:
        where_ = Where::kHeader;
        return;
      case Where::kMetadataStart:
        where_ = Where::kMetadata;
        return;
      case Where::kTensorStart:
        where_ = Where::kTensor;
        return;
      default:
        unexpected("an object");
    }
  }

  void end_object() {
    if (where_ == Where::kTensor) {
      const char* names[] = {"dtype", "shape", "data_offsets"};
      for (int field = 0; field < 3; ++field)
        if (!(seen_ & 1u << field)) malformed(name, tensor(), fmt::format("{} is missing", names[field]));
    }
    where_ = Where::kHeader;
  }

  void key(std::string& text) {
    switch (where_) {
      case Where::kMetadata:
        expected = "a string in __metadata__";
        if (!metadata_keys_.insert(text).second) duplicate(text);
        return;
      case Where::kTensor:
        return begin_field(text);
      default:
        return begin_entry(text);
    }
  }

  void string(std::string& text) {
    if (where_ == Where::kMetadata) return;
    if (where_ != Where::kDType) unexpected("a string");
    auto row =
        std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& r) { return r.name == text; });
    if (row == kDTypes.end()) malformed(name, tensor(), fmt::format("unknown dtype {}", quote(text)));
    entries_.back().info.dtype = static_cast<DType>(row - kDTypes.begin());
    where_ = Where::kTensor;
  }

  void begin_array() {
    if ((where_ != Where::kShape && where_ != Where::kOffsets) || in_array_) unexpected("an array");
    in_array_ = true;
  }

  void end_array() {
    in_array_ = false;
    if (where_ == Where::kOffsets && offsets_ != 2)
      malformed(name, tensor(), "data_offsets should be two numbers: begin and end");
    where_ = Where::kTensor;
  }

  void whole(uint64_t value) {
    if (!in_array_) unexpected("a number");
    Entry& entry = entries_.back();
    if (where_ == Where::kShape) {
      if (entry.info.shape.size() == kMaxRank)
        malformed(name, tensor(), fmt::format("more than {} dimensions", kMaxRank));
      entry.info.shape.push_back(value);
    } else {
      if (offsets_ == 2) malformed(name, tensor(), "data_offsets should be two numbers: begin and end");
      (offsets_++ == 0 ? entry.begin : entry.end) = value;
    }
  }

 private:
  enum class Where {
    kStart,
    kHeader,
    kMetadataStart,
    kMetadata,
    kTensorStart,
    kTensor,
    kDType,
    kShape,
    kOffsets
  };

  const std::string& tensor() const { return entries_.back().info.name; }
  [[noreturn]] void duplicate(std::string_view text) const {
    throw Error(fmt::format("{}: duplicate key {}", name, quote(text)));
  }

  void begin_entry(std::string& text) {
    if (text == "__metadata__") {
      if (has_metadata_) duplicate(text);
      has_metadata_ = true;
      expected = "an object of strings for __metadata__";
      where_ = Where::kMetadataStart;
      return;
    }
    if (entries_.size() == kMaxTensors)
      throw Error(fmt::format("{}: more than {} tensors", name, kMaxTensors));
    if (text.size() > kMaxTensorName)
      malformed(name, text, fmt::format("its name has {} bytes, more than {}", text.size(), kMaxTensorName));
    expected = "an object with dtype, shape and data_offsets for tensor " + quote(text);
    entries_.emplace_back().info.name = std::move(text);
    seen_ = 0, offsets_ = 0;
    where_ = Where::kTensorStart;
  }

  void begin_field(const std::string& text) {
    unsigned field;
    if (text == "dtype") {
      field = 0, where_ = Where::kDType, expected = "a string for the dtype";
    } else if (text == "shape") {
      field = 1, where_ = Where::kShape, expected = "an array of whole numbers for the shape";
    } else if (text == "data_offsets") {
      field = 2, where_ = Where::kOffsets, expected = "an array of two whole numbers for the data_offsets";
    } else {
      malformed(name, tensor(), fmt::format("unknown key {}", quote(text)));
    }
    expected += " of tensor " + quote(tensor());
    if (seen_ & 1u << field) malformed(name, tensor(), fmt::format("duplicate key {}", quote(text)));
    seen_ |= 1u << field;
  }

  std::vector<Entry> entries_;
  std::set<std::string> metadata_keys_;
  Where where_ = Where::kStart;
  unsigned seen_ = 0;  // bits: dtype, shape, data_offsets
  int offsets_ = 0;
  bool in_array_ = false, has_metadata_ = false;
};

std::string_view header_of(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < 8)
    throw Error(
        fmt::format("{}: not a safetensors file: it has {} bytes, too few for a header", name, file.size()),
        "download it again; a pointer file of git-lfs is fetched with: git lfs pull");
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxHeaderBytes)
    throw Error(fmt::format("{}: not a safetensors file: a header of {} bytes, more than {}", name, length,
                            kMaxHeaderBytes),
                "download it again; a pointer file of git-lfs is fetched with: git lfs pull");
  if (length > file.size() - 8)
    throw Error(fmt::format("{}: truncated: a header of {} bytes in a file of {}", name, length, file.size()),
                "download it again");
  std::string_view header(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (!header.starts_with('{'))
    throw Error(fmt::format("{}: not a safetensors file: its header does not begin with '{{'", name));
  return header;
}

// In: entries in the file's order. Out: their info, with data.
std::vector<TensorInfo> place(std::vector<Entry> entries, std::span<const std::byte> data,
                              const std::string& name) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::vector<TensorInfo> tensors;
  tensors.reserve(entries.size());
  uint64_t at = 0;
  for (Entry& entry : entries) {
    TensorInfo& info = entry.info;
    if (entry.begin > entry.end)
      malformed(name, info.name, fmt::format("data_offsets {} to {} run backwards", entry.begin, entry.end));
    if (entry.begin != at)
      malformed(name, info.name,
                fmt::format("its data begins at {} and {} {}", entry.begin,
                            entry.begin < at ? "overlaps what ends at" : "leaves a hole after", at));
    if (entry.end > data.size())
      throw Error(fmt::format("{}: truncated: tensor {} ends at byte {} of the data, which has {}", name,
                              quote(info.name), entry.end, data.size()),
                  "download it again");
    if (const size_t bytes = bytes_of(info.dtype, info.shape, name, info.name);
        bytes != entry.end - entry.begin)
      malformed(name, info.name,
                fmt::format("shape [{}] of {} is {} bytes, but its data has {}", fmt::join(info.shape, ", "),
                            name_of(info.dtype), bytes, entry.end - entry.begin));
    info.data = data.subspan(entry.begin, entry.end - entry.begin);
    at = entry.end;
    tensors.push_back(std::move(info));
  }
  if (at != data.size())
    throw Error(fmt::format("{}: {} bytes after the last tensor", name, data.size() - at));
  return tensors;
}

constexpr size_t kMaxShards = 1000;

}  // namespace

size_t size_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size; }
std::string_view name_of(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

size_t bytes_of(DType dtype, std::span<const size_t> shape, const std::string& file,
                std::string_view tensor) {
  Checked bytes = size_of(dtype);
  try {
    for (const size_t n : shape) bytes = bytes * n;
  } catch (const Error&) {
    malformed(file, tensor, fmt::format("the size of shape [{}] overflows 64 bits", fmt::join(shape, ", ")));
  }
  return bytes.value();
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxTensorName &&
         std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~'; });
}

SafeTensors SafeTensors::from_memory(std::span<const std::byte> file, const std::string& name) {
  std::string_view header = header_of(file, name);
  HeaderReader reader(name);
  read_json(header, name, reader, {.bytes = kMaxHeaderBytes, .depth = 8});
  SafeTensors result;
  result.tensors_ = place(reader.take_entries(), file.subspan(8 + header.size()), name);
  auto by_name = [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; };
  std::sort(result.tensors_.begin(), result.tensors_.end(), by_name);
  auto same = std::adjacent_find(result.tensors_.begin(), result.tensors_.end(),
                                 [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (same != result.tensors_.end())
    throw Error(fmt::format("{}: duplicate key {}", name, quote(same->name)));
  return result;
}

SafeTensors SafeTensors::open(const ModelFiles& files) {
  std::string file(files.only());
  if (file.empty()) file = weights_file(files);
  if (file.empty() && !files.exists())
    throw Error(fmt::format("cannot read {}: No such file or directory", files.name()),
                "check the path, from the folder you are in");
  if (file.empty())
    if (const auto several = tensorflow_checkpoints(files); !several.empty())
      throw several_checkpoints(files, several);
  if (file.empty())
    throw Error(fmt::format("no {} in {}", kWeightsFile, files.name()),
                "give a folder with config.json and model.safetensors in it");
  return file.ends_with(".index.json") ? open_shards(files, file) : open_file(files, file);
}

SafeTensors SafeTensors::with(std::vector<TensorInfo> tensors,
                              std::vector<std::vector<std::byte>> copies) && {
  std::ranges::sort(tensors, {}, &TensorInfo::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &TensorInfo::name);
  if (twice != tensors.end()) throw Error(fmt::format("two tensors are called {}", quote(twice->name)));
  tensors_ = std::move(tensors);
  std::ranges::move(copies, std::back_inserter(copies_));
  return std::move(*this);
}

SafeTensors SafeTensors::open_file(const ModelFiles& files, std::string_view file) {
  FileBytes bytes = files.read(file);
  SafeTensors result;
  if (is_torch_file(file)) {
    TorchTensors torch = torch_tensors(bytes.bytes, files.name_of(file));
    result.tensors_ = std::move(torch.tensors), result.copies_ = std::move(torch.copies);
  } else if (is_onnx_file(file)) {
    OnnxTensors all = onnx_tensors(files, file);
    result.tensors_ = std::move(all.tensors), result.files_ = std::move(all.files);
    result.copies_ = std::move(all.copies);
  } else if (is_tensorflow_index(file)) {
    TensorFlowTensors all = tensorflow_tensors(files, file);
    result.tensors_ = std::move(all.tensors), result.files_ = std::move(all.files);
  } else {
    result = from_memory(bytes.bytes, files.name_of(file));
  }
  result.files_.push_back(std::move(bytes));
  return result;
}

SafeTensors SafeTensors::open_shards(const ModelFiles& files, std::string_view index) {
  const std::string name = files.name_of(index);
  std::map<std::string, SafeTensors> shards;
  SafeTensors result;
  for (const auto& [tensor, shard_name] : weight_map(files, index)) {
    auto shard = shards.find(shard_name);
    if (shard == shards.end()) {
      if (shards.size() == kMaxShards) throw Error(fmt::format("{}: more than {} shards", name, kMaxShards));
      shard = shards.emplace(shard_name, open_file(files, shard_name)).first;
    }
    const TensorInfo* info = shard->second.find(tensor);
    if (!info) malformed(name, tensor, fmt::format("it is not in its shard {}", quote(shard_name)));
    result.tensors_.push_back(*info);  // in order: the map is sorted by name
  }
  for (auto& [_, shard] : shards) {
    std::move(shard.files_.begin(), shard.files_.end(), std::back_inserter(result.files_));
    std::move(shard.copies_.begin(), shard.copies_.end(), std::back_inserter(result.copies_));
  }
  return result;
}

const TensorInfo* SafeTensors::find(std::string_view name) const {
  auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                             [](const TensorInfo& info, std::string_view n) { return info.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::vector<std::byte> transposed(const TensorInfo& matrix) {
  const size_t rows = matrix.shape[0], cols = matrix.shape[1], size = size_of(matrix.dtype);
  std::vector<std::byte> out(matrix.data.size());
  if (out.empty()) return out;   // its shape may say anything
  constexpr size_t kBlock = 32;  // columns whose pieces stay in the cache
  for (size_t first = 0; first < cols; first += kBlock)
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = first; c < std::min(first + kBlock, cols); ++c)
        std::memcpy(&out[(c * rows + r) * size], &matrix.data[(r * cols + c) * size], size);
  return out;
}

namespace {

// Of I8: row by row, each with its scale.
void scaled_to_float(const TensorInfo& tensor, size_t first, std::span<float> out) {
  const auto* in = reinterpret_cast<const int8_t*>(tensor.data.data());
  const size_t width = tensor.shape.empty() ? 1 : std::max<size_t>(tensor.shape.back(), 1);
  for (size_t i = 0; i < out.size();) {
    const size_t row = (first + i) / width, end = std::min(out.size(), (row + 1) * width - first);
    float scale;
    std::memcpy(&scale, tensor.row_scales.data() + row * sizeof scale, sizeof scale);
    for (; i < end; ++i) out[i] = float(in[first + i]) * scale;
  }
}

}  // namespace

void to_float(const TensorInfo& tensor, size_t first, std::span<float> out) {
  if (first > tensor.elements() || out.size() > tensor.elements() - first)
    throw Error(fmt::format("tensor {} has {} elements; {} from {} on were asked for", quote(tensor.name),
                            tensor.elements(), out.size(), first));
  const std::byte* in = tensor.data.data() + first * size_of(tensor.dtype);
  switch (tensor.dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), in, out.size_bytes());
      return;
    case DType::kF16:
      return f16_to_float(in, out);
    case DType::kBF16:
      return bf16_to_float(in, out);
    case DType::kF64:
      for (size_t i = 0; i < out.size(); ++i) {
        double number;
        std::memcpy(&number, in + i * sizeof number, sizeof number);
        out[i] = float(number);
      }
      return;
    case DType::kI8:
      if (!tensor.row_scales.empty()) return scaled_to_float(tensor, first, out);
      [[fallthrough]];
    default:
      throw Error(fmt::format("tensor {} is {}; weights are F32, F16, BF16 or, quantized, I8",
                              quote(tensor.name), name_of(tensor.dtype)));
  }
}

void as_stored(const TensorInfo& tensor, size_t first, std::span<float> out) {
  if (tensor.dtype != DType::kI8 && tensor.dtype != DType::kI32) return to_float(tensor, first, out);
  const std::byte* in = tensor.data.data() + first * size_of(tensor.dtype);
  for (size_t i = 0; i < out.size(); ++i)
    if (int32_t number; tensor.dtype == DType::kI8) {
      out[i] = float(int8_t(in[i]));
    } else {
      std::memcpy(&number, in + i * sizeof number, sizeof number);
      out[i] = float(number);
    }
}

}  // namespace bertie::io
