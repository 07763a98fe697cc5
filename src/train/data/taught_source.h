#pragma once
// Batches of a language model's source, with what a teacher makes of them: its last hidden states, from which
// a student learns where they point, and what words they stand for (LossTerm::teacher_hidden). The teacher
// reads each batch as it is made: masks are drawn anew in each epoch, and its logits for all words, kept,
// would be thousands of times the text.
#include <memory>

#include "train/data/batch_source.h"

namespace bertie {

struct TaughtSourceOptions {
  double hard_weight = 2, soft_weight = 5, hidden_weight = 1;
  float temperature = 2;
  int threads = 0;
  bool bf16 = false;  // the teacher's products
};

// `source`'s first term is that of a language model, which the teacher is one of too; others stay as they are.
std::unique_ptr<BatchSource> make_taught_source(std::unique_ptr<BatchSource> source, const Model& teacher,
                                                const TaughtSourceOptions& options);

}  // namespace bertie
