#pragma once
// Trains a WordPiece vocabulary on word counts as Hugging Face's WordPieceTrainer does: byte-pair encoding on
// characters, where all but the first of a word carry "##". The most frequent pair of neighbors over all
// words becomes a token, until there are enough tokens or no pair is frequent enough.
//
// Ties go to the pair with the smaller ids. Hugging Face numbers the "##" characters in the order of a hash
// map that differs in each run, so its ties are broken differently each time. Here those that occur in more
// words get smaller ids, as they most likely do there, and the result is always the same.
#include <cstdint>
#include <string>
#include <vector>

#include "text/models/word_counts.h"

namespace bertie::text {

struct WordPieceTrainerOptions {
  size_t vocab_size = 30522;  // exceeded only if the alphabet alone is larger
  uint64_t min_frequency = 2;
  size_t limit_alphabet = 1000;  // distinct characters; the rarest are dropped, higher code points first
  std::vector<std::string> special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};  // the first ids
};

// The tokens, by id.
std::vector<std::string> train_word_pieces(const WordCounts& words, const WordPieceTrainerOptions& options);

}  // namespace bertie::text
