#include "train/baselines/frequent_tag.h"

#include <algorithm>
#include <utility>

namespace bertie::baseline {
namespace {

// How often each tag was seen, in the order in which they came.
using TagCounts = std::vector<std::pair<int32_t, size_t>>;

void count_tag(TagCounts& counts, int32_t tag) {
  const auto found = std::ranges::find(counts, tag, &TagCounts::value_type::first);
  if (found == counts.end())
    counts.emplace_back(tag, 1);
  else
    ++found->second;
}

}  // namespace

FrequentTag::FrequentTag(const Dataset& train) {
  std::unordered_map<std::string, TagCounts> counts;
  TagCounts all;
  for (const TaggedSentence& sentence : train.sentences)
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      count_tag(counts[sentence.words[i]], sentence.tags[i]);
      count_tag(all, sentence.tags[i]);
    }
  const auto most_frequent = [](const TagCounts& of) {
    const auto best = std::ranges::max_element(of, {}, &TagCounts::value_type::second);
    size_t sum = 0;
    for (const auto& [tag, count] : of) sum += count;
    return Choice{best->first, float(double(best->second) / double(sum))};
  };
  if (!all.empty()) any_ = most_frequent(all);
  for (const auto& [word, of] : counts) words_.emplace(word, most_frequent(of));
}

Predictions FrequentTag::predict(const Dataset& data) const {
  Predictions out;
  for (const TaggedSentence& sentence : data.sentences) {
    std::vector<int32_t>& tags = out.tags.emplace_back();
    std::vector<float>& scores = out.tag_scores.emplace_back();
    for (const std::string& word : sentence.words) {
      const auto found = words_.find(word);
      const Choice& choice = found == words_.end() ? any_ : found->second;
      tags.push_back(choice.tag), scores.push_back(choice.share);
    }
  }
  return out;
}

}  // namespace bertie::baseline
