#include "io/base64.h"

#include <cstdint>

namespace bertie::io {

std::string base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; ++j) three = three << 8 | (i + j < bytes.size() ? uint32_t(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kDigits[three >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace bertie::io
