#pragma once
// Code points as Hugging Face's tokenizers sees them, and UTF-8. The functions over tables are binary
// searches: right for building tables and for rare text. The fast road uses text/segmenters/bert_char_table.h.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bertie::text {

// What a code point is. The same bits are in tools/extract_unicode.py.
enum Flag : uint8_t {
  kDrop = 1,         // taken out by clean_text
  kSpace = 2,        // made ' ' by clean_text
  kPunct = 4,        // a word of its own
  kCjk = 8,          // gets spaces around it
  kMark = 16,        // Mn: taken out by strip_accents
  kWordChar = 32,    // \w, for added tokens that must be single words
  kRawSpace = 64,    // splits words where the text was not cleaned
  kCombining = 128,  // any mark: taken out by the normalizer StripAccents
};

// What GPT-2's pattern takes a code point for: \p{L}, \p{N}, \s, or none of these.
enum class Kind : uint8_t { kOther, kLetter, kNumber, kSpace };

inline constexpr uint32_t kReplacement = 0xFFFD;
inline constexpr uint32_t kPoints = 0x110000;

uint8_t flags(uint32_t point);
Kind kind(uint32_t point);
uint8_t combining_class(uint32_t point);

// One code point's canonical decomposition, or its lower case; itself if it has none. `count` is 1 to 4.
struct Mapped {
  uint32_t count;
  std::array<uint32_t, 4> points;
};
Mapped decompose(uint32_t point);
Mapped lower(uint32_t point);

inline constexpr uint32_t kHangulFirst = 0xAC00, kHangulLast = 0xD7A3;
Mapped decompose_hangul(uint32_t syllable);

struct Decoded {
  uint32_t point;   // U+FFFD for bytes that are not UTF-8
  uint32_t length;  // bytes, at least 1
};
// The code point at `p`, p < end. Bytes that are not UTF-8 give U+FFFD for each maximal part of a sequence
// that was well begun, as Unicode recommends and Python's errors="replace" does.
Decoded decode_utf8(const char* p, const char* end);

// Writes 1 to 4 bytes and returns how many.
inline size_t encode_utf8(uint32_t point, char* out) {
  if (point < 0x80) return out[0] = char(point), 1;
  if (point < 0x800) return out[0] = char(0xC0 | point >> 6), out[1] = char(0x80 | (point & 63)), 2;
  if (point < 0x10000) {
    out[0] = char(0xE0 | point >> 12), out[1] = char(0x80 | (point >> 6 & 63)),
    out[2] = char(0x80 | (point & 63));
    return 3;
  }
  out[0] = char(0xF0 | point >> 18), out[1] = char(0x80 | (point >> 12 & 63));
  out[2] = char(0x80 | (point >> 6 & 63)), out[3] = char(0x80 | (point & 63));
  return 4;
}

inline bool is_continuation(char byte) { return (uint8_t(byte) & 0xC0) == 0x80; }

size_t count_points(std::string_view text);
bool valid_utf8(std::string_view text);
// The text with U+FFFD for bytes that are not UTF-8, as decode_utf8 reads it.
void replace_invalid(std::string_view text, std::string& out);

}  // namespace bertie::text
