#pragma once
// Safetensors files made by hand, right or wrong.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace bertie::test {

// Header length, header, data; `length` overrides what the file claims.
inline std::string safetensors_file(std::string_view header, std::string_view data, uint64_t length) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}
inline std::string safetensors_file(std::string_view header, std::string_view data = {}) {
  return safetensors_file(header, data, header.size());
}

// A file with one tensor of bytes.
inline std::string file_of_bytes(std::string_view bytes) {
  const std::string size = std::to_string(bytes.size());
  return safetensors_file(
      R"({"bytes":{"dtype":"U8","shape":[)" + size + R"(],"data_offsets":[0,)" + size + "]}}", bytes);
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Four tensors of several types and ranks, one of them empty and one a scalar, after a header of odd length.
inline std::string valid_safetensors_file() {
  std::string header = R"({"__metadata__":{"format":"pt"},)"
                       R"("b.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
                       R"("a.scalar":{"dtype":"F16","shape":[],"data_offsets":[0,2]},)"
                       R"("c.empty":{"dtype":"BF16","shape":[0,7],"data_offsets":[26,26]},)"
                       R"("d.ids":{"dtype":"I64","shape":[1,2],"data_offsets":[26,42]}} )";
  if (header.size() % 2 == 0) header += ' ';
  std::string data(42, '\0');
  const uint16_t half = 0x3E00;  // 1.5
  const float weights[6] = {0, 1, 2, 3, 4, 5};
  std::memcpy(data.data(), &half, 2);
  std::memcpy(data.data() + 2, weights, 24);
  return safetensors_file(header, data);
}

}  // namespace bertie::test
