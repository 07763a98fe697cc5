#include "text/steps/gpt2_pattern.h"

#include <algorithm>
#include <map>

#include "text/unicode/tables.h"

namespace bertie::text {

const Gpt2Words& Gpt2Words::get() {
  static const Gpt2Words words;
  return words;
}

Gpt2Words::Gpt2Words() {
  std::vector<Kind> all(kPoints, Kind::kOther);
  for (size_t i = 0; i < kKindRunCount; ++i)
    std::fill(all.begin() + kKindRuns[i].first, all.begin() + kKindRuns[i].last + 1,
              Kind(kKindRuns[i].value));
  std::map<std::vector<Kind>, uint16_t> known;  // pages of equal content are shared
  for (auto page = all.begin(); page != all.end(); page += kMask + 1) {
    auto [place, added] = known.emplace(std::vector<Kind>(page, page + kMask + 1), uint16_t(known.size()));
    if (added) entries_.insert(entries_.end(), page, page + kMask + 1);
    pages_.push_back(place->second);
  }
}

const char* Gpt2Words::end_of_spaces(const char* p, const char* end) const {
  const char *q = p, *last = p;
  while (q < end) {
    Seen seen = look(q, end);
    if (seen.kind != Kind::kSpace) return last == p ? q : last;
    last = q;
    q += seen.length;
  }
  return q;
}

}  // namespace bertie::text
