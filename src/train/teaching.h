#pragma once
// A teacher and what it says (bertie/train.h: Teaching).
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bertie/model.h"
#include "bertie/tokenizer.h"
#include "bertie/train.h"
#include "train/data/soft_targets.h"
#include "train/data/task_encoding.h"
#include "train/ranks/collective.h"

namespace bertie {

// The layers of a teacher that its student begins with. Error for layers that it does not have.
std::vector<size_t> student_layers(const Teaching& teaching, size_t teacher_layers);
// Error unless weights and temperature make sense.
void check_teaching(const Teaching& teaching);
// Of a model's weights: to tell a teacher from another of the same name.
uint64_t weights_checksum(const ModelFiles& files);
// What the labels of a model for texts are; nothing for other kinds.
std::optional<Problem> problem_of(const Config& config, TaskKind kind);

// A teacher for tasks.
class TaskTeacher {
 public:
  // Error where it has no head for the task.
  TaskTeacher(const std::string& name, TaskKind kind, int threads);

  const ModelFiles& files() const { return files_; }
  const Config& config() const { return model_.config(); }
  // What it reads of a row at most, if it is not asked to read less.
  size_t max_length() const;

  // Its logits for all rows of `data`, one list after the other. They are kept in a file of `folder` as they
  // are computed, and read from there by who asks the same teacher for the same rows again. Ranks share the
  // work; the file is rank 0's. `progress`, on all ranks, gives true to stop: then all of them throw
  // Trainer::EvaluationStopped.
  struct Request {
    std::vector<const Dataset*> data;
    EncodeTasksOptions encoding;
    std::filesystem::path folder;
    uint64_t tokens = 0;  // answer: EncodedTasks::checksum of what the student reads, which must be the same
  };
  SoftTargets soft_targets(const Request& request, Collective& ranks,
                           const std::function<bool(size_t done, size_t all)>& progress);

 private:
  void logits_of(const EncodedTasks& all, size_t first, size_t end, std::span<float> out);

  ModelFiles files_;
  TaskKind kind_;
  Tokenizer tokenizer_;
  Model model_;
  Run run_;
};

}  // namespace bertie
