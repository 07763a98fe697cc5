#include "text/steps/byte_level.h"

#include <array>

#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

// Printable bytes stand for themselves; the others, in order, are U+0100 and the code points that follow.
constexpr bool is_printable(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<uint16_t, 256> points{};
  std::array<int16_t, 0x144> bytes{};
};
constexpr Tables kTables = [] {
  Tables t;
  t.bytes.fill(-1);
  uint16_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) {
    t.points[b] = is_printable(b) ? uint16_t(b) : next++;
    t.bytes[t.points[b]] = int16_t(b);
  }
  return t;
}();

}  // namespace

uint32_t byte_level_point(uint8_t byte) { return kTables.points[byte]; }
int byte_level_byte(uint32_t point) { return point < kTables.bytes.size() ? kTables.bytes[point] : -1; }

bool byte_level_bytes(std::string_view text, std::string& out) {
  out.clear();
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    auto [point, length] = decode_utf8(p, end);
    int byte = byte_level_byte(point);
    if (byte < 0) return false;
    out.push_back(char(byte));
    p += length;
  }
  return true;
}

}  // namespace bertie::text
