#include "text/models/piece_trie.h"

#include <algorithm>

namespace bertie::text {
namespace {

// Searching blocks that are nearly full takes long and saves little memory, so only the newest are searched.
constexpr size_t kBlocksTried = 8;

}  // namespace

PieceTrie::PieceTrie(std::vector<ScoredPiece> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const ScoredPiece& a, const ScoredPiece& b) { return a.text < b.text; });
  add_block();
  take(kRoot, kNoParent);

  struct Pending {
    uint32_t node;
    size_t first, last, depth;  // pieces[first .. last) begin with the `depth` bytes that lead to the node
  };
  std::vector<Pending> pending{{kRoot, 0, pieces.size(), 0}};
  std::vector<uint8_t> labels;
  while (!pending.empty()) {
    auto [node, first, last, depth] = pending.back();
    pending.pop_back();
    for (; first < last && pieces[first].text.size() == depth; ++first)
      if (depth > 0) units_[node].score = pieces[first].score, ids_[node] = pieces[first].id;
    if (first == last) continue;
    labels.clear();
    for (size_t i = first; i < last; ++i) {
      uint8_t label = uint8_t(pieces[i].text[depth]);
      if (labels.empty() || labels.back() != label) labels.push_back(label);
    }
    const uint32_t base = find_base(labels);
    units_[node].base = base;
    for (uint8_t label : labels) {
      size_t end = first;
      while (end < last && uint8_t(pieces[end].text[depth]) == label) ++end;
      take(base ^ label, node);
      pending.push_back({base ^ label, first, end, depth + 1});
      first = end;
    }
  }
  open_ = {}, free_ = {};
}

int32_t PieceTrie::find(std::string_view text) const {
  uint32_t node = kRoot;
  for (char byte : text)
    if (!step(node, uint8_t(byte))) return -1;
  return score(node) == kNoPiece ? -1 : id(node);
}

uint32_t PieceTrie::find_base(const std::vector<uint8_t>& labels) {
  auto fits = [&](uint32_t base) {
    return std::all_of(labels.begin(), labels.end(),
                       [&](uint8_t l) { return units_[base ^ l].parent == kFree; });
  };
  size_t tried = 0;
  for (size_t i = open_.size(); i-- > 0 && tried < kBlocksTried; ++tried) {
    if (free_[open_[i]] < labels.size()) continue;
    for (uint32_t base = open_[i] * kBlock, end = base + kBlock; base < end; ++base)
      if (fits(base)) return base;
  }
  add_block();
  return uint32_t(units_.size()) - kBlock;
}

void PieceTrie::take(uint32_t unit, uint32_t parent) {
  units_[unit].parent = parent;
  if (--free_[unit / kBlock] == 0) open_.erase(std::find(open_.begin(), open_.end(), unit / kBlock));
}

void PieceTrie::add_block() {
  open_.push_back(uint32_t(free_.size()));
  free_.push_back(kBlock);
  units_.resize(units_.size() + kBlock);
  ids_.resize(units_.size(), -1);
}

}  // namespace bertie::text
