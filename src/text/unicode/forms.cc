#include "text/unicode/forms.h"

#include <algorithm>

#include "text/unicode/unicode.h"
#include "text/unicode/tables.h"

namespace bertie::text {
namespace {

constexpr uint32_t kJoiner = 0x200D;
constexpr uint32_t kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailBefore = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTails = 28;

// The parts of a Hangul syllable.
enum class Jamo : uint8_t {
  kNone,
  kLead,
  kVowel,
  kTail,
  kOpen,
  kClosed
};  // kOpen: a syllable without a tail
Jamo jamo(uint32_t c) {
  if (c < 0x1100 || c > 0xD7FB) return Jamo::kNone;
  if (c <= 0x115F || (c >= 0xA960 && c <= 0xA97C)) return Jamo::kLead;
  if (c <= 0x11A7 || (c >= 0xD7B0 && c <= 0xD7C6)) return Jamo::kVowel;
  if (c <= 0x11FF || c >= 0xD7CB) return Jamo::kTail;
  if (c >= kHangulFirst && c <= kHangulLast)
    return (c - kHangulFirst) % kTails == 0 ? Jamo::kOpen : Jamo::kClosed;
  return Jamo::kNone;
}

bool one_syllable(Jamo before, Jamo after) {
  switch (before) {
    case Jamo::kLead:
      return after != Jamo::kNone && after != Jamo::kTail;
    case Jamo::kVowel:
    case Jamo::kOpen:
      return after == Jamo::kVowel || after == Jamo::kTail;
    case Jamo::kTail:
    case Jamo::kClosed:
      return after == Jamo::kTail;
    case Jamo::kNone:
      return false;
  }
  return false;
}

bool together(uint32_t before, Cluster kind_before, uint32_t after, Cluster kind, bool after_pictograph) {
  if (before == '\r' && after == '\n') return true;
  if (kind_before == Cluster::kControl || kind == Cluster::kControl) return false;
  if (kind == Cluster::kExtends || kind_before == Cluster::kPrepended) return true;
  if (before == kJoiner && kind == Cluster::kPictograph) return after_pictograph;
  return one_syllable(jamo(before), jamo(after));
}

}  // namespace

size_t decompose_into(uint32_t point, bool compatible, uint32_t (&parts)[kMaxParts]) {
  if (compatible) {
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

uint32_t compose(uint32_t first, uint32_t second) {
  if (first - kLeadFirst < kLeads && second - kVowelFirst < kVowels)
    return kHangulFirst + ((first - kLeadFirst) * kVowels + (second - kVowelFirst)) * kTails;
  if (jamo(first) == Jamo::kOpen && second - kTailBefore - 1 < kTails - 1)
    return first + (second - kTailBefore);
  const Composition* end = kCompositions + kCompositionCount;
  const Composition* c = std::lower_bound(kCompositions, end, 0, [&](const Composition& x, int) {
    return x.first != first ? x.first < first : x.second < second;
  });
  return c != end && c->first == first && c->second == second ? c->composed : 0;
}

bool composes_with_previous(uint32_t point) {
  if (jamo(point) == Jamo::kVowel || jamo(point) == Jamo::kTail) return true;
  return std::any_of(kCompositions, kCompositions + kCompositionCount,
                     [&](const Composition& c) { return c.second == point; });
}

Cluster cluster(uint32_t point) {
  const FlagRun* run = std::upper_bound(kClusterRuns, kClusterRuns + kClusterRunCount, point,
                                        [](uint32_t p, const FlagRun& r) { return p < r.first; });
  return run != kClusterRuns && point <= run[-1].last ? Cluster(run[-1].value) : Cluster::kOther;
}

bool stands_alone(uint32_t point) {
  const Cluster kind = cluster(point);
  if (point == '\r' || kind == Cluster::kExtends || kind == Cluster::kPrepended) return false;
  const Jamo j = jamo(point);
  return j == Jamo::kNone || j == Jamo::kOpen || j == Jamo::kClosed;
}

size_t cluster_length(std::string_view text) {
  const char *p = text.data(), *end = p + text.size();
  // Most text: two ASCII characters are two clusters.
  if (uint8_t(*p) < 0x80 && (text.size() == 1 || (uint8_t(p[1]) < 0x80 && *p != '\r'))) return 1;
  auto [before, length] = decode_utf8(p, end);
  Cluster kind_before = cluster(before);
  bool after_pictograph = kind_before == Cluster::kPictograph;
  for (p += length; p < end; p += length) {
    auto [point, size] = decode_utf8(p, end);
    const Cluster kind = cluster(point);
    if (!together(before, kind_before, point, kind, after_pictograph)) break;
    if (kind != Cluster::kExtends) after_pictograph = kind == Cluster::kPictograph;
    before = point, kind_before = kind, length = size;
  }
  return size_t(p - text.data());
}

}  // namespace bertie::text
