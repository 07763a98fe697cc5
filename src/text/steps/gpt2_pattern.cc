#include "text/steps/gpt2_pattern.h"

#include <algorithm>
#include <map>

#include "text/unicode/tables.h"

namespace bertie::text {

const Gpt2Pattern& Gpt2Pattern::get() {
  static const Gpt2Pattern pattern;
  return pattern;
}

Gpt2Pattern::Gpt2Pattern() {
  std::vector<CharKind> all(kPoints, CharKind::kOther);
  for (size_t i = 0; i < kKindRunCount; ++i)
    std::fill(all.begin() + kKindRuns[i].first, all.begin() + kKindRuns[i].last + 1,
              CharKind(kKindRuns[i].value));
  std::map<std::vector<CharKind>, uint16_t> known;  // pages of equal content are shared
  for (auto page = all.begin(); page != all.end(); page += kMask + 1) {
    auto [known_page, added] =
        known.emplace(std::vector<CharKind>(page, page + kMask + 1), uint16_t(known.size()));
    if (added) entries_.insert(entries_.end(), page, page + kMask + 1);
    pages_.push_back(known_page->second);
  }
}

const char* Gpt2Pattern::end_of_spaces(const char* p, const char* end) const {
  const char *q = p, *last = p;
  while (q < end) {
    Classified next = classify(q, end);
    if (next.kind != CharKind::kSpace) return last == p ? q : last;
    last = q;
    q += next.length;
  }
  return q;
}

}  // namespace bertie::text
