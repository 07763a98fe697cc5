#include "explain/head_relations.h"

#include <algorithm>

namespace bertie {
namespace {

constexpr int kFarthest = 8;  // of fixed offsets

// Of each word the other word for which `weight(i, j)` is largest.
template <class Weight>
void predictions(size_t words, const Weight& weight, std::vector<size_t>& out) {
  out.assign(words, words);
  for (size_t i = 0; i < words; ++i) {
    double most = -1;
    for (size_t j = 0; j < words; ++j)
      if (j != i && weight(i, j) > most) most = weight(i, j), out[i] = j;
  }
}

}  // namespace

RelationCounts::RelationCounts(std::span<const HeadText> texts, const Config& config)
    : heads_(config.heads), all_heads_(config.depth() * config.heads) {
  for (const HeadText& text : texts)
    if (text.parsed)
      for (const ParsedWord& word : text.parsed->words)
        if (word.head > 0) relations_.emplace(word.relation, relations_.size());
  counts_.resize(relations_.size());
  offsets_.assign(relations_.size(), std::vector<size_t>(2 * kFarthest + 1));
  right_.assign(all_heads_, std::vector<size_t>(2 * relations_.size()));
  for (const HeadText& text : texts)
    for (size_t i = 0; text.parsed && i < text.parsed->words.size(); ++i) {
      const ParsedWord& word = text.parsed->words[i];
      if (word.head == 0) continue;
      const size_t relation = relations_.find(word.relation)->second;
      ++counts_[relation];
      const auto offset = ptrdiff_t(word.head - 1) - ptrdiff_t(i);
      if (std::abs(offset) <= kFarthest) ++offsets_[relation][size_t(offset + kFarthest)];
    }
}

void RelationCounts::add(const HeadText& text, Matrix<const float> weights, size_t head) {
  if (!text.parsed || weights.empty()) return;
  const std::vector<ParsedWord>& words = text.parsed->words;
  const size_t w = words.size(), n = text.words.size();
  if (w > n) return;  // words that the tokenizer has nothing for: who looks at whom is not known
  std::vector<double> table(w * w);
  std::vector<size_t> pieces(w);
  for (size_t t = 0; t < n; ++t)
    if (text.words[t] >= 0) ++pieces[size_t(text.words[t])];
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n && text.words[i] >= 0; ++j)
      if (text.words[j] >= 0)
        table[size_t(text.words[i]) * w + size_t(text.words[j])] +=
            double(weights(i, j)) / double(pieces[size_t(text.words[i])]);
  std::vector<size_t> found;
  for (const bool from_head : {false, true}) {
    predictions(
        w, [&](size_t i, size_t j) { return from_head ? table[j * w + i] : table[i * w + j]; }, found);
    for (size_t i = 0; i < w; ++i)
      if (words[i].head > 0)
        right_[head][2 * relations_.find(words[i].relation)->second + from_head] +=
            found[i] + 1 == words[i].head;
  }
}

std::vector<RelationScore> RelationCounts::scores(size_t least_count) const {
  std::vector<RelationScore> out;
  for (const auto& [name, relation] : relations_) {
    const auto count = double(counts_[relation]);
    if (counts_[relation] < least_count) continue;
    RelationScore score{.relation = name, .count = counts_[relation]};
    size_t best = 0;
    for (size_t head = 0; head < all_heads_; ++head) {
      const size_t* const right = &right_[head][2 * relation];
      for (const bool from_head : {false, true})
        if (right[from_head] > best)
          best = right[from_head], score.head = {head / heads_, head % heads_}, score.from_head = from_head;
      score.by_head.push_back(double(std::max(right[0], right[1])) / count);
    }
    score.accuracy = double(best) / count;
    const auto offset = std::max_element(offsets_[relation].begin(), offsets_[relation].end());
    score.offset = int(offset - offsets_[relation].begin()) - kFarthest;
    score.offset_accuracy = double(*offset) / count;
    out.push_back(std::move(score));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const RelationScore& a, const RelationScore& b) { return a.count > b.count; });
  return out;
}

}  // namespace bertie
