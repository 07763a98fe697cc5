#include "text/steps/bert_normalizer.h"

#include <algorithm>

#include "text/models/vocabulary.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

// BertNormalized::points: code point | origin << 32.
constexpr uint64_t pack(uint32_t point, uint32_t origin) { return point | uint64_t{origin} << 32; }
constexpr uint32_t point_of(uint64_t packed) { return packed & 0x1FFFFF; }
constexpr uint32_t origin_of(uint64_t packed) { return uint32_t(packed >> 32); }

// BertNormalized::spare: combining class (8 bits) | index (32) | inserted (1) | code point (21), so that
// sorting by value is a stable sort by class.
constexpr uint64_t kInserted = uint64_t{1} << 21;
constexpr uint64_t pack_mark(uint8_t mark_class, uint32_t index, bool inserted, uint32_t point) {
  return uint64_t{mark_class} << 54 | uint64_t{index} << 22 | (inserted ? kInserted : 0) | point;
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

// A part that was not inserted takes the next origin in turn, in the order after sorting, whichever code
// point it came from. The reference aligns them like this.
void align_and_strip(std::vector<uint64_t>& points, const std::vector<uint64_t>& spare, BertNormalized& out) {
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

void bert_normalize(std::string_view text, uint32_t first, const BertNormalizerSettings& settings,
                    BertNormalized& out) {
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
    bool is_cjk = settings.split_cjk && (f & kCjk);
    if (is_cjk) points.push_back(pack(' ', first));
    points.push_back(pack(point, first));
    if (is_cjk) points.push_back(pack(' ', first));
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

std::string bert_normalized_text(std::string_view text, const BertNormalizerSettings& settings) {
  BertNormalized out;
  bert_normalize(text, 0, settings, out);
  return std::string(out.text());
}

}  // namespace bertie::text
