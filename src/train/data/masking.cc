#include "train/data/masking.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bertie/error.h"

namespace bertie {

Masking::Masking(const Tokenizer& tokenizer, const MaskingOptions& options)
    : options_(options), mask_id_(tokenizer.mask_id()) {
  if (mask_id_ < 0)
    throw Error("masked language modeling needs a mask token, and this tokenizer has none",
                "`objective` causal, or another tokenizer", "objective");
  const bool marks_continuations = tokenizer.marks_continuations();
  kinds_.resize(tokenizer.vocab_size());
  for (size_t id = 0; id < kinds_.size(); ++id) {
    const std::string_view token = tokenizer.token(int32_t(id));
    // Without marks for continuations a word begins with its space: Ġ in byte-level BPE, ▁ in Unigram.
    const bool continues = marks_continuations ? token.starts_with("##")
                                               : !token.starts_with("\u0120") && !token.starts_with("\u2581");
    kinds_[id] = tokenizer.is_special(int32_t(id)) ? Kind::kSpecial
                 : continues                       ? Kind::kContinues
                                                   : Kind::kBegins;
    if (kinds_[id] != Kind::kSpecial && !token.empty()) random_.push_back(int32_t(id));
  }
  if (random_.empty()) throw Error("the vocabulary has nothing but special tokens");
}

size_t Masking::predictions(size_t n) const {
  // nearbyint rounds halves to even, as Python does in the original.
  const size_t wanted = std::max<size_t>(1, size_t(std::nearbyint(options_.rate * double(n))));
  return options_.max_predictions > 0 ? std::min(options_.max_predictions, wanted) : wanted;
}

void Masking::apply(std::span<int32_t> ids, int32_t first_row, Random& random, std::vector<int32_t>& rows,
                    std::vector<int32_t>& targets) {
  words_.clear();
  for (uint32_t i = 0; i < ids.size(); ++i) {
    if (is_special(ids[i])) continue;
    const bool goes_on = options_.whole_words && !words_.empty() && words_.back().end == i &&
                         kinds_[size_t(ids[i])] == Kind::kContinues;
    if (goes_on)
      ++words_.back().end;
    else
      words_.push_back({i, i + 1});
  }
  // A shuffle that stops when enough are chosen. A word that would be too many pieces is skipped for shorter
  // ones.
  size_t left = predictions(ids.size());
  chosen_.clear();
  for (uint32_t i = 0; i < words_.size() && left > 0; ++i) {
    std::swap(words_[i], words_[i + random.below(uint32_t(words_.size()) - i)]);
    const Word word = words_[i];
    if (word.end - word.begin > left) continue;
    left -= word.end - word.begin;
    for (uint32_t place = word.begin; place < word.end; ++place) chosen_.push_back(place);
  }
  std::sort(chosen_.begin(), chosen_.end());
  for (const uint32_t place : chosen_) {
    rows.push_back(first_row + int32_t(place));
    targets.push_back(ids[place]);
    const uint32_t draw = random.below(10);
    if (draw < 8)
      ids[place] = mask_id_;
    else if (draw == 8)
      ids[place] = random_[random.below(uint32_t(random_.size()))];
  }
}

}  // namespace bertie
