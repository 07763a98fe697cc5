#pragma once
// What tokenizing passes from step to step, and the memory it reuses.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/tokenizer.h"

namespace bertie::text {

// BERT's normaliser's result (text/steps/bert_normalizer.h): UTF-8 and padding, and where each byte came from.
struct Normalized {
  std::string bytes;
  std::vector<uint32_t> origins;
  std::vector<uint64_t> points, spare;

  std::string_view text() const { return {bytes.data(), origins.size()}; }
};

// Text between steps of a pipeline. places[i] is the range of code points of the original that byte i stands
// for; all bytes of a code point have the same. Both have the same length.
struct Aligned {
  std::string bytes;
  std::vector<Offset> places;

  void clear() { bytes.clear(), places.clear(); }
  void append(std::string_view more, Offset place) {
    bytes += more;
    places.insert(places.end(), more.size(), place);
  }
};

// A word of an Aligned: bytes [begin, end).
struct Span {
  uint32_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

// How to reach a place of a word best (text/models/unigram.h): the sum of scores, and the last piece on the way.
struct Path {
  double score;
  uint32_t begin, node;
};

// A part of a word: a token, and how many bytes it takes.
struct Symbol {
  int32_t id;
  uint32_t length;
};

// Reused by every step; what a step leaves in `spare`, `spare_words` and `numbers` nobody reads.
struct Workspace {
  std::string valid;  // the text, where it had bytes that are not UTF-8
  Normalized bert;    // text/segmenters/bert_segmenter.h
  Aligned text, spare;
  Aligned whole;  // normalised text that added tokens split
  std::vector<Span> words, spare_words;
  std::vector<Symbol> symbols;
  std::string tail;  // a word that lies too near to the text's end, and such
  std::vector<uint64_t> numbers[2];
  std::vector<Path> paths;
};

// Where pieces go. `stop`: no more words once ids has reached this size.
struct Pieces {
  std::vector<int32_t>& ids;
  std::vector<Offset>& offsets;
  std::vector<int32_t>& words;
  Workspace& workspace;
  size_t stop;
  int32_t word = 0;

  bool full() const { return ids.size() >= stop; }
  void push(int32_t id, uint32_t begin, uint32_t end) {
    ids.push_back(id), offsets.push_back({begin, end}), words.push_back(word);
  }
  void cut(size_t size) { ids.resize(size), offsets.resize(size), words.resize(size); }
};

}  // namespace bertie::text
