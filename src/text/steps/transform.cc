#include "text/steps/transform.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace bertie::text {

void transform(NormalizedString& text, const std::vector<uint64_t>& changes, size_t removed_at_start,
               NormalizedString& spare) {
  spare.clear();
  const size_t size = text.bytes.size();
  size_t at = 0;  // the next code point of the old text
  auto advance = [&](size_t points) {
    for (; points > 0 && at < size; --points) do
        ++at;
      while (at < size && is_continuation(text.bytes[at]));
  };
  advance(removed_at_start);
  for (uint64_t packed : changes) {
    auto [point, change] = unpack(packed);
    Offset alignment;
    if (change > 0)
      alignment = at > 0 ? text.alignments[at - 1] : Offset{};
    else
      alignment = size > 0 ? text.alignments[std::min(at, size - 1)] : Offset{};
    char utf8[4];
    spare.append({utf8, encode_utf8(point, utf8)}, alignment);
    if (change <= 0) advance(1 + size_t(-int64_t{change}));
  }
  std::swap(text, spare);
}

}  // namespace bertie::text
