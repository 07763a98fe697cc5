#include "text/unicode/forms.h"

#include <algorithm>

#include "text/unicode/tables.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

constexpr uint32_t kJoiner = 0x200D;
constexpr uint32_t kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailBefore = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28;

// Unicode's Hangul_Syllable_Type: a jamo (L, V, T) or a syllable (LV, LVT).
enum class HangulType : uint8_t { kNone, kL, kV, kT, kLV, kLVT };
HangulType hangul_type(uint32_t c) {
  if (c < 0x1100 || c > 0xD7FB) return HangulType::kNone;
  if (c <= 0x115F || (c >= 0xA960 && c <= 0xA97C)) return HangulType::kL;
  if (c <= 0x11A7 || (c >= 0xD7B0 && c <= 0xD7C6)) return HangulType::kV;
  if (c <= 0x11FF || c >= 0xD7CB) return HangulType::kT;
  if (c >= kHangulFirst && c <= kHangulLast)
    return (c - kHangulFirst) % kTails == 0 ? HangulType::kLV : HangulType::kLVT;
  return HangulType::kNone;
}

bool same_syllable(HangulType before, HangulType after) {
  switch (before) {
    case HangulType::kL:
      return after != HangulType::kNone && after != HangulType::kT;
    case HangulType::kV:
    case HangulType::kLV:
      return after == HangulType::kV || after == HangulType::kT;
    case HangulType::kT:
    case HangulType::kLVT:
      return after == HangulType::kT;
    case HangulType::kNone:
      return false;
  }
  return false;
}

bool same_cluster(uint32_t before, GraphemeBreak kind_before, uint32_t after, GraphemeBreak kind,
                  bool after_pictograph) {
  if (before == '\r' && after == '\n') return true;
  if (kind_before == GraphemeBreak::kControl || kind == GraphemeBreak::kControl) return false;
  if (kind == GraphemeBreak::kExtend || kind_before == GraphemeBreak::kPrepend) return true;
  if (before == kJoiner && kind == GraphemeBreak::kPictographic) return after_pictograph;
  return same_syllable(hangul_type(before), hangul_type(after));
}

}  // namespace

size_t decompose_into(uint32_t point, bool compatibility, uint32_t (&parts)[kMaxParts]) {
  if (compatibility) {
    const Compatible* end = kCompatible + kCompatibleCount;
    const Compatible* c = std::lower_bound(kCompatible, end, point,
                                           [](const Compatible& x, uint32_t p) { return x.point < p; });
    if (c != end && c->point == point) {
      std::copy_n(kCompatibleParts + c->place, c->count, parts);
      return c->count;
    }
  }
  const Mapped mapped = decompose(point);
  std::copy_n(mapped.points.begin(), mapped.count, parts);
  return mapped.count;
}

void append_parts(uint32_t point, bool compatibility, std::vector<uint64_t>& parts) {
  if (point < 0x80) return parts.push_back(uint64_t{parts.size()} << 22 | point);
  uint32_t points[kMaxParts];
  const size_t count = decompose_into(point, compatibility, points);
  for (size_t i = 0; i < count; ++i)
    parts.push_back(uint64_t{combining_class(points[i])} << 54 | uint64_t{parts.size()} << 22 |
                    (i > 0 ? kInsertedPart : 0) | points[i]);
}

void sort_marks(std::vector<uint64_t>& parts) {
  auto is_mark = [](uint64_t part) { return part >> 54 != 0; };
  for (auto first = parts.begin(); first != parts.end();) {
    first = std::find_if(first, parts.end(), is_mark);
    auto last = std::find_if_not(first, parts.end(), is_mark);
    std::sort(first, last);
    first = last;
  }
}

uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLeadFirst < kLeads && second - kVowelFirst < kVowels)
    return kHangulFirst + ((first - kLeadFirst) * kVowels + (second - kVowelFirst)) * kTails;
  if (hangul_type(first) == HangulType::kLV && second - kTailBefore - 1 < kTails - 1)
    return first + (second - kTailBefore);
  const Composition* end = kCompositions + kCompositionCount;
  const Composition* c = std::lower_bound(kCompositions, end, 0, [&](const Composition& x, int) {
    return x.first != first ? x.first < first : x.second < second;
  });
  return c != end && c->first == first && c->second == second ? c->composed : 0;
}

bool composes_with_previous(uint32_t point) {
  if (hangul_type(point) == HangulType::kV || hangul_type(point) == HangulType::kT) return true;
  return std::any_of(kCompositions, kCompositions + kCompositionCount,
                     [&](const Composition& c) { return c.second == point; });
}

GraphemeBreak grapheme_break(uint32_t point) {
  return GraphemeBreak(find_value(kClusterRuns, kClusterRunCount, point));
}

bool is_own_cluster(uint32_t point) {
  const GraphemeBreak kind = grapheme_break(point);
  if (point == '\r' || kind == GraphemeBreak::kExtend || kind == GraphemeBreak::kPrepend) return false;
  const HangulType type = hangul_type(point);
  return type == HangulType::kNone || type == HangulType::kLV || type == HangulType::kLVT;
}

size_t cluster_length(std::string_view text) {
  const char *p = text.data(), *end = p + text.size();
  // The common case: two ASCII characters are two clusters.
  if (uint8_t(*p) < 0x80 && (text.size() == 1 || (uint8_t(p[1]) < 0x80 && *p != '\r'))) return 1;
  auto [before, length] = decode_utf8(p, end);
  GraphemeBreak kind_before = grapheme_break(before);
  bool after_pictograph = kind_before == GraphemeBreak::kPictographic;
  for (p += length; p < end; p += length) {
    auto [point, size] = decode_utf8(p, end);
    const GraphemeBreak kind = grapheme_break(point);
    if (!same_cluster(before, kind_before, point, kind, after_pictograph)) break;
    if (kind != GraphemeBreak::kExtend) after_pictograph = kind == GraphemeBreak::kPictographic;
    before = point, kind_before = kind, length = size;
  }
  return size_t(p - text.data());
}

}  // namespace bertie::text
