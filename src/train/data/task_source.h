#pragma once
// Batches for fine-tuning, from labelled data (task_encoding.h says what becomes of a row), and from what a
// teacher says of it. All tokens are kept in memory. The order is a pure function of (data, seed, epoch,
// position in the epoch).
#include <cstdint>
#include <memory>
#include <vector>

#include "train/data/batch_source.h"
#include "train/data/soft_targets.h"
#include "train/data/task_encoding.h"

namespace bertie {

struct TaskSourceOptions {
  EncodeTasksOptions encoding = {};
  uint64_t seed = 0;
  std::vector<float> class_weights = {};  // of classify, pair and tag
  float smoothing = 0;

  // With a teacher: what it says of the data's rows and then of those of `unlabeled`, which have no labels.
  // The loss is hard_weight times the mean over the rows with labels and soft_weight times that over all.
  // Several labels and numbers that a row does not have are the teacher's.
  const Dataset* unlabeled = nullptr;
  const SoftTargets* teacher = nullptr;  // outlives the source
  double hard_weight = 1, soft_weight = 1;
  float temperature = 1;
};

class TaskSource : public BatchSource {
 public:
  virtual size_t sequences() const = 0;   // rows, or windows of them
  virtual size_t truncated() const = 0;   // rows that lost something at max_length
  virtual size_t longest() const = 0;     // tokens of a sequence
  virtual uint64_t tokens() const = 0;    // of an epoch
  virtual uint64_t checksum() const = 0;  // EncodedTasks::checksum
};

// Error for data without rows.
std::unique_ptr<TaskSource> make_task_source(const Dataset& data, const Tokenizer& tokenizer,
                                             const TaskSourceOptions& options);

}  // namespace bertie
