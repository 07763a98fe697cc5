#include "io/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/half.h"
#include "io/json.h"
#include "io/zip.h"

namespace bertie::io {
namespace {

struct Type {
  std::string_view descr;
  DType dtype;
};
constexpr std::array<Type, 12> kTypes{{{"<f4", DType::kF32},
                                       {"<f2", DType::kF16},
                                       {"<f8", DType::kF64},
                                       {"<i8", DType::kI64},
                                       {"<i4", DType::kI32},
                                       {"<i2", DType::kI16},
                                       {"|i1", DType::kI8},
                                       {"<u8", DType::kU64},
                                       {"<u4", DType::kU32},
                                       {"<u2", DType::kU16},
                                       {"|u1", DType::kU8},
                                       {"|b1", DType::kBool}}};

[[noreturn]] void fail(const std::string& file, const std::string& tensor, const std::string& problem,
                       const std::string& hint = {}) {
  throw Error(fmt::format("{}: tensor {}: {}", file, quote(tensor), problem), hint);
}

// The Python dictionary of an .npy header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Header {
 public:
  Header(std::string_view text, const std::string& file, NpzTensor& tensor)
      : rest_(text), file_(file), tensor_(tensor) {}

  void read() {
    expect('{');
    unsigned seen = 0;
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const unsigned field = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (field == 0 || seen & field) wrong();
      seen |= field;
      if (field == 1) dtype();
      if (field == 2) tensor_.fortran_order = boolean();
      if (field == 4) shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (seen != 7 || !rest_.empty()) wrong();
  }

 private:
  [[noreturn]] void wrong() const {
    fail(file_, tensor_.name, "its .npy header is not one that NumPy writes");
  }
  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) wrong();
  }
  std::string string() {
    skip_spaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) wrong();
    const size_t end = rest_.find(rest_[0], 1);
    if (end == rest_.npos) wrong();
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_spaces();
    for (bool value : {false, true})
      if (const std::string_view word = value ? "True" : "False"; rest_.starts_with(word))
        return rest_.remove_prefix(word.size()), value;
    wrong();
  }
  void dtype() {
    skip_spaces();
    if (rest_.starts_with('['))
      fail(file_, tensor_.name, "an array of records; only arrays of numbers are read");
    const std::string descr = string();
    if (descr.find('O') != descr.npos)
      fail(file_, tensor_.name, "it holds Python objects, a pickle, which can run code and is never read");
    const auto type =
        std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& t) { return t.descr == descr; });
    if (type == kTypes.end())
      fail(file_, tensor_.name, fmt::format("its type {} is not one that is read", quote(descr)),
           "save it as float32: array.astype('<f4')");
    tensor_.dtype = type->dtype;
  }
  void shape() {
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      size_t n;
      if (!parse_number(rest_.substr(0, digits), n)) wrong();
      if (tensor_.shape.size() == kMaxRank)
        fail(file_, tensor_.name, fmt::format("more than {} dimensions", kMaxRank));
      tensor_.shape.push_back(n);
      rest_.remove_prefix(digits);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view rest_;
  const std::string& file_;
  NpzTensor& tensor_;
};

ZipEntry entry_of(const NpzTensor& t) {
  return {.name = t.name, .packed = t.packed, .deflated = t.deflated, .bytes = t.bytes, .crc = t.crc};
}

NpzTensor open_tensor(const ZipEntry& entry, const std::string& file) {
  constexpr std::string_view kSuffix = ".npy", kMagic = "\x93NUMPY";
  constexpr size_t kLongestHeader = size_t{1} << 16;
  NpzTensor t;
  t.name = entry.name;
  if (!t.name.ends_with(kSuffix))
    fail(file, t.name, "it is not an .npy file; is this an .npz that NumPy wrote?");
  t.name.resize(t.name.size() - kSuffix.size());
  if (t.name.empty()) fail(file, t.name, "it has no name");
  if (entry.bytes > kMaxNpzTensorBytes)
    fail(file, t.name, fmt::format("{} bytes, more than the limit of {}", entry.bytes, kMaxNpzTensorBytes));
  t.packed = entry.packed, t.deflated = entry.deflated, t.bytes = size_t(entry.bytes), t.crc = entry.crc;

  std::string start(12, '\0');
  const auto bytes_of = [](std::string& s) { return std::as_writable_bytes(std::span(s)); };
  if (t.bytes < start.size()) fail(file, t.name, "it is too short for an .npy file");
  unzip(entry, bytes_of(start), file);
  const int version = start[6];
  if (!start.starts_with(kMagic) || version < 1 || version > 3) fail(file, t.name, "it is not an .npy file");
  uint32_t length = 0;
  std::memcpy(&length, start.data() + 8, version == 1 ? 2 : 4);
  const size_t prefix = version == 1 ? 10 : 12;
  if (length > kLongestHeader || length > t.bytes - prefix) fail(file, t.name, "its .npy header is too long");
  t.header = prefix + length;
  start.resize(t.header);
  unzip(entry, bytes_of(start), file);
  Header(std::string_view(start).substr(prefix), file, t).read();

  Checked bytes = size_of(t.dtype), elements = 1;
  try {
    for (size_t n : t.shape) bytes = bytes * n, elements = elements * n;
  } catch (const Error&) {
    fail(file, t.name, fmt::format("the size of shape ({}) overflows 64 bits", fmt::join(t.shape, ", ")));
  }
  if (bytes.value() != t.bytes - t.header)
    fail(file, t.name,
         fmt::format("shape ({}) of {} is {} bytes, but its data has {}", fmt::join(t.shape, ", "),
                     name_of(t.dtype), bytes.value(), t.bytes - t.header));
  t.elements = size_t(elements.value());
  return t;
}

// Element i in row-major order is at place[...] in column-major order: out[i] = in[place of i].
std::vector<float> from_fortran_order(const std::vector<float>& in, const std::vector<size_t>& shape) {
  std::vector<float> out(in.size());
  std::vector<size_t> index(shape.size()), stride(shape.size());
  for (size_t d = 0, step = 1; d < shape.size(); step *= shape[d++]) stride[d] = step;
  size_t at = 0;
  for (float& x : out) {
    x = in[at];
    for (size_t d = shape.size(); d-- > 0;) {
      at += stride[d];
      if (++index[d] < shape[d]) break;
      at -= stride[d] * shape[d], index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Npz Npz::from_memory(std::span<const std::byte> file, const std::string& name) {
  Npz result;
  result.name_ = name;
  Checked total = 0;
  for (const ZipEntry& entry : zip_entries(file, name)) {
    result.tensors_.push_back(open_tensor(entry, name));
    total = total + entry.bytes;
    if (total > kMaxNpzBytes)
      throw Error(fmt::format("{}: its tensors have more than {} bytes together", name, kMaxNpzBytes));
  }
  auto by_name = [](const NpzTensor& a, const NpzTensor& b) { return a.name < b.name; };
  std::sort(result.tensors_.begin(), result.tensors_.end(), by_name);
  auto same = std::adjacent_find(result.tensors_.begin(), result.tensors_.end(),
                                 [](const NpzTensor& a, const NpzTensor& b) { return a.name == b.name; });
  if (same != result.tensors_.end()) fail(name, same->name, "it is there twice");
  return result;
}

Npz Npz::open(const std::filesystem::path& path) {
  MappedFile file(path);
  Npz result = from_memory(file.bytes(), path.string());
  result.files_.push_back(std::move(file));
  return result;
}

const NpzTensor* Npz::find(std::string_view name) const {
  auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                             [](const NpzTensor& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

std::vector<float> Npz::read(const NpzTensor& t) const {
  if (t.dtype != DType::kF32 && t.dtype != DType::kF16 && t.dtype != DType::kF64)
    fail(name_, t.name, fmt::format("it is {}; weights are float16, float32 or float64", name_of(t.dtype)));
  std::vector<std::byte> room;
  const std::byte* in = unzip(entry_of(t), room, name_).data() + t.header;
  std::vector<float> out(t.elements);
  if (t.dtype == DType::kF16) {
    f16_to_float(in, out);
  } else if (t.dtype == DType::kF32) {
    if (!out.empty()) std::memcpy(out.data(), in, out.size() * sizeof(float));
  } else {
    for (size_t i = 0; i < out.size(); ++i) {
      double value;
      std::memcpy(&value, in + i * sizeof value, sizeof value);
      out[i] = static_cast<float>(value);
    }
  }
  return t.fortran_order ? from_fortran_order(out, t.shape) : out;
}

}  // namespace bertie::io
