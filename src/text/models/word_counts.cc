#include "text/models/word_counts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "io/checksum.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

enum class AsciiClass : uint8_t { kWord, kSpace, kPunct, kDrop, kOther };

constexpr std::array<AsciiClass, 256> kBytes = [] {
  std::array<AsciiClass, 256> table{};
  for (size_t c = 0; c < 256; ++c) {
    const bool letter = (c | 32) >= 'a' && (c | 32) <= 'z', digit = c >= '0' && c <= '9';
    table[c] = c >= 0x80                                         ? AsciiClass::kOther
               : letter || digit                                 ? AsciiClass::kWord
               : c == ' ' || c == '\t' || c == '\n' || c == '\r' ? AsciiClass::kSpace
               : c < 0x20 || c == 0x7F                           ? AsciiClass::kDrop
                                                                 : AsciiClass::kPunct;
  }
  return table;
}();

}  // namespace

WordCounts::Word& WordCounts::slot_for(uint64_t hash, std::string_view word) {
  for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    Word& slot = slots_[i];
    if (slot.length == 0 || (slot.hash == hash && text(slot) == word)) return slot;
  }
}

void WordCounts::grow() {
  std::vector<Word> old(std::max<size_t>(1024, 2 * slots_.size()));
  old.swap(slots_);
  for (const Word& word : old)
    if (word.length > 0) slot_for(word.hash, text(word)) = word;
}

void WordCounts::add_hashed(uint64_t hash, std::string_view word, uint64_t count) {
  if (2 * size_ >= slots_.size()) grow();
  Word& slot = slot_for(hash, word);
  if (slot.length == 0) {
    slot = {hash, bytes_.size(), uint32_t(word.size()), 0};
    bytes_ += word;
    ++size_;
  }
  slot.count += count;
}

void WordCounts::add(std::string_view word, uint64_t count) {
  if (!word.empty()) add_hashed(io::checksum(word), word, count);
}

void WordCounts::add(const WordCounts& other) {
  for (const Word& word : other.slots_)
    if (word.length > 0) add_hashed(word.hash, other.text(word), word.count);
}

void WordCounts::drop_below(uint64_t least) {
  WordCounts kept;
  for (const Word& word : slots_)
    if (word.length > 0 && word.count >= least) kept.add_hashed(word.hash, text(word), word.count);
  *this = std::move(kept);
}

void WordCounts::clear() {
  std::fill(slots_.begin(), slots_.end(), Word{});
  bytes_.clear();
  size_ = 0;
}

// The normalizer never looks across an ASCII space, so each part between two of them can be normalized alone.
// ASCII parts are done here, others by bert_normalize.
void count_words(std::string_view text, const BertNormalizerSettings& settings, BertNormalized& scratch,
                 WordCounts& counts) {
  const char *p = text.data(), *const end = p + text.size();
  std::string word;
  while (p < end) {
    if (kBytes[uint8_t(*p)] == AsciiClass::kSpace) {
      ++p;
      continue;
    }
    const char* stop = p;
    bool ascii = true;
    for (; stop < end && kBytes[uint8_t(*stop)] != AsciiClass::kSpace; ++stop)
      ascii = ascii && uint8_t(*stop) < 0x80;
    const auto flush = [&] {
      counts.add(word);
      word.clear();
    };
    if (ascii) {
      for (; p < stop; ++p) {
        const char c = *p;
        switch (kBytes[uint8_t(c)]) {
          case AsciiClass::kWord:
            word += settings.lowercase && c >= 'A' && c <= 'Z' ? char(c | 32) : c;
            break;
          case AsciiClass::kPunct:
            flush();
            counts.add({p, 1});
            break;
          default:
            break;
        }
      }
    } else {
      bert_normalize({p, size_t(stop - p)}, 0, settings, scratch);
      const std::string_view clean = scratch.text();
      for (const char *q = clean.data(), *last = q + clean.size(); q < last;) {
        const auto [point, length] = decode_utf8(q, last);
        const uint8_t f = flags(point);
        if (f & (kRawSpace | kPunct)) {
          flush();
          if (f & kPunct) counts.add({q, length});
        } else {
          word.append(q, length);
        }
        q += length;
      }
      p = stop;
    }
    flush();
  }
}

}  // namespace bertie::text
