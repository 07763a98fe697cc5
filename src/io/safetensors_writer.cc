#include "io/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/atomic_file.h"
#include "io/half.h"
#include "io/json.h"

namespace bertie::io {
namespace {

struct Placed {
  const TensorSource* source;
  DType dtype;
  uint64_t elements;
};

[[noreturn]] void fail(const std::filesystem::path& file, const TensorSource& tensor,
                       const std::string& problem) {
  throw Error(fmt::format("cannot write {}: tensor {}: {}", file.string(), quote(tensor.name), problem));
}

bool is_utf8(const std::string& text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

// In the order of the file.
std::vector<Placed> place(const std::filesystem::path& file, DType dtype,
                          std::span<const TensorSource> tensors) {
  std::vector<Placed> placed;
  placed.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) {
    const DType type = tensor.dtype.value_or(dtype);
    constexpr DType kWritten[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI32};
    if (std::find(std::begin(kWritten), std::end(kWritten), type) == std::end(kWritten))
      fail(file, tensor,
           fmt::format("{} is not a type to write; F32, F16, BF16, I8 and I32 are", name_of(type)));
    if (!is_utf8(tensor.name)) fail(file, tensor, "its name is not UTF-8");
    if (tensor.name == "__metadata__") fail(file, tensor, "the format keeps this name for itself");
    Checked elements = 1;
    for (size_t n : tensor.shape) elements = elements * n;
    placed.push_back({&tensor, type, elements.value()});
  }
  std::set<std::string_view> names;
  for (const Placed& p : placed)
    if (!names.insert(p.source->name).second) fail(file, *p.source, "it is there twice");
  // safetensors orders types by width; among those of one width BF16 comes after F16.
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.source->name < b.source->name;
  });
  return placed;
}

// The 8 bytes of length and the JSON.
std::string header_of(const std::vector<Placed>& placed) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  Checked at = 0;
  for (const Placed& p : placed) {
    const Checked end = at + Checked(p.elements) * size_of(p.dtype);
    json += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        nlohmann::json(p.source->name).dump(), name_of(p.dtype),
                        fmt::join(p.source->shape, ","), at.value(), end.value());
    at = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  return header + json;
}

// A number that was finite must not become infinite without a word: the model would answer with NaN.
void check_range(const std::filesystem::path& file, const Placed& p, uint64_t first,
                 std::span<const float> numbers) {
  // The first number that rounds to infinity: half a unit beyond the largest, 65504 and 0x1.FEp127.
  const float limit = p.dtype == DType::kF16 ? 65520.f : 0x1.FFp127f;
  const auto lost = std::find_if(numbers.begin(), numbers.end(), [&](float x) {
    return std::fabs(x) >= limit && std::fabs(x) <= std::numeric_limits<float>::max();
  });
  if (lost == numbers.end()) return;
  throw Error(
      fmt::format("cannot write {}: tensor {}: element {} is {}, too large for {}", file.string(),
                  quote(p.source->name), first + uint64_t(lost - numbers.begin()), *lost, name_of(p.dtype)),
      p.dtype == DType::kF16 ? "bfloat16, which has room for it" : "float32");
}

// Whole numbers as such; the caller has seen to it that they fit.
std::span<const std::byte> integers(DType type, std::span<const float> numbers, std::vector<std::byte>& to) {
  to.resize(numbers.size() * size_of(type));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = int32_t(numbers[i]);
    const auto byte = int8_t(number);
    if (type == DType::kI8)
      std::memcpy(to.data() + i, &byte, 1);
    else
      std::memcpy(to.data() + i * sizeof number, &number, sizeof number);
  }
  return to;
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, DType dtype,
                       std::span<const TensorSource> tensors) {
  const std::vector<Placed> placed = place(file, dtype, tensors);
  AtomicFile out(file);
  out.write(header_of(placed));
  std::vector<float> numbers(kWriteElements);
  std::vector<std::byte> halves(kWriteElements * 2), narrow;
  for (const Placed& p : placed)
    for (uint64_t first = 0; first < p.elements; first += kWriteElements) {
      const std::span<float> piece =
          std::span(numbers).first(size_t(std::min<uint64_t>(kWriteElements, p.elements - first)));
      p.source->read(size_t(first), piece);
      if (p.dtype == DType::kF32) {
        out.write(std::as_bytes(piece));
        continue;
      }
      if (p.dtype == DType::kI8 || p.dtype == DType::kI32) {
        out.write(integers(p.dtype, piece, narrow));
        continue;
      }
      check_range(file, p, first, piece);
      (p.dtype == DType::kF16 ? float_to_f16 : float_to_bf16)(piece, halves.data());
      out.write(std::span(halves).first(2 * piece.size()));
    }
  out.commit();
}

}  // namespace bertie::io
