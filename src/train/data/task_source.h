#pragma once
// Batches for fine-tuning, from labelled data:
//
//   classify, pair   a sequence for each row, cut at max_length; a class, several labels or a number each
//   tag              the words of a sentence with spaces between them; the first token of each word has its
//                    tag, others have no target. A long sentence goes in windows, and each word counts once:
//                    where it has the most text around it
//   answer           the question and as much of the context as fits, in windows; the places of the answer's
//                    first and last token, or of [CLS] where the window does not have all of it
//
// All tokens are kept in memory. The order is a pure function of (data, seed, epoch, position in the epoch).
#include <cstdint>
#include <memory>
#include <vector>

#include "bertie/evaluate.h"
#include "bertie/tokenizer.h"
#include "train/data/batch_source.h"

namespace bertie {

struct TaskSourceOptions {
  size_t max_length = 512;  // tokens of a sequence, special ones included
  size_t stride = 128;      // tokens that windows share
  size_t max_question_tokens = 64;
  uint64_t seed = 0;
  std::vector<float> class_weights = {};  // of classify, pair and tag
  float smoothing = 0;
};

class TaskSource : public BatchSource {
 public:
  virtual size_t sequences() const = 0;  // rows, or windows of them
  virtual size_t truncated() const = 0;  // rows that lost something at max_length
  virtual size_t longest() const = 0;    // tokens of a sequence
  virtual uint64_t tokens() const = 0;   // of an epoch
};

// Error for data without rows.
std::unique_ptr<TaskSource> make_task_source(const Dataset& data, const Tokenizer& tokenizer,
                                             const TaskSourceOptions& options);

// A sentence as a model reads it, and where its words are in it, in code points.
struct JoinedWords {
  std::string text;
  std::vector<Offset> words;

  explicit JoinedWords(const std::vector<std::string>& words);
  // The word that a token with these places belongs to; nothing for one between words.
  std::optional<size_t> word_of(Offset token) const;
};

}  // namespace bertie
