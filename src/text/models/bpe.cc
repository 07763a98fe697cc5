#include "text/models/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "bertie/error.h"
#include "io/quote.h"
#include "text/unicode/unicode.h"

namespace bertie::text {

Bpe::Bpe(Vocabulary vocabulary, const Merges& merges, BpeSettings settings, const std::string& where)
    : vocabulary_(std::move(vocabulary)), settings_(std::move(settings)) {
  size_t capacity = std::bit_ceil(std::max<size_t>(2 * merges.size() + 2, 16));
  pairs_.resize(capacity);
  mask_ = capacity - 1;
  shift_ = 64 - std::countr_zero(capacity);
  auto id_of = [&](std::string_view token, size_t merge) {
    int32_t id = vocabulary_.id(token);
    if (id < 0)
      throw Error(where + ": merge " + std::to_string(merge) + " needs the token " + io::quote(token) +
                      ", which is missing in the vocabulary",
                  "Vocabulary and merges must come from the same training.");
    return id;
  };
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    std::string_view left = merges.left(i), right = merges.right(i);
    int32_t a = id_of(left, i), b = id_of(right, i);
    if (right.size() < settings_.prefix.size())
      throw Error(where + ": merge " + std::to_string(i) + ": " + io::quote(right) +
                  " is shorter than continuing_subword_prefix");
    (joined = left) += right.substr(settings_.prefix.size());
    Pair pair{key(a, b), uint32_t(i), id_of(joined, i)};
    size_t at = slot(pair.key);
    while (pairs_[at].rank != kNone && pairs_[at].key != pair.key) at = (at + 1) & mask_;
    pairs_[at] = pair;
  }
  if (settings_.unk_token) {
    unk_id_ = vocabulary_.id(*settings_.unk_token);
    if (unk_id_ < 0)
      throw Error(where + ": unk_token: the token " + io::quote(*settings_.unk_token) +
                  " is missing in the vocabulary");
  }
  if (settings_.byte_fallback)
    for (unsigned byte = 0; byte < 256; ++byte)
      byte_ids_.push_back(vocabulary_.id(byte_fallback_token(uint8_t(byte))));
}

int32_t Bpe::find_token(const char* p, size_t n, bool first, bool last, std::string& spare) const {
  bool prefixed = !first && !settings_.prefix.empty(), suffixed = last && !settings_.suffix.empty();
  if (!prefixed && !suffixed) return vocabulary_.find(p, n, false);
  spare.clear();
  if (prefixed) spare += settings_.prefix;
  spare.append(p, n);
  if (suffixed) spare += settings_.suffix;
  size_t size = spare.size();
  spare.append(kPadding, '\0');
  return vocabulary_.find(spare.data(), size, false);
}

// The word's characters as tokens. Without an unk_token a character that is not a token is left out, and the
// offsets of what follows are too small by its length, as in the reference.
void Bpe::split_into_characters(const char* word, size_t n, Buffers& buffers) const {
  std::vector<Symbol>& symbols = buffers.symbols;
  symbols.clear();
  Symbol unknown{unk_id_, 0};
  auto flush = [&] {
    if (unknown.length > 0) symbols.push_back(unknown);
    unknown.length = 0;
  };
  for (size_t i = 0, length; i < n; i += length) {
    length = decode_utf8(word + i, word + n).length;
    if (int32_t id = find_token(word + i, length, i == 0, i + length == n, buffers.word_copy); id >= 0) {
      flush();
      symbols.push_back({id, uint32_t(length)});
      continue;
    }
    if (!byte_ids_.empty()) {
      auto byte_id = [&](size_t k) { return byte_ids_[uint8_t(word[i + k])]; };
      bool all = true;
      for (size_t k = 0; k < length; ++k) all = all && byte_id(k) >= 0;
      if (all) {
        for (size_t k = 0; k < length; ++k) symbols.push_back({byte_id(k), 1});
        continue;
      }
    }
    if (unk_id_ < 0) continue;
    if (!settings_.fuse_unk) flush();
    unknown.length += uint32_t(length);
  }
  flush();
}

void Bpe::push_word(const char* word, size_t n, const Offset* alignments, PieceWriter& out) const {
  if (settings_.ignore_merges)
    if (int32_t id = vocabulary_.find(word, n, false); id >= 0)
      return out.push(id, alignments[0].begin, alignments[n - 1].end);
  std::vector<Symbol>& symbols = out.buffers.symbols;
  split_into_characters(word, n, out.buffers);
  size_t count = merge(symbols.data(), symbols.size(), out.buffers.packed), at = 0;
  for (size_t i = 0; i < count; at += symbols[i++].length)
    out.push(symbols[i].id, alignments[at].begin, alignments[at + symbols[i].length - 1].end);
}

size_t Bpe::merge(Symbol* symbols, size_t count, std::vector<uint64_t> (&spare)[2]) const {
  return count <= kShort ? merge_short(symbols, count) : merge_long(symbols, count, spare);
}

size_t Bpe::merge_short(Symbol* symbols, size_t count) const {
  if (count < 2) return count;
  uint32_t ranks[kShort];  // ranks[i]: of symbols i and i + 1
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank(symbols, i);
  while (count > 1) {
    size_t best = size_t(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNone) break;
    symbols[best] = {find(symbols[best].id, symbols[best + 1].id).id,
                     symbols[best].length + symbols[best + 1].length};
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    std::copy(ranks + best + 2, ranks + count, ranks + best + 1);
    --count;
    if (best > 0) ranks[best - 1] = rank(symbols, best - 1);
    if (best + 1 < count) ranks[best] = rank(symbols, best);
  }
  return count;
}

// As merge_short, with a heap of rank << 32 | index and linked neighbors. An entry of the heap is out of date
// if the pair at its index has another rank now.
size_t Bpe::merge_long(Symbol* symbols, size_t count, std::vector<uint64_t> (&spare)[2]) const {
  std::vector<uint64_t>&heap = spare[0], &state = spare[1];
  struct Links {
    uint32_t before, after;
  };
  heap.clear();
  state.assign(2 * count, 0);  // links, then ranks
  auto links = [&](size_t i) { return std::bit_cast<Links>(state[i]); };
  auto link = [&](size_t i, Links l) { state[i] = std::bit_cast<uint64_t>(l); };
  auto enqueue = [&](size_t i, bool push) {
    uint32_t after = links(i).after;
    uint32_t r = after == kNone ? kNone : find(symbols[i].id, symbols[after].id).rank;
    state[count + i] = r;
    if (r == kNone) return;
    heap.push_back(uint64_t{r} << 32 | i);
    if (push) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (size_t i = 0; i < count; ++i)
    link(i, {i == 0 ? kNone : uint32_t(i - 1), i + 1 == count ? kNone : uint32_t(i + 1)});
  for (size_t i = 0; i < count; ++i) enqueue(i, false);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    uint64_t top = heap.back();
    heap.pop_back();
    size_t i = uint32_t(top);
    if (state[count + i] != top >> 32) continue;
    Links here = links(i);
    Symbol& right = symbols[here.after];
    symbols[i] = {find(symbols[i].id, right.id).id, symbols[i].length + right.length};
    right.length = 0, state[count + here.after] = kNone;
    here.after = links(here.after).after;
    link(i, here);
    if (here.after != kNone) link(here.after, {uint32_t(i), links(here.after).after});
    enqueue(i, true);
    if (here.before != kNone) enqueue(here.before, true);
  }
  return size_t(std::remove_if(symbols, symbols + count, [](const Symbol& s) { return s.length == 0; }) -
                symbols);
}

}  // namespace bertie::text
