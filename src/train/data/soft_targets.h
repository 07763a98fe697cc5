#pragma once
// What a teacher says of each row of labelled data, for a student to learn (Hinton et al. 2015).
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bertie {

// Logits as the teacher's head gives them; of a regression, numbers.
struct SoftTargets {
  size_t columns = 0;  // labels; of answers two: an answer's first and last token
  // classify, pair: for each row. tag: for each word of all sentences; NaN where the teacher has no token for
  // it. answer: for each token of the windows that both models read.
  std::vector<float> logits = {};
  uint64_t tokens = 0;  // answer: EncodedTasks::checksum of those windows
};

}  // namespace bertie
