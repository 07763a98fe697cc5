#include "train/baselines/frequent_tag.h"

#include <algorithm>

namespace bertie::baseline {

FrequentTag::FrequentTag(const Dataset& train) {
  using Counts = std::vector<size_t>;
  std::unordered_map<std::string, Counts> counts;
  Counts all(train.labels.size());
  for (const TaggedSentence& sentence : train.sentences)
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      const auto tag = size_t(sentence.tags[i]);
      Counts& mine = counts[sentence.words[i]];
      mine.resize(all.size());
      ++mine[tag], ++all[tag];
    }
  const auto most_frequent = [](const Counts& of) {
    const auto best = std::max_element(of.begin(), of.end());
    size_t sum = 0;
    for (const size_t n : of) sum += n;
    return Choice{int32_t(best - of.begin()), float(double(*best) / double(std::max<size_t>(sum, 1)))};
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
