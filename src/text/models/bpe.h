#pragma once
// Byte-pair encoding: a word starts as its characters, and the pair of neighbors with the lowest rank is
// merged, leftmost first, until no pair has a rank.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/models/merges.h"
#include "text/models/subword_model.h"

namespace bertie::text {

// As in the model section of a tokenizer.json.
struct BpeSettings {
  std::optional<std::string> unk_token;  // for an unknown character; without one it is left out
  std::string prefix;                    // continuing_subword_prefix: before every character but the first
  std::string suffix;                    // end_of_word_suffix: after the last character
  bool fuse_unk = false;                 // neighboring unknown characters become one token
  bool byte_fallback = false;            // an unknown character becomes <0x..> tokens, if they exist
  bool ignore_merges = false;            // a word that is a token is that token
};

class Bpe : public SubwordModel {
 public:
  // Throws Error if the vocabulary lacks a token of a merge or the unk_token. A merge that is listed twice
  // has the rank of the later one.
  Bpe(Vocabulary vocabulary, const Merges& merges, BpeSettings settings, const std::string& where);

  std::string_view kind() const override { return "BPE"; }
  void push_word(const char* word, size_t n, const Offset* alignments, PieceWriter& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const BpeSettings& settings() const { return settings_; }

  // Merges the `count` symbols in place; returns how many are left. `spare` keeps its capacity.
  size_t merge(Symbol* symbols, size_t count, std::vector<uint64_t> (&spare)[2]) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kShort = 48;  // symbols; up to here a scan is faster than a heap
  struct Pair {
    uint64_t key = UINT64_MAX;
    uint32_t rank = kNone;
    int32_t id = -1;
  };

  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  size_t slot(uint64_t key) const {
    key = (key ^ key >> 29) * 0x9E3779B97F4A7C15;
    return (key ^ key >> 32) * 0xBF58476D1CE4E5B9 >> shift_;
  }
  const Pair& find(int32_t left, int32_t right) const {
    uint64_t k = key(left, right);
    for (size_t i = slot(k);; i = (i + 1) & mask_)
      if (pairs_[i].key == k || pairs_[i].rank == kNone) return pairs_[i];
  }
  uint32_t rank(const Symbol* symbols, size_t i) const { return find(symbols[i].id, symbols[i + 1].id).rank; }
  int32_t find_token(const char* p, size_t n, bool first, bool last, std::string& spare) const;
  void split_into_characters(const char* word, size_t n, Buffers& buffers) const;  // into symbols
  size_t merge_short(Symbol* symbols, size_t count) const;
  size_t merge_long(Symbol* symbols, size_t count, std::vector<uint64_t> (&spare)[2]) const;

  Vocabulary vocabulary_;
  BpeSettings settings_;
  std::vector<Pair> pairs_;  // open addressing, at most half full; a free slot has no rank
  size_t mask_ = 0;
  int shift_ = 0;
  int32_t unk_id_ = -1;
  std::vector<int32_t> byte_ids_;  // of <0x00> to <0xFF>, -1 where missing; empty without byte_fallback
};

}  // namespace bertie::text
