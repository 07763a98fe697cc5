#pragma once
// Where a training run gets its batches from. A source is one endless stream of sequences, the same for any
// number of ranks and micro-batches: a step takes the next `count` of it, and each rank makes those it needs.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bertie/model.h"
#include "model/learner.h"

namespace bertie {

// A loss that every batch of a source has.
struct TermSpec {
  std::string name;  // of its metrics: "token" gives token_loss and token_accuracy
  Head head;
  double weight = 1;         // in the sum that is minimized
  bool has_accuracy = true;  // false: "right" means nothing, as in a regression
  // Of LossTerm, the same for all batches.
  std::vector<float> class_weights = {};
  float smoothing = 0;
  float temperature = 1;                 // of a teacher's logits
  const Model* teacher_model = nullptr;  // whose logits are those of BatchStorage::teacher_hidden
  bool matches_hidden = false;           // the angle to BatchStorage::teacher_hidden
};

// The memory of a TrainingBatch.
struct BatchStorage {
  // What a LossTerm refers to; model/learner.h says which heads use which.
  struct Term {
    TermSpec spec;
    std::vector<int32_t> rows = {}, targets = {};
    std::vector<float> values = {};   // instead of targets
    std::vector<float> teacher = {};  // a teacher's logits, rows of `teacher_columns`; instead of targets
    size_t teacher_columns = 0;

    bool uses_hidden() const { return spec.teacher_model || spec.matches_hidden; }
    bool empty() const { return targets.empty() && values.empty() && teacher.empty() && !uses_hidden(); }
  };

  std::vector<int32_t> ids, types, offsets;         // the batch
  std::vector<int32_t> target_ids, target_offsets;  // what a decoder reads; encoder-decoders only
  std::vector<float> teacher_hidden;                // a teacher's last hidden states, one for each of ids
  std::vector<Term> terms;                          // in the order of BatchSource::terms

  explicit BatchStorage(std::span<const TermSpec> specs);
  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
  Batch target() const { return {.ids = target_ids, .offsets = target_offsets}; }
  size_t sequences() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  size_t tokens() const { return ids.size() + target_ids.size(); }  // that the model reads
  // Targets of a term, as the learner counts them: what its loss is the mean of.
  size_t count(const Term& term) const;
  void reserve(size_t sequences, size_t tokens);
  void clear();
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual std::span<const TermSpec> terms() const = 0;
  // Which share of the run is done, 0 … 1, before begin_step: for sources that change on the way.
  virtual void set_progress(double) {}
  // Takes the next `count` sequences of the stream for a step.
  virtual void begin_step(size_t count) = 0;
  // Sequences first .. first+count-1 of this step into a storage for terms(). Calls with the same arguments
  // give the same, in any order.
  virtual void make(size_t first, size_t count, BatchStorage& into) = 0;

  // The stream's position before the next begin_step; to be saved and given to seek, which throws Error for a
  // cursor that is not this source's.
  virtual std::string cursor() const = 0;
  virtual void seek(const std::string& cursor) = 0;
  // How often all of the data has been read: for the progress line.
  virtual double epochs() const = 0;
};

}  // namespace bertie
