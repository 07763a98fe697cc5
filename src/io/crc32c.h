#pragma once
// CRC-32C (Castagnoli), by which TensorFlow checks its files.
#include <bit>
#include <cstdint>
#include <string_view>

namespace bertie::io {

// `before` is the CRC of the bytes that come before these, if there are any.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

// A CRC of bytes that hold CRCs is weak; so those in files are rotated and shifted.
inline uint32_t masked_crc32c(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

}  // namespace bertie::io
