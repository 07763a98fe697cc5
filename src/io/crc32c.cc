#include "io/crc32c.h"

#include <array>
#include <cstring>

namespace bertie::io {
namespace {

// kTables[n][b]: what byte b does to the sum when n bytes follow it. With eight of them eight bytes are taken
// at once.
constexpr std::array<std::array<uint32_t, 256>, 8> kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    tables[0][i] = c;
  }
  for (size_t n = 1; n < 8; ++n)
    for (size_t i = 0; i < 256; ++i)
      tables[n][i] = tables[n - 1][i] >> 8 ^ tables[0][tables[n - 1][i] & 0xFF];
  return tables;
}();

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t next;
    std::memcpy(&next, bytes.data(), 8);  // the first byte is the lowest: little-endian, as all machines here
    next ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][next >> 8 * i & 0xFF];
  }
  for (const char c : bytes) crc = crc >> 8 ^ kTables[0][(crc ^ uint8_t(c)) & 0xFF];
  return ~crc;
}

}  // namespace bertie::io
