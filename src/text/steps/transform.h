#pragma once
// Rewrites text code point by code point and keeps its alignments, by the rules of tokenizers'
// NormalizedString::transform. They decide the offsets of everything that a normalizer expands, removes or
// reorders.
#include <cstdint>
#include <vector>

#include "text/buffers.h"

namespace bertie::text {

// One code point of the new text. change > 0: it is inserted, with the alignment of the old code point before
// it. Otherwise it replaces the next old code point, and -change more are removed after that.
struct CharChange {
  uint32_t point;
  int32_t change;
};

inline uint64_t pack(CharChange c) { return c.point | uint64_t(uint32_t(c.change)) << 32; }
inline CharChange unpack(uint64_t packed) { return {uint32_t(packed), int32_t(packed >> 32)}; }

// Replaces `text` by the packed changes. The first `removed_at_start` code points are removed. `spare` is
// overwritten.
void transform(NormalizedString& text, const std::vector<uint64_t>& changes, size_t removed_at_start,
               NormalizedString& spare);

}  // namespace bertie::text
