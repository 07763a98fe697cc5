#pragma once
// Unicode's normalization forms and grapheme clusters, as Hugging Face's tokenizers sees them. Binary
// searches over the tables that tools/extract_unicode.py makes.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bertie::text {

// Writes the full decomposition of one code point (itself if it has none) and returns how many code points
// that are. `compatibility`: as in NFKD, else as in NFD.
inline constexpr size_t kMaxParts = 18;
size_t decompose_into(uint32_t point, bool compatibility, uint32_t (&parts)[kMaxParts]);

// Decomposed text as one number per part: combining class (8 bits) | index (32) | kInsertedPart if it is not
// the first part of its code point (1) | code point (21).
inline constexpr uint64_t kInsertedPart = uint64_t{1} << 21;
inline uint32_t part_point(uint64_t part) { return part & (kInsertedPart - 1); }
void append_parts(uint32_t point, bool compatibility, std::vector<uint64_t>& parts);
// Sorts each run of marks by combining class, as NFD and NFKD do.
void sort_marks(std::vector<uint64_t>& parts);

// The code point that two neighbors compose; 0 if none.
uint32_t compose(uint32_t first, uint32_t second);
// True if a code point may compose with the one before it.
bool composes_with_previous(uint32_t point);

// The parts of Unicode's Grapheme_Cluster_Break and Extended_Pictographic that matter here. The same numbers
// are in tools/extract_unicode.py.
enum class GraphemeBreak : uint8_t { kOther, kControl, kExtend, kPrepend, kPictographic };
GraphemeBreak grapheme_break(uint32_t point);
// True if the code point never shares a cluster with a neighbor for which this is true as well.
bool is_own_cluster(uint32_t point);

// Bytes of the first grapheme cluster of valid UTF-8. Exact below kSmallCluster; for a longer
// cluster at least kSmallCluster (flags and some Indic clusters are cut too early).
inline constexpr size_t kSmallCluster = 6;
size_t cluster_length(std::string_view text);

}  // namespace bertie::text
