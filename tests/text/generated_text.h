#pragma once
// Texts and digests that tools/tokenizer_reference.py makes alike, so that a few committed numbers stand
// for what the reference says about megabytes of text.
#include <cstdint>
#include <string>
#include <vector>

#include "bertie/tokenizer.h"
#include "text/unicode/unicode.h"

namespace bertie::test {

inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix64(state_ += 0x9E3779B97F4A7C15); }
  uint32_t below(uint32_t n) { return uint32_t((next() >> 32) * n >> 32); }

 private:
  uint64_t state_;
};

inline void append_point(std::string& text, uint32_t point) {
  char utf8[4];
  text.append(utf8, text::encode_utf8(point, utf8));
}

inline std::string generated_text(uint64_t seed) {
  static constexpr uint32_t kScripts[][2] = {
      {0x61, 0x7A},       {0x61, 0x7A},       {0x41, 0x7A},       {0x30, 0x39},       {0x21, 0x7E},
      {0x00, 0x7F},       {0xA0, 0xFF},       {0x80, 0x24F},      {0x1E00, 0x1EFF},   {0x370, 0x3FF},
      {0x1F00, 0x1FFF},   {0x400, 0x52F},     {0x530, 0x5FF},     {0x600, 0x6FF},     {0x900, 0x9FF},
      {0xE00, 0xEFF},     {0x1100, 0x11FF},   {0x1B00, 0x1BFF},   {0x2000, 0x206F},   {0x2070, 0x2BFF},
      {0x3000, 0x30FF},   {0x4E00, 0x9FFF},   {0xA900, 0xAAFF},   {0xAC00, 0xD7A3},   {0xE000, 0xF8FF},
      {0xF900, 0xFAFF},   {0xFB00, 0xFFFF},   {0x11000, 0x114FF}, {0x1D150, 0x1D1FF}, {0x1D400, 0x1D7FF},
      {0x1F300, 0x1FAFF}, {0x20000, 0x2FA1F}, {0, 0xFFFF},        {0, 0x10FFFF},
  };
  static constexpr uint32_t kMarks[][2] = {
      {0x300, 0x36F}, {0x591, 0x5C7}, {0x1D165, 0x1D172}, {0x302A, 0x302F}, {0x1B34, 0x1B44}};
  static constexpr const char* kSeparators[] = {"", "\t", ", ", "\u00a0", "\u3000", "\n"};
  static constexpr const char* kWritten[] = {"[MASK]", "[CLS]",  "[SEP]", "[UNK]",
                                             "[PAD]",  "[mask]", "[MAS",  "[[SEP]]"};
  SplitMix r(seed);
  std::string out;
  for (uint32_t words = 1 + r.below(24); words > 0; --words) {
    if (r.below(40) == 0) {
      out += kWritten[r.below(std::size(kWritten))];
    } else {
      auto& script = kScripts[r.below(std::size(kScripts))];
      for (uint32_t length = 1 + r.below(r.below(100) == 0 ? 110 : 9); length > 0; --length) {
        auto& range = r.below(8) ? script : kMarks[r.below(std::size(kMarks))];
        uint32_t c = range[0] + r.below(range[1] - range[0] + 1);
        append_point(out, c >= 0xD800 && c <= 0xDFFF ? '?' : c);
      }
    }
    uint32_t s = r.below(12);
    out += s < std::size(kSeparators) ? kSeparators[s] : " ";
  }
  return out;
}

// Python's str.isspace(): these cannot stand alone on a line.
inline bool is_python_space(uint32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

inline bool is_surrogate(uint32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// Every code point as a word and as a continuation: ids then show what each became.
inline std::string every_point_vocab() {
  std::string out = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const char* prefix : {"", "##"})
    for (uint32_t c = 1; c < text::kPoints; ++c) {
      if (is_surrogate(c) || is_python_space(c)) continue;
      out += prefix;
      append_point(out, c);
      out += '\n';
    }
  return out;
}

// Over the words n, ids, offsets of every encoding in turn.
class Digest {
 public:
  void add(const Encoding& e) {
    word(uint32_t(e.size()));
    for (int32_t id : e.ids) word(uint32_t(id));
    for (Offset o : e.offsets) word(o.begin), word(o.end);
  }
  uint64_t value() const { return sum_; }

 private:
  void word(uint32_t w) { sum_ += mix64(w + ++count_ * 0x9E3779B97F4A7C15); }
  uint64_t sum_ = 0, count_ = 0;
};

}  // namespace bertie::test
