#pragma once
// What a fine-tuning job becomes before its first step: data, labels, the shape of the model, defaults.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bertie/finetune.h"
#include "bertie/tokenizer.h"
#include "train/data/task_source.h"
#include "train/teaching.h"

namespace bertie {

struct FinetuneSetup {
  // Reads the data and all of the model but its weights. Error for what makes no sense.
  FinetuneSetup(const FinetuneJob& given, int threads, size_t ranks);

  bool evaluates() const { return data.dev.size() > 0; }
  EncodeTasksOptions encoding() const { return {.max_length = max_length, .stride = job.stride}; }
  // `taught`: what the teacher says; null: there is none, or it was not asked yet.
  std::unique_ptr<TaskSource> make_source(uint64_t seed, const SoftTargets* taught) const;
  // Of the labels and of the teacher, in the loss.
  struct LossWeights {
    double hard = 1, soft = 0;
  };
  LossWeights loss_weights() const;
  // A JSON object with what determines a run, for Trainer::Parts.
  std::string description() const;
  // Names the run by that, by its rows and by when it ends: results under another key are another run's.
  std::string key() const;

  FinetuneJob job;                  // with the model and metric that it does not name
  std::optional<ModelFiles> files;  // of the model that learning begins with
  std::optional<Tokenizer> tokenizer;
  Config config;  // of the model that is made
  SplitDataset data;
  std::optional<Dataset> unlabeled;
  std::optional<TaskTeacher> teacher;
  std::vector<size_t> layers;  // of the teacher, where the model is made of them
  bool continues_head = false;
  size_t max_length = 0, most_length = 0;  // of a sequence, and what the model takes
  bool dev_labels_are_places = false;
  bool shorter = false;  // than what the model takes: its files are to say so
  uint64_t tokens = 0;   // EncodedTasks::checksum of the rows
  FinetunePlan plan;

 private:
  void take_problem_of_teacher();
  void take_labels_of_teacher();
  void check_data() const;
  void check_metric() const;
  void make_plan(size_t ranks);
};

// The defaults of a job with so many rows for a model of this width (docs/finetuning.md).
double default_epochs(size_t rows);
size_t default_batch(size_t rows);
double default_rate(size_t hidden);

}  // namespace bertie
