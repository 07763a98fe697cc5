#pragma once
// The tables that tools/extract_unicode.py makes, sorted by code point. A code point that is not listed has
// no flags, class 0, and maps to itself. Use them through unicode.h and forms.h.
#include <cstddef>
#include <cstdint>

namespace bertie::text {

struct FlagRun {
  uint32_t first, last;
  uint8_t value;
};
// Maps first, first + step, ... last; each to itself + (to - first).
struct LowerRun {
  uint32_t first, last, step, to;
};
struct Decomposition {
  uint32_t point, count, parts[4];
};
struct Composition {
  uint32_t first, second, composed;
};
// A compatibility decomposition that differs from the canonical one: kCompatibleParts[place .. place +
// count).
struct Compatible {
  uint32_t point;
  uint16_t place, count;
};

// The value of the run that holds `point`; 0 if there is none.
uint8_t find_value(const FlagRun* runs, size_t count, uint32_t point);

extern const FlagRun kFlagRuns[];
extern const size_t kFlagRunCount;
extern const FlagRun kClassRuns[];
extern const size_t kClassRunCount;
extern const FlagRun kKindRuns[];
extern const size_t kKindRunCount;
extern const LowerRun kLowerRuns[];
extern const size_t kLowerRunCount;
extern const Decomposition kDecompositions[];
extern const size_t kDecompositionCount;
extern const Composition kCompositions[];
extern const size_t kCompositionCount;
extern const Compatible kCompatible[];
extern const size_t kCompatibleCount;
extern const uint32_t kCompatibleParts[];
extern const FlagRun kClusterRuns[];
extern const size_t kClusterRunCount;

}  // namespace bertie::text
