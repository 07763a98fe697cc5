#pragma once
// Fine-tuning: a model and a few labelled rows in; a classifier, tagger or answerer out (docs/finetuning.md).
//
//   bertie::finetune({.kind = bertie::TaskKind::kClassify, .model = "bert-base-uncased",
//                     .train_file = "reviews.csv", .train = {.out = "classifier"}});
//   bertie::load("classifier").classify("A fine film.");
//
// The folder that it writes is a whole model: weights, config with the labels, tokenizer, metrics.json, and a
// README.md that says how it was made. A run that was stopped continues with `resume`, to the same bits.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/baselines.h"
#include "bertie/dataset.h"
#include "bertie/evaluate.h"
#include "bertie/export.h"
#include "bertie/train.h"

namespace bertie {

struct FinetuneJob {
  TaskKind kind = TaskKind::kClassify;
  // What learning begins with: a folder or a name. A head for the same labels goes on learning; any other is
  // replaced by a fresh one.
  std::string model = {};
  bool fresh_head = false;  // even where the model has one for these labels

  // With a teacher that was fine-tuned for the task, the model learns from what that says of each row, which
  // is computed once and kept in the folder; without a `model` of its own it begins as some of its layers.
  Teaching teaching = {};
  std::string unlabeled_file = {};  // rows that the teacher alone says something of; plain text too

  std::string train_file = {}, dev_file = {};  // with an unlabeled_file there need be no train_file
  // Of train_file, taken out where there is no dev_file; 0: no evaluation. Nothing: a tenth, at most 2,000
  // rows.
  std::optional<double> dev_share = {};
  DatasetOptions data = {};

  double epochs = 0;        // 0: by the number of rows; steps, tokens and seconds of `train` are limits too
  size_t seeds = 1;         // runs with seeds train.seed, train.seed + 1 …: the best one is kept
  std::string metric = {};  // that says which checkpoint is the best; empty: the task's first, of numbers r2

  size_t max_length = 0;  // tokens of a sequence; 0: what the model takes, for answers 384
  size_t stride = 128;    // tokens that windows of a long text share

  std::optional<size_t> freeze = {};  // embeddings and this many layers stay as they are
  double layer_decay = 1;             // each layer learns with this times the rate of the one above it
  bool balance_classes = false;       // rare classes count for more: rows / (classes · rows of the class)
  double label_smoothing = 0;         // share of a target that goes to all classes alike
  double dropout = -1;                // below 0: as the config says
  bool recompute = false;             // less memory, more time
  bool baseline = false;              // simpler models learn the same rows first, and are measured alike
  int threads = 0;                    // of a rank; 0: one for every core
  std::string command = {};           // that asked for this, for README.md

  // `out` is the folder of the model. What is not given (batch, steps, rate, eval_every) goes by the number
  // of rows and the width of the model (docs/finetuning.md).
  TrainOptions train = {};
};

// What a run with one seed came to.
struct SeedResult {
  uint64_t seed = 0;
  uint64_t best_step = 0;
  std::vector<NamedScore> scores = {};  // on the dev data, by the best checkpoint
  double seconds = 0;
  uint64_t tokens = 0;
};

// Mean and standard deviation (of a sample) of a score over the seeds that have it.
struct MeanScore {
  double mean = 0, deviation = 0;
};
BERTIE_API MeanScore mean_score(const std::vector<SeedResult>& seeds, const std::string& name);

struct FinetuneResult {
  TrainEnd end = TrainEnd::kLimit;
  int rank = 0;  // that returns this; rank 0 is the one that reports
  std::filesystem::path folder = {};
  std::vector<SeedResult> seeds = {};    // that are done
  size_t best = 0;                       // place in `seeds` of the one that is in `folder`
  Evaluation evaluation = {};            // of that one, in full
  std::vector<NamedScore> teacher = {};  // its scores on the same rows
  size_t rows = 0, dev_rows = 0;
  std::vector<BaselineResult> baselines = {};  // of a run that was resumed with their scores alone
};

// What a job will do, told before it starts.
struct FinetunePlan {
  std::string train_found, dev_found;  // formats, in words
  size_t rows = 0, dev_rows = 0, bad_rows = 0;
  size_t invalid_rows = 0;         // that are not UTF-8, of all files, and were mended
  std::string first_invalid = {};  // where the first of them is
  std::string unlabeled_found = {};
  size_t unlabeled_rows = 0;
  std::string model = {};                   // what it begins with, in words
  Problem problem = Problem::kSingleLabel;  // of kClassify and kPair
  std::vector<std::string> labels = {};     // of a regression the number's name
  double least = 0, largest = 0;            // of a regression's numbers
  size_t lone_rows = 0;                     // that have a class of their own
  bool dev_labels_are_places = false;       // the dev rows have 0, 1 … where the others have names
  // Rows that are cut, of those to learn from (without labels too) and of the dev rows; in questions the
  // question.
  size_t truncated = 0, dev_truncated = 0;
  size_t longest = 0, max_length = 0, most_length = 0;  // most_length: what the model takes
  uint64_t tokens = 0;                                  // of an epoch
  bool continues_head = false;
  double epochs = 0;        // 0 where tokens or time alone end the run
  TrainOptions train = {};  // with all defaults filled in
};

struct FinetuneEvents : TrainEvents {
  std::function<void(const FinetunePlan&)> planned = {};
  std::function<void(size_t done, size_t all)> taught = {};  // sequences that the teacher has read
  std::function<void(size_t index)> seed_begun = {};  // from 0; those that were done before are left out
  std::function<void(const SeedResult&)> seed_done = {};
  std::function<void(std::string_view name, double fraction)> baseline = {};  // how far one is, from 0 to 1
  std::function<void(const BaselineResult&)> baseline_done = {};
};

// Throws Error; what was saved before is whole. Under mpirun all ranks call it.
BERTIE_API FinetuneResult finetune(const FinetuneJob& job, const FinetuneEvents& events = {});

}  // namespace bertie
