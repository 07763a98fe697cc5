#pragma once
// The tables that tools/extract_unicode.py makes. Sorted by code point; what is not named has no flags,
// class 0, and maps to itself. Ask through text/unicode/unicode.h.
#include <cstddef>
#include <cstdint>

namespace bertie::text {

struct FlagRun {
  uint32_t first, last;
  uint8_t value;
};
// first, first + step, ... last each move by to - first.
struct LowerRun {
  uint32_t first, last, step, to;
};
struct Decomposition {
  uint32_t point, count, parts[4];
};
struct Composition {
  uint32_t first, second, composed;
};
// A compatibility decomposition that is more than the canonical one: kCompatibleParts[place .. place + count).
struct Compatible {
  uint32_t point;
  uint16_t place, count;
};

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
