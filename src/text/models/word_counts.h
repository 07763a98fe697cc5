#pragma once
// How often each word occurs in texts, words being what BERT's normaliser and splitting at spaces and
// punctuation give: what a WordPiece vocabulary is learnt from.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/steps/bert_normalizer.h"

namespace bertie::text {

// A table of words and numbers. One thread at a time.
class WordCounts {
 public:
  struct Word {
    uint64_t hash;
    uint64_t begin;   // in the block of all words' bytes
    uint32_t length;  // 0: a free place
    uint64_t count;
  };

  void add(std::string_view word, uint64_t count = 1);
  void add(const WordCounts& other);
  // Forgets the words that occurred fewer than `least` times.
  void drop_below(uint64_t least);
  void clear();

  size_t size() const { return size_; }  // different words
  std::string_view text(const Word& word) const { return {bytes_.data() + word.begin, word.length}; }
  template <class F>
  void for_each(const F& f) const {  // f(text, count), in no particular order
    for (const Word& word : places_)
      if (word.length > 0) f(text(word), word.count);
  }

 private:
  Word& place_for(uint64_t hash, std::string_view word);
  void add_hashed(uint64_t hash, std::string_view word, uint64_t count);
  void grow();

  std::vector<Word> places_;  // open addressing, at most half full
  std::string bytes_;
  size_t size_ = 0;
};

// Adds the words of a text to `counts`. `scratch` is memory to be used again.
void count_words(std::string_view text, const NormalizerSettings& settings, Normalized& scratch,
                 WordCounts& counts);

}  // namespace bertie::text
