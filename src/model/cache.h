#pragma once
// What a Cache holds: for each sequence, each layer's keys and values, (capacity, C) each.
#include <vector>

#include "bertie/model.h"
#include "core/arena.h"

namespace bertie {

struct KeyValues {
  struct Sequence {
    Block memory;
    size_t capacity = 0, length = 0;
  };
  size_t depth, hidden, most;
  std::vector<Sequence> sequences;

  // Keys (which = 0) or values (1) of a layer: `rows` of them.
  Matrix<float> table(size_t sequence, size_t layer, size_t which, size_t rows) const {
    const Sequence& s = sequences[sequence];
    return {s.memory.as<float>() + (2 * layer + which) * s.capacity * hidden, rows, hidden};
  }
  // Makes room for `tokens` in all, at least doubling, so that a long text is copied a few times only.
  void grow(size_t sequence, size_t tokens);
};

}  // namespace bertie
