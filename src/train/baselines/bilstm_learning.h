#pragma once
// A BiLSTM that learns from labelled rows, from random numbers on (docs/finetuning.md#baselines has its
// settings). As with BERT, the epoch that is best on the dev rows counts, of equal ones the later.
#include <functional>
#include <string>

#include "bertie/evaluate.h"

namespace bertie::baseline {

struct BiLstmOptions {
  std::string metric = {};
  uint64_t seed = 1;
  int threads = 1;
  std::function<void(double fraction)> progress = {};
};

Predictions train_bilstm(const Dataset& train, const Dataset& dev, const BiLstmOptions& options);

}  // namespace bertie::baseline
