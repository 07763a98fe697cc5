#pragma once
// UTF-8, and the properties of code points as Hugging Face's tokenizers sees them. Properties are found by
// binary search: good enough for building tables and for rare text. segmenters/bert_char_table.h and
// steps/gpt2_pattern.h are the fast tables.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bertie::text {

// Properties of a code point. The same bits are in tools/extract_unicode.py.
enum Flag : uint8_t {
  kDrop = 1,         // removed by clean_text
  kSpace = 2,        // replaced by ' ' by clean_text
  kPunct = 4,        // a word of its own
  kCjk = 8,          // gets spaces around it
  kMark = 16,        // Mn: removed by BertNormalizer's strip_accents
  kWordChar = 32,    // \w, for added tokens with single_word
  kRawSpace = 64,    // whitespace in text that was not cleaned
  kCombining = 128,  // any mark: removed by the StripAccents normalizer
};

// The classes of GPT-2's pattern: \p{L}, \p{N}, \s, or none of these.
enum class CharKind : uint8_t { kOther, kLetter, kNumber, kSpace };

inline constexpr uint32_t kReplacement = 0xFFFD;
inline constexpr uint32_t kPoints = 0x110000;

uint8_t flags(uint32_t point);
CharKind char_kind(uint32_t point);
uint8_t combining_class(uint32_t point);
inline bool is_whitespace(uint32_t point) {
  return point < 0x80 ? point == ' ' || (point >= '\t' && point <= '\r') : (flags(point) & kRawSpace) != 0;
}

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
  uint32_t point;   // U+FFFD for invalid bytes
  uint32_t length;  // bytes, at least 1
};
// The code point at `p`, p < end. Invalid bytes give one U+FFFD for each maximal prefix of a valid sequence,
// as Unicode recommends and Python's errors="replace" does.
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

template <class Visit>
void for_each_point(std::string_view text, const Visit& visit) {
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    auto [point, length] = decode_utf8(p, end);
    visit(point);
    p += length;
  }
}

// How many bytes the code points take that the text begins with and for which is() is true.
template <class Is>
size_t leading_run(std::string_view text, const Is& is) {
  const char *p = text.data(), *end = p + text.size();
  while (p < end) {
    auto [point, length] = decode_utf8(p, end);
    if (!is(point)) break;
    p += length;
  }
  return size_t(p - text.data());
}
inline size_t leading_whitespace(std::string_view text) { return leading_run(text, is_whitespace); }
size_t trailing_whitespace(std::string_view text);  // in bytes

// Where the last code point of a text that is not empty begins.
size_t last_point(std::string_view text);

size_t count_points(std::string_view text);
bool valid_utf8(std::string_view text);
// The text with U+FFFD for invalid bytes, as decode_utf8 reads it.
void replace_invalid(std::string_view text, std::string& out);

}  // namespace bertie::text
