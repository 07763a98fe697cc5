#pragma once
// Changing text and knowing where it came from, by the reference's rules (NormalizedString::transform), which
// decide the offsets of everything that a normaliser made longer, shorter or put in another order.
#include <cstdint>
#include <vector>

#include "text/buffers.h"

namespace bertie::text {

// One code point of the new text and how it uses up the old: change > 0 takes nothing and has the place of
// what was taken last, else it takes the place of the next code point and skips -change more.
struct Change {
  uint32_t point;
  int32_t change;
};

inline uint64_t pack(Change c) { return c.point | uint64_t(uint32_t(c.change)) << 32; }
inline Change unpack(uint64_t packed) { return {uint32_t(packed), int32_t(packed >> 32)}; }

// Makes `text` of packed changes; `skipped` code points at its beginning are left out. `spare` is
// overwritten.
void rewrite(Aligned& text, const std::vector<uint64_t>& changes, size_t skipped, Aligned& spare);

}  // namespace bertie::text
