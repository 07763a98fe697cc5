#pragma once
// What every task of a Pipeline works with, and the way that all but generation go: inputs to sequences, in
// batches through the model, results to where they belong.
#include <functional>
#include <memory>
#include <vector>

#include "bertie/pipeline.h"
#include "tasks/batches.h"
#include "tasks/reader.h"

namespace bertie {

struct Pipeline::Shared {
  Reader reader;
};

struct Pipeline::State {
  State(std::shared_ptr<const Shared> s, int threads, size_t length)
      : shared(std::move(s)), run(shared->reader.model, threads), max_length(length) {}

  struct Work {
    Head head;
    size_t inputs;
    // Puts an input into `sequences`: one, or several windows of it.
    std::function<void(size_t input)> add;
    // The logits of one sequence; `sequences` still has it.
    std::function<void(size_t input, size_t sequence, Matrix<const float> rows)> use;
    // All sequences of an input, first .. end-1, have been used; may be missing.
    std::function<void(size_t input, size_t first, size_t end)> finish = {};
  };
  // Inputs are taken up to some 65,000 tokens at a time, so that memory is bounded.
  void work(const Work& work);

  const Tokenizer& tokenizer() const { return shared->reader.tokenizer; }
  const Model& model() const { return shared->reader.model; }
  void need(Head head) const;
  // Adds the sequence of a text or a pair, cut at max_length.
  void add_cut(std::string_view text);
  void add_cut(const TextPair& pair);

  std::shared_ptr<const Shared> shared;
  Run run;
  size_t max_length;
  std::function<void(size_t, size_t)> progress;
  size_t truncated = 0;
  // Reused from call to call.
  Encoding encoding;
  Sequences sequences;
  Batches batches;
  std::vector<float> scores;
  std::vector<size_t> owners, left;
};

// Numbers to probabilities, in place. In double, so that they sum to 1.
void softmax(std::span<float> numbers);

}  // namespace bertie
