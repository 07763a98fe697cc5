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

// A teacher for tasks.
class TaskTeacher {
 public:
  // Error where it has no head for the task.
  TaskTeacher(const std::string& name, TaskKind kind, int threads);

  const std::filesystem::path& folder() const { return folder_; }
  const Config& config() const { return model_.config(); }
  // What it reads of a row at most, if it is not asked to read less.
  size_t max_length() const;
  uint64_t checksum() const;  // of its weights

  // What it says of all rows of `data`, one list after the other. The answers so far are kept in a file, and
  // are not computed again by who asks the same teacher for the same rows. Ranks share the work; the file is
  // rank 0's. `progress` may throw.
  struct Question {
    std::vector<const Dataset*> data;
    EncodeTasksOptions encoding;
    std::filesystem::path file;
  };
  SoftTargets ask(const Question& question, Collective& ranks,
                  const std::function<void(size_t done, size_t all)>& progress);

 private:
  void answer(const EncodedTasks& all, size_t first, size_t end, std::span<float> out);

  std::filesystem::path folder_;
  TaskKind kind_;
  Tokenizer tokenizer_;
  Model model_;
  Run run_;
};

}  // namespace bertie
