#include "train/data/pretraining_plan.h"

#include <algorithm>

namespace bertie {

Random keyed_random(uint64_t seed, Purpose purpose, uint64_t epoch, uint64_t place) {
  const auto words = philox({uint32_t(epoch), uint32_t(epoch >> 32), uint32_t(purpose), 0x6C657373},
                            {uint32_t(seed), uint32_t(seed >> 32)});
  return Random(words[0] | uint64_t{words[1]} << 32, place);
}

void Planner::plan(std::span<const uint32_t> group, uint64_t epoch, std::vector<PlannedSequence>& out) {
  out.clear();
  if (options_.objective == Objective::kCausal) {
    for (const uint32_t shard : group) plan_causal(shard, out);
    return;
  }
  documents_.clear();
  for (const uint32_t shard : group)
    for (uint32_t d = 0; d < shards_[shard].documents(); ++d)
      if (shards_[shard].first_sentence(d) < shards_[shard].first_sentence(d + 1))
        documents_.push_back({shard, d});
  for (size_t i = 0; i < documents_.size(); ++i) {
    const Document& d = documents_[i];
    Random random = keyed_random(seed_, Purpose::kDocument, epoch, uint64_t{d.shard} << 32 | d.document);
    if (options_.objective == Objective::kMasked)
      plan_stretches(d, random, out);
    else
      plan_pairs(i, random, out);
  }
}

// How long a sequence should be: as long as possible, sometimes of any length from 2 on, so that a model sees
// short ones too.
size_t Planner::draw_target(Random& random) const {
  if (options_.room <= 2 || random.uniform() >= float(options_.short_rate)) return options_.room;
  return 2 + random.below(uint32_t(options_.room - 1));
}

// Whole sentences as long as they fit. A sentence that does not fit alone is cut.
void Planner::plan_stretches(const Document& document, Random& random,
                             std::vector<PlannedSequence>& out) const {
  const Shard& shard = shards_[document.shard];
  size_t sentence = shard.first_sentence(document.document);
  const size_t last_sentence = shard.first_sentence(document.document + 1);
  const uint32_t end = shard.first_token(last_sentence);
  for (uint32_t begin = shard.first_token(sentence); begin < end;) {
    const size_t target = draw_target(random);
    uint32_t stop = begin;
    while (sentence < last_sentence && shard.first_token(sentence + 1) - begin <= target)
      stop = shard.first_token(++sentence);
    if (stop == begin) stop = begin + uint32_t(std::min<size_t>(target, end - begin));
    out.push_back({.a = {document.shard, begin, stop - begin}});
    begin = stop;
  }
}

// Some sentences of another document of the group, `least` tokens or up to its end.
Stretch Planner::random_text(size_t other_than, size_t least, Random& random) const {
  const size_t all = documents_.size(),
               within = options_.random_within > 0 ? std::min(options_.random_within, all) : all,
               first_document = other_than - std::min(other_than, within),
               end_document = other_than + std::min(documents_.size() - other_than, within + 1);
  size_t index = first_document + random.below(uint32_t(end_document - first_document - 1));
  index += index >= other_than;
  const Document& document = documents_[index];
  const Shard& shard = shards_[document.shard];
  const uint32_t first = shard.first_sentence(document.document),
                 last = shard.first_sentence(document.document + 1);
  uint32_t sentence = first + random.below(last - first);
  const uint32_t begin = shard.first_token(sentence);
  do ++sentence;
  while (sentence < last && shard.first_token(sentence) - begin < least);
  return {document.shard, begin, shard.first_token(sentence) - begin};
}

// Sentences are collected until there are at least two and they reach the target; A is the first few of them.
// For next-sentence prediction B is, one time in two, text of another document, and the collected sentences
// that A did not use go to the next sequence; else B is the rest of them. For sentence order B is the rest,
// and one time in two A and B are swapped.
//
// The original code also takes text of another document whenever it has collected a single sentence, so more
// than half of its pairs are random. Here a last sentence that is left alone is paired with the one before
// it, and a document of a single sentence makes no pair, so that half of the pairs are random.
void Planner::plan_pairs(size_t index, Random& random, std::vector<PlannedSequence>& out) const {
  const Document& document = documents_[index];
  const Shard& shard = shards_[document.shard];
  const size_t start = shard.first_sentence(document.document),
               last = shard.first_sentence(document.document + 1);
  if (last - start < 2) return;
  const auto stretch = [&](size_t from, size_t to) {
    return Stretch{document.shard, shard.first_token(from), shard.first_token(to) - shard.first_token(from)};
  };
  for (size_t first = start; first < last;) {
    const size_t target = draw_target(random);
    size_t stop = std::min(first + 2, last);
    while (stop < last && shard.first_token(stop) - shard.first_token(first) < target) ++stop;
    const bool alone = stop - first == 1;
    const size_t cut = alone ? stop : first + 1 + random.below(uint32_t(stop - first - 1));
    const bool changed = random.below(2) == 1;
    if (changed && options_.objective == Objective::kMaskedNext && documents_.size() > 1) {
      const Stretch a = stretch(first, cut);
      out.push_back({a, random_text(index, target > a.count ? target - a.count : 1, random), 1});
      first = cut;
      continue;
    }
    const Stretch a = alone ? stretch(first - 1, first) : stretch(first, cut);
    const Stretch b = alone ? stretch(first, stop) : stretch(cut, stop);
    const bool swapped = changed && options_.objective == Objective::kMaskedOrder;
    out.push_back({swapped ? b : a, swapped ? a : b, swapped});
    first = stop;
  }
}

// Blocks of the shard's documents with an end token after each, one after the other; the last may be short.
// The token after a block's last one is predicted too, so the stream's last token starts no block.
void Planner::plan_causal(uint32_t shard, std::vector<PlannedSequence>& out) const {
  const uint64_t length = uint64_t{shards_[shard].header().tokens} + shards_[shard].documents();
  for (uint64_t begin = 0; begin + 1 < length; begin += options_.room)
    out.push_back(
        {.a = {shard, uint32_t(begin), uint32_t(std::min<uint64_t>(options_.room, length - 1 - begin))}});
}

}  // namespace bertie
