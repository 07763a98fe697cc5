#pragma once
// Texts with masks that are watched while a model learns: what it would fill them with, evaluation by
// evaluation.
#include <functional>
#include <string>
#include <vector>

#include "bertie/files.h"
#include "bertie/train.h"
#include "model/learner.h"

namespace bertie {

// Asks the learner, which outlives it, as it is when it is called; nothing to call where there are no texts.
// Error for a text without a mask, and where the learner does not learn to fill one.
std::function<std::vector<Watched>()> watch_masks(const std::vector<std::string>& texts,
                                                  const ModelFiles& tokenizer, const Learner& learner,
                                                  int threads);

}  // namespace bertie
