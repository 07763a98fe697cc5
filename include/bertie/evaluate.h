#pragma once
// How good a model is on labelled data, counted as the official scorers count (docs/evaluation.md).
//
//   bertie::Dataset data = bertie::read_dataset(bertie::TaskKind::kClassify, "dev.tsv");
//   bertie::Evaluation e = bertie::evaluate(bertie::load("model"), data);
//   e.scores[0];            // {"accuracy", 0.927}
//
// Two steps, so that anything that predicts can be scored alike: predict, then score.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bertie/dataset.h"
#include "bertie/export.h"
#include "bertie/results.h"
#include "bertie/text_model.h"

namespace bertie {

// An answer as SQuAD's scripts take it.
struct PredictedAnswer {
  std::string text;     // the best answer of the context; empty where there is no answer at all
  double null_odds = 0; // score of "there is no answer" minus that of `text`
};

// What was predicted for each row of a Dataset, in its order. Labels are places in its `labels`.
struct Predictions {
  // kClassify, kPair: (rows, labels) row-major: probabilities; of a regression one number a row.
  std::vector<float> scores = {};
  size_t columns = 0;
  std::vector<std::vector<int32_t>> tags = {};  // kTag: one for each word
  std::vector<PredictedAnswer> answers = {};    // kAnswer
};

// Of one class, or of one kind of entity.
struct ClassScore {
  std::string label;
  double precision = 0, recall = 0, f1 = 0;
  size_t support = 0, predicted = 0;
};

struct Evaluation {
  TaskKind kind = TaskKind::kClassify;
  size_t rows = 0;
  std::vector<NamedScore> scores = {};  // the main one first: the higher the better
  std::vector<ClassScore> classes = {};
  std::vector<std::string> labels = {};
  std::vector<size_t> confusion = {};   // (labels, labels): rows are right, columns predicted; one class of several
  // Whether, or how far, each row is right, from 0 to 1: what comparing two models rests on.
  std::vector<double> row_scores = {};
  double best_threshold = 0;  // kAnswer with questions that have no answer: of null_odds
};

struct PredictOptions {
  ProgressCallback progress = {};
  // kAnswer, as in BERT's own script.
  size_t max_length = 384, stride = 128, max_question_tokens = 64, max_answer_tokens = 30, n_best = 20;
};

struct ScoreOptions {
  double threshold = 0;      // kAnswer: no answer where null_odds are above it
  size_t resamples = 0;      // of the bootstrap; 0: no intervals
  double confidence = 0.95;
  uint64_t seed = 1;
};

// The model's head must fit the data's kind, and its labels must be the data's, in any order.
BERTIE_API Predictions predict(const TextModel& model, const Dataset& data, const PredictOptions& options = {});
BERTIE_API Evaluation score(const Dataset& data, const Predictions& predictions,
                            const ScoreOptions& options = {});
BERTIE_API Evaluation evaluate(const TextModel& model, const Dataset& data,
                               const PredictOptions& predicting = {}, const ScoreOptions& scoring = {});

// Two models on the same rows: the difference of the main score, its interval, and how likely one as large
// would be if both were equally good (paired bootstrap; for classes also McNemar's exact test).
struct Comparison {
  double difference = 0;  // b − a
  double low = 0, high = 0;
  double p_value = 1;
  double mcnemar_p = 1;  // NaN where rows are not right or wrong
  size_t only_a = 0, only_b = 0;  // rows that only one of them has right
};
BERTIE_API Comparison compare(const Dataset& data, const Predictions& a, const Predictions& b,
                              const ScoreOptions& options = {.resamples = 2000});

}  // namespace bertie
