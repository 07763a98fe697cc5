#include "text/steps/bert_normalizer.h"

#include "text/models/vocabulary.h"
#include "text/unicode/forms.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

// BertNormalized::points: code point | origin << 32.
constexpr uint64_t pack(uint32_t point, uint32_t origin) { return point | uint64_t{origin} << 32; }
constexpr uint32_t point_of(uint64_t packed) { return packed & 0x1FFFFF; }
constexpr uint32_t origin_of(uint64_t packed) { return uint32_t(packed >> 32); }

// A part that was not inserted takes the next origin in turn, in the order after sorting, whichever code
// point it came from. The reference aligns them like this.
void strip_accents(BertNormalized& out) {
  out.spare.clear(), out.origins.clear();
  for (uint64_t packed : out.points) {
    append_parts(point_of(packed), false, out.spare);
    out.origins.push_back(origin_of(packed));
  }
  sort_marks(out.spare);
  out.points.clear();
  size_t taken = 0;
  for (uint64_t part : out.spare) {
    if (!(part & kInsertedPart)) ++taken;
    if (!(flags(part_point(part)) & kMark))
      out.points.push_back(pack(part_point(part), out.origins[taken - 1]));
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
  if (settings.strip_accents) strip_accents(out);
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
