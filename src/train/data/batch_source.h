#pragma once
// Where a training run gets its batches from. A source is one endless stream of sequences, the same for every
// number of ranks and micro-batches: a step takes the next `count` of it, and each rank makes those it needs.
#include <cstdint>
#include <string>
#include <vector>

#include "bertie/model.h"
#include "model/learner.h"

namespace bertie {

// What a TrainingBatch looks at.
struct BatchStorage {
  std::vector<int32_t> ids, types, offsets;         // the batch
  std::vector<int32_t> target_ids, target_offsets;  // what a decoder reads; encoder-decoders only
  std::vector<int32_t> rows, targets;  // tokens to be told: rows of the batch (or target), and what
                                       // stands there
  std::vector<int32_t> labels;         // one for each sequence: is next, was swapped; or none

  Batch batch() const { return {.ids = ids, .types = types, .offsets = offsets}; }
  Batch target() const { return {.ids = target_ids, .offsets = target_offsets}; }
  size_t sequences() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  void clear() {
    for (auto* v : {&ids, &types, &offsets, &target_ids, &target_offsets, &rows, &targets, &labels})
      v->clear();
  }
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Takes the next `count` sequences of the stream as a step's.
  virtual void begin_step(size_t count) = 0;
  // Sequences first .. first+count-1 of this step. Calls with the same arguments give the same, in any order.
  virtual void make(size_t first, size_t count, BatchStorage& into) = 0;

  // Where the stream is, before the next begin_step; to be saved and given to seek. Error for a cursor that
  // is not this source's.
  virtual std::string cursor() const = 0;
  virtual void seek(const std::string& cursor) = 0;
  // How often all of the data has been seen: for the progress line.
  virtual double epochs() const = 0;
};

}  // namespace bertie
