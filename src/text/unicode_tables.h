#pragma once
// The tables that tools/extract_unicode.py makes. Sorted by code point; what is not named has no flags,
// class 0, and maps to itself. Ask through text/unicode.h.
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

}  // namespace bertie::text
