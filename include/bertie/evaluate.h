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
#include <optional>
#include <string>
#include <vector>

#include "bertie/dataset.h"
#include "bertie/export.h"
#include "bertie/results.h"
#include "bertie/text_model.h"

namespace bertie {

// The head that a kind of task is for.
BERTIE_API Head head_of(TaskKind kind);

// An answer as SQuAD's scripts take it.
struct PredictedAnswer {
  std::string text;        // the best answer of the context; empty where there is no answer at all
  double null_odds = 0;    // score of "there is no answer" minus that of `text`
  double probability = 0;  // of `text` among the n_best; where some questions have no answer, and of "none"
};

// What was predicted for each row of a Dataset, in its order. Labels are places in its `labels`.
struct Predictions {
  // kClassify, kPair: (rows, labels) row-major: probabilities; of a regression one number a row.
  std::vector<float> scores = {};
  size_t columns = 0;
  std::vector<std::vector<int32_t>> tags = {};      // kTag: one for each word; -1: none, which is wrong
  std::vector<std::vector<float>> tag_scores = {};  // their probabilities; may be missing
  std::vector<PredictedAnswer> answers = {};        // kAnswer
  size_t truncated = 0;  // kClassify, kPair: rows of which the model read the beginning only
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
  std::vector<NamedScore> scores = {};  // the main one first, or the one that was asked for
  std::vector<ClassScore> classes = {};
  std::vector<std::string> labels = {};
  // (labels, labels): rows are right, columns predicted. One class of several, of at most 200 labels.
  std::vector<size_t> confusion = {};
  // Whether, or how far, each row is right, from 0 to 1: classes, sets of labels, words of a sentence, F1 of
  // an answer. Empty for a regression.
  std::vector<double> row_scores = {};
  // kAnswer with questions that have no answer: the thresholds of null_odds for which f1 and exact_match are
  // the highest on these rows.
  double best_threshold = 0, best_exact_threshold = 0;
};

struct PredictOptions {
  ProgressCallback progress = {};
  // kAnswer: windows as in AnswerOptions, answers as BERT's own script finds them.
  std::optional<size_t> max_length = {};  // 384, or what the model takes
  // Tokens that windows of a long text share. kAnswer: 128, at most half of the context's; kTag: as
  // TagOptions has it, at most a quarter of a window.
  std::optional<size_t> stride = {};
  size_t max_question_tokens = 64;  // at most half a window
  size_t max_answer_tokens = 30, n_best = 20;
};

struct ScoreOptions {
  // kAnswer, where some questions have no answer: none is given where null_odds are above it.
  double threshold = 0;
  std::string metric = {};  // the score that is to be the main one; empty: the usual one for the data
  size_t resamples = 0;     // of the bootstrap; 0: no intervals
  double confidence = 0.95;
  uint64_t seed = 1;
};

// The model's head must fit the data's kind, and its labels must be the data's, in any order. Labels that are
// called LABEL_0, LABEL_1 … are taken by their places, if there are as many.
BERTIE_API Predictions predict(const TextModel& model, const Dataset& data,
                               const PredictOptions& options = {});
// Data as predict wants it: with all labels of the model, of which a small file may lack some; rows without
// labels too. As with_labels, but labels that are the same stay in the data's order.
BERTIE_API Dataset with_labels_of(const TextModel& model, Dataset data, const DatasetOptions& options = {});
// Error where rows have no labels, or where the predictions are not of this data.
BERTIE_API Evaluation score(const Dataset& data, const Predictions& predictions,
                            const ScoreOptions& options = {});
// The main score by its name, of no predictions: so that options that make no sense for this data are an
// Error before anything is predicted.
BERTIE_API NamedScore main_score(const Dataset& data, const ScoreOptions& options = {});
// predict and score, with all labels of the model.
BERTIE_API Evaluation evaluate(const TextModel& model, const Dataset& data,
                               const PredictOptions& predicting = {}, const ScoreOptions& scoring = {});

// Two models on the same rows: the difference of the main score, its interval, and how likely one as large
// would be if both were equally good (paired bootstrap; for classes also McNemar's exact test).
struct Comparison {
  std::string metric;
  double a = 0, b = 0;    // that score of each
  double difference = 0;  // b − a
  double low = 0, high = 0;
  double p_value = 1;
  double mcnemar_p = 1;           // NaN where rows are not right or wrong: a regression
  size_t only_a = 0, only_b = 0;  // rows that only one of them has wholly right
};
BERTIE_API Comparison compare(const Dataset& data, const Predictions& a, const Predictions& b,
                              const ScoreOptions& options = {.resamples = 2000});

// A row that was predicted wrongly.
struct Mistake {
  size_t row = 0, line = 0;    // in the data, from 0; in its file, from 1 (0: not known)
  double confidence = 0;       // in what is wrong: a probability; of a regression, the distance
  std::string a = {}, b = {};  // the text or pair, the sentence, or the question and its context
  std::string right = {}, predicted = {};
};
// The `top` most confident ones, the surest first.
BERTIE_API std::vector<Mistake> mistakes(const Dataset& data, const Predictions& predictions,
                                         size_t top = 100, const ScoreOptions& options = {});
// The same as one page of HTML: no script, nothing from outside.
BERTIE_API std::string mistakes_page(const Dataset& data, const Evaluation& evaluation,
                                     const std::vector<Mistake>& mistakes);

}  // namespace bertie
