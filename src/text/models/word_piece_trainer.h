#pragma once
// A WordPiece vocabulary from words and how often they occur, as Hugging Face's trainer makes it: byte-pair
// encoding on characters, where all but a word's first character carry "##".
//
// From the characters on, the two neighbours that stand together most often, over all words, become one
// piece, until there are enough pieces or no two stand together often enough. Of two equally frequent ones
// that with the smaller ids comes first. Hugging Face numbers the characters that carry "##" as it meets them
// on its way through a hash table of words, which is in another order in each run, so its ties are broken
// differently each time. Here those that more words have come first, as they most likely do there, and the
// result is always the same.
#include <cstdint>
#include <string>
#include <vector>

#include "text/models/word_counts.h"

namespace bertie::text {

struct WordPieceTraining {
  size_t size = 30522;  // tokens; more only where the characters alone are more
  uint64_t min_frequency = 2;
  size_t alphabet_limit = 1000;  // different characters; of the rarest the higher code points go first
  std::vector<std::string> special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};  // come first
};

// The tokens, by id.
std::vector<std::string> train_word_pieces(const WordCounts& words, const WordPieceTraining& options);

}  // namespace bertie::text
