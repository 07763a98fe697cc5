#pragma once
// What came before BERT, on the same rows and counted alike (docs/finetuning.md#baselines).
//
//   classify, pair   TF-IDF and mean word vectors, each with a logistic regression; a BiLSTM with attention
//   tag              each word's most frequent tag; a BiLSTM
//
//   auto all = bertie::train_baselines(train, dev, {.model = "bert-base-uncased"});
//   all[0].name, all[0].evaluation.scores[0].value;
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/dataset.h"
#include "bertie/evaluate.h"
#include "bertie/export.h"

namespace bertie {

struct BaselineResult {
  std::string name = {};       // "TF-IDF + logistic regression"
  Evaluation evaluation = {};  // on the dev rows
  double seconds = 0;          // to train and to predict
};

struct BaselineOptions {
  std::string model = {};   // whose tokens and word embeddings the word vectors are: a folder or a name
  std::string metric = {};  // the main score, which also chooses the BiLSTM's epoch; empty: the task's first
  uint64_t seed = 1;        // the same seed gives the same numbers, with any number of threads
  int threads = 0;          // 0: one for every core
  // How far one of them is, from 0 to 1. Throwing from it ends the call.
  std::function<void(std::string_view name, double fraction)> progress = {};
  std::function<void(const BaselineResult&)> done = {};
  std::function<void(std::string_view what)> note = {};  // one that is left out, because it would not fit
};

// Error for kAnswer, for which there are none.
BERTIE_API void check_baselines(TaskKind kind);
// Both parts have the same labels, or it is an Error.
BERTIE_API std::vector<BaselineResult> train_baselines(const Dataset& train, const Dataset& dev,
                                                       const BaselineOptions& options);

}  // namespace bertie
