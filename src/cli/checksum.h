#pragma once
// A checksum that tells one text from another; it is not against those who want to deceive.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bertie::cli {

// FNV-1a, with the length behind each text, so that "ab", "c" is not "a", "bc". `before` is the sum of what
// came before.
inline uint64_t sum_of(std::string_view text, uint64_t before = 0xcbf29ce484222325) {
  const auto add = [&](uint8_t byte) { before = (before ^ byte) * 0x100000001b3; };
  for (const char c : text) add(uint8_t(c));
  for (size_t length = text.size(), i = 0; i < sizeof length; ++i, length >>= 8) add(uint8_t(length));
  return before;
}

}  // namespace bertie::cli
