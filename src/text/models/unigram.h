#pragma once
// The Unigram model: of all segmentations of a word into pieces, the one with the greatest sum of scores (log
// probabilities). A code point that is not a piece can be unknown, at a score lower than any piece's.
//
// The search follows tokenizers' encode_optimized, with the same ties and the same order of additions in
// double precision, so that the same segmentation wins.
#include <array>
#include <optional>
#include <vector>

#include "text/models/piece_trie.h"
#include "text/models/subword_model.h"

namespace bertie::text {

struct UnigramSettings {
  int32_t unk_id = 0;
  bool byte_fallback = false;  // unknown text becomes tokens of its bytes, <0x00> to <0xFF>
};

// The largest absolute value of a score: sums stay finite.
inline constexpr double kMaxScore = 1e30;

class Unigram : public SubwordModel {
 public:
  // scores[id] is the score of token `id`. Tokens from scores.size() on are not pieces.
  Unigram(Vocabulary vocabulary, const std::vector<double>& scores, const UnigramSettings& settings);

  void push_word(const char* word, size_t n, const Offset* alignments, PieceWriter& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view kind() const override { return "Unigram"; }

 private:
  void push_unknown(std::string_view text, Offset offset, PieceWriter& out) const;

  Vocabulary vocabulary_;
  UnigramSettings settings_;
  PieceTrie trie_;
  double unk_score_;
  std::optional<std::array<int32_t, 256>> byte_ids_;  // -1 where missing; none without byte_fallback
};

}  // namespace bertie::text
