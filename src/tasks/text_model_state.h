#pragma once
// What is behind a TextModel: what all handles of a model share, a pool of workers, and the one way by which
// texts become batches and answers.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bertie/error.h"
#include "bertie/text_model.h"
#include "tasks/batches.h"
#include "tasks/modules.h"

namespace bertie {

// The model itself. Constant.
struct LoadedModel {
  Tokenizer tokenizer;
  Model model;
  Modules modules;
  std::optional<Error> modules_error;  // why embed cannot, of a model that can something else
};

// What attention is of: a text's tokens, and the layers that are wanted (empty: all), without weights. Error
// where the text has no tokens or too many, or there is no such layer.
Attention attention_of(const Config& config, const Tokenizer& tokenizer, Encoding encoding,
                       std::vector<size_t> layers);

// What one call works with, and leaves to the next: a Run, and scratch memory.
struct Worker {
  Worker(const Model& model, int threads) : run(model, threads) {}
  Run run;
  Encoding encoding;
  Sequences sequences;
  Batches batches;
  std::vector<float> scores;
  std::vector<size_t> owners, left;
};

// Workers of as many threads each. Thread-safe.
class WorkerPool {
 public:
  WorkerPool(std::shared_ptr<const LoadedModel> loaded, int threads);

  // A worker for one call; it goes back at the end.
  class Lease {
   public:
    Lease(const WorkerPool& pool, std::unique_ptr<Worker> worker) : pool_(pool), worker_(std::move(worker)) {}
    ~Lease() { pool_.put_back(std::move(worker_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Worker& operator*() const { return *worker_; }
    Worker* operator->() const { return worker_.get(); }

   private:
    const WorkerPool& pool_;
    std::unique_ptr<Worker> worker_;
  };
  Lease take(std::span<const WhichHead> off) const;  // with these heads off, whatever the last call had
  int threads() const { return threads_; }

 private:
  void put_back(std::unique_ptr<Worker> worker) const;

  std::shared_ptr<const LoadedModel> loaded_;
  int threads_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
};

struct TextModel::State {
  std::shared_ptr<const LoadedModel> loaded;
  std::shared_ptr<const WorkerPool> workers;
  size_t max_length = 0;                      // 0: what the files say
  std::vector<WhichHead> off = {};            // heads that give nothing
  std::optional<Pooling> other_pooling = {};  // than the files say

  const Tokenizer& tokenizer() const { return loaded->tokenizer; }
  const Model& model() const { return loaded->model; }
  WorkerPool::Lease take_worker() const { return workers->take(off); }  // for one call
  const Pooling& pooling() const { return other_pooling ? *other_pooling : loaded->modules.pooling; }
  size_t dimension() const;
  size_t embed_length() const;
  size_t head_length() const;
  void require(Head head) const;
  // A vector for each input, into rows of `out`; `add` puts an input into worker.sequences, as one or
  // several.
  void embed(size_t inputs, Matrix<float> out, const EmbedOptions& options,
             const std::function<void(Worker&, size_t input)>& add) const;
};

// A call with many inputs. Inputs are taken up to some 65,000 tokens at a time, so that memory is bounded.
struct Work {
  std::optional<Head> head;  // none: hidden states
  size_t inputs;
  // Puts an input into worker.sequences: one, or several windows of it.
  std::function<void(size_t input)> add;
  // The logits or hidden states of one sequence; worker.sequences still has it.
  std::function<void(size_t input, size_t sequence, Matrix<const float> rows)> use;
  // All sequences of an input, first .. end-1, have been used; may be missing.
  std::function<void(size_t input, size_t first, size_t end)> finish = {};
  const ProgressCallback& progress;
};
void run_work(Worker& worker, const Work& work);

// Encodes a text or a pair, cut at max_length, into the worker's encoding, and adds it to its sequences.
void add_cut(Worker& worker, const Tokenizer& tokenizer, std::string_view text, size_t max_length);
void add_cut(Worker& worker, const Tokenizer& tokenizer, const TextPair& pair, size_t max_length);

// A word's token; of one that is several tokens the first. Error, about `field`, where there is none.
int32_t vocabulary_id(const Tokenizer& tokenizer, const std::string& word, const std::string& field);

// Logits to probabilities, in place. In double, so that they sum to 1.
void softmax(std::span<float> logits);

// For rooms above.
class TextModelAccess {
 public:
  static TextModel make(std::shared_ptr<const LoadedModel> loaded, const LoadOptions& options);
  static WorkerPool::Lease worker(const TextModel& model) { return model.state_->take_worker(); }
};

}  // namespace bertie
