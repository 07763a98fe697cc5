#pragma once
// Unicode's normalisation forms and grapheme clusters, as Hugging Face's tokenizers sees them. Binary
// searches over the tables of tools/extract_unicode.py: for text that is not plain.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace bertie::text {

// Appends the full decomposition of one code point, canonical or compatible; itself if it has none.
inline constexpr size_t kMaxParts = 18;
size_t decompose_into(uint32_t point, bool compatible, uint32_t (&parts)[kMaxParts]);

// What two neighbours compose; 0 if nothing.
uint32_t compose(uint32_t first, uint32_t second);
// True if a code point may compose with the one before it.
bool composes_with_previous(uint32_t point);

// What a code point does in a grapheme cluster. The same numbers are in tools/extract_unicode.py.
enum class Cluster : uint8_t { kOther, kControl, kExtends, kPrepended, kPictograph };
Cluster cluster(uint32_t point);
// True if the code point is a cluster of its own among others of which the same is true.
bool stands_alone(uint32_t point);

// Bytes of the grapheme cluster that valid UTF-8 `text` begins with. Exact where that is below kSmallCluster;
// above, only that it is: flags and some Indic clusters are then cut too early.
inline constexpr size_t kSmallCluster = 6;
size_t cluster_length(std::string_view text);

}  // namespace bertie::text
