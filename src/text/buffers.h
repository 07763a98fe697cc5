#pragma once
// What the steps of tokenizing pass on to each other, and the memory that they reuse.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/tokenizer.h"

namespace bertie::text {

// Text between steps, and where it came from: byte i stands for the code points alignments[i] of the original
// text. All bytes of a code point have the same alignment.
struct NormalizedString {
  std::string bytes;
  std::vector<Offset> alignments;  // as many as bytes

  void clear() { bytes.clear(), alignments.clear(); }
  void append(std::string_view more, Offset alignment) {
    bytes += more;
    alignments.insert(alignments.end(), more.size(), alignment);
  }
  // Appends bytes [begin, end) of another string.
  void append(const NormalizedString& from, size_t begin, size_t end) {
    bytes.append(from.bytes, begin, end - begin);
    alignments.insert(alignments.end(), from.alignments.begin() + ptrdiff_t(begin),
                      from.alignments.begin() + ptrdiff_t(end));
  }
};

// The result of bert_normalize: origins[i] is the code point of the original text that byte i came from.
struct BertNormalized {
  std::string bytes;  // UTF-8, then kPadding zeros
  std::vector<uint32_t> origins;
  std::vector<uint64_t> points, spare;  // memory for the steps on the way

  std::string_view text() const { return {bytes.data(), origins.size()}; }
};

// Bytes [begin, end) of a NormalizedString: a word.
struct Span {
  uint32_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

// A part of a word under BPE: a token, and how many bytes it covers.
struct Symbol {
  int32_t id;
  uint32_t length;
};

// Unigram's best way to reach a byte of a word: the sum of scores, and the last piece: where it begins and
// its node in the trie.
struct BestPath {
  double score;
  uint32_t begin, node;
};

// Every step may overwrite the `spare` ones and `packed`.
struct Buffers {
  std::string valid_utf8;  // a copy of the text without invalid bytes, if it had any
  BertNormalized bert;
  NormalizedString text, spare;
  NormalizedString unsplit;  // normalized text, before added tokens are cut out
  std::vector<Span> words, spare_words;
  std::vector<Symbol> symbols;
  std::string word_copy;  // a word with something before or after it, such as kPadding bytes
  std::vector<uint64_t> packed[2];
  std::vector<BestPath> paths;
};

// Appends pieces to an Encoding. The caller stops when it is full().
struct PieceWriter {
  std::vector<int32_t>& ids;
  std::vector<Offset>& offsets;
  std::vector<int32_t>& words;
  Buffers& buffers;
  size_t max_ids;    // of the whole Encoding; the last word may go beyond
  int32_t word = 0;  // the index of the current word

  bool full() const { return ids.size() >= max_ids; }
  void push(int32_t id, uint32_t begin, uint32_t end) {
    ids.push_back(id), offsets.push_back({begin, end}), words.push_back(word);
  }
  // A piece that is a whole word.
  void push_word(int32_t id, uint32_t begin, uint32_t end) { push(id, begin, end), ++word; }

  struct Mark {
    size_t size;
    int32_t word;
  };
  Mark mark() const { return {ids.size(), word}; }
  // Removes what was pushed since.
  void rewind(Mark to) {
    ids.resize(to.size), offsets.resize(to.size), words.resize(to.size);
    word = to.word;
  }
};

}  // namespace bertie::text
