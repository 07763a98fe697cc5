#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace bertie {

inline constexpr size_t kGlyphColumns = 5;

// An ASCII letter as five columns of eight dots, the lowest bit on top; a box for all others.
std::span<const uint8_t, kGlyphColumns> glyph_of(char letter);

}  // namespace bertie
