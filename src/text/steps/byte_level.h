#pragma once
// Byte-level BPE writes every byte as a printable code point ("Ġ" for a space), so that a vocabulary is text.
#include <cstdint>
#include <string>
#include <string_view>

namespace bertie::text {

// The code point (below U+0144) that stands for a byte.
uint32_t byte_level_point(uint8_t byte);
// The byte that a code point stands for; -1 if none.
int byte_level_byte(uint32_t point);
// The bytes that byte-level text stands for; false if a code point stands for none.
bool byte_level_bytes(std::string_view text, std::string& out);

}  // namespace bertie::text
