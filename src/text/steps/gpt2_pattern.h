#pragma once
// The words of GPT-2's pattern, by hand:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A word takes the one space before it; of more spaces the last goes with the word, the others are a word.
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/unicode/unicode.h"

namespace bertie::text {

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class Gpt2Words {
 public:
  // One look-up a code point: two levels, 128 code points a page. Built once, const.
  static const Gpt2Words& get();

  // Where the word that begins at p ends; p < end, valid UTF-8.
  const char* end_of_word(const char* p, const char* end) const {
    const char* q = p + (*p == ' ' && p + 1 < end);
    Seen seen = look(q, end);
    if (seen.kind == Kind::kSpace) return end_of_spaces(p, end);
    if (*p == '\'')
      if (size_t n = contraction(p, end)) return p + n;
    do {
      q += seen.length;
      if (q == end) return q;
      Kind before = seen.kind;
      seen = look(q, end);
      if (seen.kind != before) return q;
    } while (true);
  }

 private:
  struct Seen {
    Kind kind;
    uint32_t length;
  };
  static constexpr uint32_t kShift = 7, kMask = (1u << kShift) - 1;

  Gpt2Words();
  Seen look(const char* p, const char* end) const {
    uint8_t byte = uint8_t(*p);
    if (byte < 0x80) return {entries_[byte], 1};
    auto [point, length] = decode_utf8(p, end);
    return {entries_[size_t{pages_[point >> kShift]} << kShift | (point & kMask)], length};
  }
  const char* end_of_spaces(const char* p, const char* end) const;
  static size_t contraction(const char* p, const char* end) {
    if (end - p < 2) return 0;
    char c = p[1];
    if (c == 's' || c == 't' || c == 'm' || c == 'd') return 2;
    if (end - p < 3) return 0;
    return ((c == 'r' || c == 'v') && p[2] == 'e') || (c == 'l' && p[2] == 'l') ? 3 : 0;
  }

  std::vector<uint16_t> pages_;
  std::vector<Kind> entries_;  // page 0 is ASCII
};

}  // namespace bertie::text
