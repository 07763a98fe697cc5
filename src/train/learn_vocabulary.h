#pragma once
// A WordPiece vocabulary from texts: what `bertie vocab` does. Words are counted by several threads, block by
// block; the result does not depend on how many. Memory is bounded: where there are too many different words,
// the rarest so far are forgotten.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/models/word_piece_trainer.h"
#include "train/corpus.h"

namespace bertie {

struct VocabularyOptions {
  CorpusOptions corpus;
  text::WordPieceTrainerOptions training = {};
  bool lowercase = true;               // and without accents
  int threads = 0;                     // 0: one for every core
  size_t max_words = size_t{1} << 23;  // different ones in memory: some 0.5 GB
  std::function<void(uint64_t done, uint64_t total, uint64_t text)> progress = {};
};

struct LearntVocabulary {
  std::vector<std::string> tokens;  // by id
  uint64_t text_bytes = 0, words = 0;
  size_t different_words = 0;
  uint64_t forgotten_below = 0;  // words that were met less often may not have been counted; 0: all were
};

// Throws Error; also where the characters alone are more than training.vocab_size.
LearntVocabulary learn_vocabulary(const VocabularyOptions& options);

}  // namespace bertie
