#pragma once
// The Unigram model: of all ways to cut a word into pieces, the one with the greatest sum of scores (log
// probabilities). A code point that no piece covers alone may be passed over at a score lower than any
// piece's.
//
// The search, its ties and the order of its additions are the reference's (tokenizers' encode_optimized), in
// doubles, so that the same cut wins.
#include <array>
#include <optional>
#include <vector>

#include "text/models/piece_trie.h"
#include "text/segmenters/composed_segmenter.h"

namespace bertie::text {

struct UnigramSettings {
  int32_t unk_id = 0;
  bool byte_fallback = false;  // what is unknown becomes its bytes' tokens, <0x00> to <0xFF>
};

// No score may be larger, or smaller than its negative: sums stay finite.
inline constexpr double kMaxScore = 1e30;

class Unigram : public Model {
 public:
  // scores[id] belongs to the vocabulary's token `id`; tokens from scores.size() on are no pieces.
  Unigram(Vocabulary vocabulary, const std::vector<double>& scores, const UnigramSettings& settings);

  void push_word(const char* word, size_t n, const Offset* places, Pieces& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view kind() const override { return "Unigram"; }

 private:
  void push_unknown(std::string_view text, Offset place, Pieces& out) const;

  Vocabulary vocabulary_;
  UnigramSettings settings_;
  PieceTrie trie_;
  double unk_score_;
  std::optional<std::array<int32_t, 256>> bytes_;
};

}  // namespace bertie::text
