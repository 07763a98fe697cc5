#pragma once
// GPT-2's pattern, which splits text into words, without a regular expression engine:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A word includes one space before it. Of a run of spaces the last belongs to the word after it; the others
// are a word of their own.
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/unicode/unicode.h"

namespace bertie::text {

inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class Gpt2Pattern {
 public:
  // Built on first use.
  static const Gpt2Pattern& get();

  // The end of the word that begins at p; p < end, valid UTF-8.
  const char* end_of_match(const char* p, const char* end) const {
    const char* q = p + (*p == ' ' && p + 1 < end);
    Classified next = classify(q, end);
    if (next.kind == CharKind::kSpace) return end_of_spaces(p, end);
    if (*p == '\'')
      if (size_t n = contraction(p, end)) return p + n;
    do {
      q += next.length;
      if (q == end) return q;
      CharKind before = next.kind;
      next = classify(q, end);
      if (next.kind != before) return q;
    } while (true);
  }

 private:
  struct Classified {
    CharKind kind;
    uint32_t length;
  };
  static constexpr uint32_t kShift = 7, kMask = (1u << kShift) - 1;

  Gpt2Pattern();
  Classified classify(const char* p, const char* end) const {
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

  // A two-level table, 128 code points a page; page 0 is ASCII.
  std::vector<uint16_t> pages_;
  std::vector<CharKind> entries_;
};

}  // namespace bertie::text
