#include "text/unicode/unicode.h"

#include <algorithm>
#include <cstring>

#include "bertie/tokenizer.h"
#include "text/unicode/tables.h"

namespace bertie {

std::string_view text_at(std::string_view text, Offset offset) {
  const char *p = text.data(), *end = p + text.size();
  uint32_t index = 0;
  for (; p < end && index < offset.begin; ++index) p += text::decode_utf8(p, end).length;
  const char* begin = p;
  for (; p < end && index < offset.end; ++index) p += text::decode_utf8(p, end).length;
  return {begin, size_t(p - begin)};
}

namespace text {

uint8_t find_value(const FlagRun* runs, size_t count, uint32_t point) {
  const FlagRun* run =
      std::upper_bound(runs, runs + count, point, [](uint32_t p, const FlagRun& r) { return p < r.first; });
  return run != runs && point <= run[-1].last ? run[-1].value : 0;
}

uint8_t flags(uint32_t point) { return find_value(kFlagRuns, kFlagRunCount, point); }
CharKind char_kind(uint32_t point) { return CharKind(find_value(kKindRuns, kKindRunCount, point)); }
uint8_t combining_class(uint32_t point) { return find_value(kClassRuns, kClassRunCount, point); }

Mapped decompose_hangul(uint32_t syllable) {
  uint32_t s = syllable - kHangulFirst, tail = s % 28;
  return {tail ? 3u : 2u, {0x1100 + s / 588, 0x1161 + s % 588 / 28, 0x11A7 + tail}};
}

Mapped decompose(uint32_t point) {
  if (point >= kHangulFirst && point <= kHangulLast) return decompose_hangul(point);
  const Decomposition* end = kDecompositions + kDecompositionCount;
  const Decomposition* d = std::lower_bound(kDecompositions, end, point,
                                            [](const Decomposition& x, uint32_t p) { return x.point < p; });
  if (d == end || d->point != point) return {1, {point}};
  return {d->count, {d->parts[0], d->parts[1], d->parts[2], d->parts[3]}};
}

Mapped lower(uint32_t point) {
  if (point == 0x130) return {2, {'i', 0x307}};  // the only one that becomes two
  const LowerRun* run = std::upper_bound(kLowerRuns, kLowerRuns + kLowerRunCount, point,
                                         [](uint32_t p, const LowerRun& r) { return p < r.first; });
  if (run == kLowerRuns) return {1, {point}};
  --run;
  bool hit = point <= run->last && (point - run->first) % run->step == 0;
  return {1, {hit ? point - run->first + run->to : point}};
}

Decoded decode_utf8(const char* p, const char* end) {
  uint8_t lead = uint8_t(*p);
  if (lead < 0x80) return {lead, 1};
  uint32_t need, low = 0x80, high = 0xBF, point;
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 1, point = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 2, point = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;   // overlong forms
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 3, point = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // past U+10FFFF
  } else {
    return {kReplacement, 1};
  }
  uint32_t length = 1;
  for (; need > 0; --need, ++length, low = 0x80, high = 0xBF) {
    if (p + length >= end) return {kReplacement, length};
    uint8_t byte = uint8_t(p[length]);
    if (byte < low || byte > high) return {kReplacement, length};
    point = point << 6 | (byte & 0x3F);
  }
  return {point, length};
}

namespace {

// How many bytes from p on are ASCII, rounded down to a multiple of eight.
inline size_t ascii_run(const char* p, const char* end) {
  const char* start = p;
  for (uint64_t eight; end - p >= 8; p += 8) {
    std::memcpy(&eight, p, 8);
    if (eight & 0x8080808080808080) break;
  }
  return size_t(p - start);
}

}  // namespace

size_t last_point(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return begin;
}

size_t trailing_whitespace(std::string_view text) {
  size_t size = text.size();
  while (size > 0) {
    const size_t last = last_point(text.substr(0, size));
    if (!is_whitespace(decode_utf8(text.data() + last, text.data() + size).point)) break;
    size = last;
  }
  return text.size() - size;
}

size_t count_points(std::string_view text) {
  size_t count = 0;
  for (const char *p = text.data(), *end = p + text.size(); p < end; ++count) {
    size_t ascii = ascii_run(p, end);
    p += ascii, count += ascii;
    if (p == end) break;
    p += decode_utf8(p, end).length;
  }
  return count;
}

bool valid_utf8(std::string_view text) {
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    p += ascii_run(p, end);
    if (p == end) break;
    Decoded d = decode_utf8(p, end);
    if (d.point == kReplacement && !(d.length == 3 && uint8_t(p[0]) == 0xEF && uint8_t(p[1]) == 0xBF))
      return false;
    p += d.length;
  }
  return true;
}

void replace_invalid(std::string_view text, std::string& out) {
  out.clear();
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    Decoded d = decode_utf8(p, end);
    char utf8[4];
    out.append(utf8, encode_utf8(d.point, utf8));
    p += d.length;
  }
}

}  // namespace text
}  // namespace bertie
