#include "text/steps/bert_normalizer.h"

#include <algorithm>

#include "text/unicode/unicode.h"
#include "text/models/vocabulary.h"

namespace bertie::text {
namespace {

// points: code point | origin << 32, until decomposition.
constexpr uint64_t pack(uint32_t point, uint32_t origin) { return point | uint64_t{origin} << 32; }
constexpr uint32_t point_of(uint64_t packed) { return packed & 0x1FFFFF; }
constexpr uint32_t origin_of(uint64_t packed) { return uint32_t(packed >> 32); }

// While marks are put in order: class (8 bits) | place (32) | inserted (1) | code point (21). Sorting by
// value is then a stable sort by class.
constexpr uint64_t kInserted = uint64_t{1} << 21;
constexpr uint64_t pack_mark(uint8_t mark_class, uint32_t place, bool inserted, uint32_t point) {
  return uint64_t{mark_class} << 54 | uint64_t{place} << 22 | (inserted ? kInserted : 0) | point;
}

void decompose_all(std::vector<uint64_t>& points, std::vector<uint64_t>& spare) {
  spare.clear();
  for (uint64_t packed : points) {
    Mapped parts = decompose(point_of(packed));
    for (uint32_t i = 0; i < parts.count; ++i)
      spare.push_back(
          pack_mark(combining_class(parts.points[i]), uint32_t(spare.size()), i > 0, parts.points[i]));
  }
  for (auto first = spare.begin(); first != spare.end();) {
    auto is_mark = [](uint64_t x) { return x >> 54 != 0; };
    first = std::find_if(first, spare.end(), is_mark);
    auto last = std::find_if_not(first, spare.end(), is_mark);
    std::sort(first, last);
    first = last;
  }
}

// Which original a part belongs to goes by its place after the ordering, not by where it came from: a part
// that was not inserted takes the next original in turn. (So the reference aligns them.)
void align_and_strip(std::vector<uint64_t>& points, const std::vector<uint64_t>& spare, Normalized& out) {
  out.origins.clear();
  for (uint64_t packed : points) out.origins.push_back(origin_of(packed));
  points.clear();
  size_t taken = 0;
  for (uint64_t part : spare) {
    if (!(part & kInserted)) ++taken;
    if (!(flags(point_of(part)) & kMark)) points.push_back(pack(point_of(part), out.origins[taken - 1]));
  }
}

}  // namespace

void normalize(std::string_view text, uint32_t first, const NormalizerSettings& settings, Normalized& out) {
  auto& points = out.points;
  points.clear();
  for (const char *p = text.data(), *end = p + text.size(); p < end; ++first) {
    auto [point, length] = decode_utf8(p, end);
    p += length;
    uint8_t f = flags(point);
    if (settings.clean_text) {
      if (f & kDrop) continue;
      if (f & kSpace) point = ' ';
    }
    bool alone = settings.split_cjk && (f & kCjk);
    if (alone) points.push_back(pack(' ', first));
    points.push_back(pack(point, first));
    if (alone) points.push_back(pack(' ', first));
  }
  if (settings.strip_accents) {
    decompose_all(points, out.spare);
    align_and_strip(points, out.spare, out);
  }
  out.bytes.clear();
  out.origins.clear();
  for (uint64_t packed : points) {
    Mapped mapped = settings.lowercase ? lower(point_of(packed)) : Mapped{1, {point_of(packed)}};
    for (uint32_t i = 0; i < mapped.count; ++i) {
      char utf8[4];
      size_t n = encode_utf8(mapped.points[i], utf8);
      out.bytes.append(utf8, n);
      out.origins.insert(out.origins.end(), n, origin_of(packed));
    }
  }
  out.bytes.append(kPadding, '\0');
}

}  // namespace bertie::text
