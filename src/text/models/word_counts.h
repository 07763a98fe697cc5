#pragma once
// How often each word occurs in texts, for training a WordPiece vocabulary. Words are split as by
// BertNormalizer and BertPreTokenizer.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/steps/bert_normalizer.h"

namespace bertie::text {

// A hash table of words and their counts. For one thread at a time.
class WordCounts {
 public:
  struct Word {
    uint64_t hash;
    uint64_t begin;   // in bytes_
    uint32_t length;  // 0: a free slot
    uint64_t count;
  };

  void add(std::string_view word, uint64_t count = 1);
  void add(const WordCounts& other);
  // Removes the words that occurred fewer than `least` times.
  void drop_below(uint64_t least);
  void clear();

  size_t size() const { return size_; }  // distinct words
  std::string_view text(const Word& word) const { return {bytes_.data() + word.begin, word.length}; }
  template <class F>
  void for_each(const F& f) const {  // f(text, count), in no particular order
    for (const Word& word : slots_)
      if (word.length > 0) f(text(word), word.count);
  }

 private:
  Word& slot_for(uint64_t hash, std::string_view word);
  void add_hashed(uint64_t hash, std::string_view word, uint64_t count);
  void grow();

  std::vector<Word> slots_;  // open addressing, at most half full
  std::string bytes_;
  size_t size_ = 0;
};

// Adds the words of a text to `counts`. `scratch` is reused memory.
void count_words(std::string_view text, const BertNormalizerSettings& settings, BertNormalized& scratch,
                 WordCounts& counts);

}  // namespace bertie::text
