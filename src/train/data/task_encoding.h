#pragma once
// Labelled rows as tokens with their targets:
//
//   classify, pair   a sequence for each row, cut at max_length; a class, several labels or a number each
//   tag              the words of a sentence with spaces between them; the first token of each word has its
//                    tag, others have no target. A long sentence goes in windows, and each word counts once:
//                    where it has the most text around it
//   answer           the question and as much of the context as fits, in windows; the places of the answer's
//                    first and last token, or of [CLS] where the window does not have all of it
#include <cstdint>
#include <vector>

#include "bertie/evaluate.h"
#include "bertie/tokenizer.h"

namespace bertie {

struct EncodeTasksOptions {
  size_t max_length = 512;  // tokens of a sequence, special ones included
  size_t stride = 128;      // tokens that windows share
  size_t max_question_tokens = 64;
};

// Sequences with their targets, packed. A target of -1 is none: of a row without labels.
struct EncodedTasks {
  std::vector<int32_t> ids;
  std::vector<int8_t> types;
  std::vector<size_t> starts{0};  // of each sequence in ids, and where the last one ends
  // Of tags: places in the sequence, what stands there, and which word of the data that is; otherwise targets
  // alone.
  std::vector<int32_t> rows, targets;
  std::vector<size_t> words;
  std::vector<size_t> target_starts{0};
  std::vector<float> values;  // (sequences, labels) of several labels and numbers; NaN: none
  size_t truncated = 0, longest = 0;
  size_t data_words = 0;  // of all sentences

  size_t size() const { return starts.size() - 1; }
  uint64_t checksum() const;  // of what the model reads, and at which places targets stand
};

// Adds the rows of `data` to what is there.
void encode_tasks(const Dataset& data, const Tokenizer& tokenizer, const EncodeTasksOptions& options,
                  EncodedTasks& into);

// A sentence as a model reads it, and where its words are in it, in code points.
struct JoinedWords {
  std::string text;
  std::vector<Offset> words;

  explicit JoinedWords(const std::vector<std::string>& words);
  // The word that a token with these places belongs to; nothing for one between words.
  std::optional<size_t> word_of(Offset token) const;
};

}  // namespace bertie
