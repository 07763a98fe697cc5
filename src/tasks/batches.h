#pragma once
// Many token sequences through a model: neighbors of like length share a batch of some 2,000 tokens, which
// keeps activations in the cache. Results do not depend on who shares a batch with whom.
#include <cstdint>
#include <functional>
#include <vector>

#include "bertie/model.h"
#include "bertie/tokenizer.h"

namespace bertie {

// Sequences one after the other: sequence i has tokens starts[i] .. starts[i+1]-1.
struct Sequences {
  std::vector<int32_t> ids, types;
  std::vector<size_t> starts{0};
  // What the encoding says of each token; for sequences that were added with their places.
  std::vector<Offset> offsets;
  std::vector<int32_t> words;
  std::vector<int8_t> texts;
  // Tokens whose logits are wanted, from the sequence's own 0 on; all where none are listed.
  std::vector<int32_t> wanted;
  std::vector<size_t> wanted_starts{0};

  size_t size() const { return starts.size() - 1; }
  size_t length(size_t i) const { return starts[i + 1] - starts[i]; }
  size_t wanted_count(size_t i) const { return wanted_starts[i + 1] - wanted_starts[i]; }
  std::span<const int32_t> ids_of(size_t i) const { return std::span(ids).subspan(starts[i], length(i)); }

  void clear();
  void add(const Encoding& encoding);
  void add(std::span<const int32_t> tokens);  // all of type 0
  void add_with_places(const Encoding& encoding);
  void want(size_t token);  // of the sequence that was added last
};

// Error if a number is NaN or infinite: such a model has no answers, and comparing them has no order.
void check_finite(Matrix<const float> numbers);

// Workspace for running them; it keeps its memory.
class Batches {
 public:
  // Calls use(i, rows) once for each sequence, in any order: the head's logits (one row for heads that judge
  // whole sequences, else one for each token or wanted token), or without a head the last hidden states.
  // The rows are gone when the call returns. `done`, if given, is called after each batch.
  using Use = std::function<void(size_t sequence, Matrix<const float> rows)>;
  void run(Run& run, const Sequences& all, std::optional<Head> head, const Use& use,
           const std::function<void()>& done = {});

 private:
  std::vector<size_t> order_;
  std::vector<int32_t> ids_, types_, offsets_, rows_;
};

}  // namespace bertie
