#pragma once
// Training: a BERT from shards of text (docs/pretraining.md).
//
//   bertie::pretrain({.data = "shards", .size = "tiny", .train = {.out = "run", .steps = 20'000}},
//                    {.progress = [](const bertie::TrainProgress& p) { … }});
//
// A run writes checkpoints into its folder, each of them a whole model for Model::load and transformers. A
// run that was killed goes on from the last one with `resume`, to the same bits as if nothing had happened.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "bertie/export.h"

namespace bertie {

// How the learning rate goes, over a run's progress p from 0 to 1 with a warm-up that ends at w. Times rate.
enum class Schedule {
  kLinear,      // p/w, then (1 − p)/(1 − w): transformers' get_linear_schedule_with_warmup
  kBertLinear,  // p/w, then 1 − p: the decay runs from the start, as in BERT's original code
  kCosine,      // p/w, then (1 + cos(π·(p − w)/(1 − w)))/2
  kConstant,    // p/w, then 1
  kStable,      // p/w, then 1, then from 1 − cooldown on linearly to 0
};

enum class OptimizerMethod {
  kAdamW,     // with bias correction: PyTorch's
  kBertAdam,  // without: BERT's original
  kLamb,      // each tensor's step as long as the tensor: for large batches
};

// The loop, whatever is learned.
struct TrainOptions {
  std::filesystem::path out;  // the run's folder: checkpoints and logs
  // From its newest whole checkpoint, or the start where there are none at all. Error where none is whole.
  bool resume = false;

  size_t batch = 64;      // sequences a step, over all ranks
  size_t accumulate = 1;  // micro-batches that a rank's share is cut into: the same step in less memory

  // The run ends when one of these is reached, and the schedule follows the one that is nearest. 0: no limit;
  // there must be one.
  uint64_t steps = 0, tokens = 0;
  double seconds = 0;

  double rate = 0;  // the highest; 0: pretrain takes one that fits the model's width
  Schedule schedule = Schedule::kLinear;
  double warmup = 0.1;    // share of the run, 0 … 1; from 1 on it is a number of steps, which needs `steps`
  double cooldown = 0.2;  // of kStable: share of the run
  OptimizerMethod method = OptimizerMethod::kAdamW;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6;
  double decay = 0.01;  // of weights: not of biases and norms
  double clip = 1;      // the gradient's norm is at most this; 0: no limit
  // A step whose gradient norm is not finite, or above this many times the median of the last 64, is not
  // taken. 0: only what is not finite.
  double outlier = 20;

  uint64_t seed = 1;      // of dropout (and, in pretrain, of everything)
  bool drops_out = true;  // dropout as the model's config says

  uint64_t eval_every = 500;     // steps between looks at held-out data; 0: never
  size_t eval_sequences = 1024;  // at most, spread over all of it; 0 (in pretrain): all
  size_t patience = 0;           // looks without a better loss, after which the run ends; 0: it goes on

  uint64_t save_every = 0;    // steps between checkpoints; 0: by time alone
  double save_seconds = 600;  // 0: by steps alone. At the end there is always one
  size_t keep = 2;            // checkpoints; the best one is kept beside them

  uint64_t log_every = 10;  // steps
  size_t max_length = 0;  // tokens of a sequence, at most: memory for batches is taken once; 0: as they come
};

// What is known after a step. Losses and accuracies are means over the steps since the last log line.
struct TrainProgress {
  uint64_t step = 0, steps = 0, tokens = 0;  // steps: 0 where nobody knows
  double fraction = 0;                       // of the run
  double epochs = 0;
  double loss = 0, token_loss = 0, label_loss = 0;  // the sum; of masked (or next) tokens; of sentences
  double token_accuracy = 0, label_accuracy = 0;
  bool has_labels = false;
  double rate = 0, gradient_norm = 0, tokens_per_second = 0;
  double seconds = 0, seconds_left = 0;  // of the run, also before it was resumed
  uint64_t skipped = 0;                  // steps that were not taken
};

struct EvalResult {
  uint64_t step = 0;
  double loss = 0, token_loss = 0, label_loss = 0, token_accuracy = 0, label_accuracy = 0;
  size_t sequences = 0;
  bool has_labels = false, best = false;
};

// Called between steps, all but `stop` on rank 0 only.
struct TrainEvents {
  std::function<void(const TrainProgress&)> progress = {};  // after each step
  std::function<void(const EvalResult&)> evaluated = {};
  std::function<void(const std::filesystem::path&)> saved = {};
  std::function<void(std::string_view what)> note = {};     // worth saying: where it goes on
  std::function<void(std::string_view what)> warning = {};  // a damaged checkpoint, a skipped step
  std::function<bool()> stop = {};                          // true: save, and end
};

enum class TrainEnd { kLimit, kStopped, kPatience };

struct TrainResult {
  TrainEnd end = TrainEnd::kLimit;
  uint64_t step = 0, tokens = 0, skipped = 0;
  double seconds = 0, loss = 0;  // of the last log line
  double best_loss = 0;          // on held-out data
  uint64_t best_step = 0;        // 0: nobody looked
  std::filesystem::path checkpoint;
};

struct PretrainJob {
  std::filesystem::path data;  // what `bertie prepare` wrote
  // The model: a size (tiny, mini, small, medium, base, large), a config.json, or what `from` has.
  std::string size = {};
  std::filesystem::path config = {};
  std::filesystem::path from = {};    // a checkpoint whose weights are the start
  std::string objective = "mlm+nsp";  // mlm, mlm+nsp, mlm+sop, causal, seq2seq
  size_t max_length = 128;            // of a sequence, special tokens included
  double mask_rate = 0.15;
  size_t max_predictions = 0;  // masked tokens of a sequence, at most; 0: as many as mask_rate says
  bool whole_words = false;
  double dropout = -1;     // below 0: as the config says
  bool recompute = false;  // less memory, more time: layers are computed again on the way back
  bool bf16 = false;       // layers multiply numbers rounded to bf16 where the processor can; it warns if not
  int threads = 0;         // 0: one for every core
  TrainOptions train = {};
};

// Throws Error; what was saved before is whole.
BERTIE_API TrainResult pretrain(const PretrainJob& job, const TrainEvents& events = {});

}  // namespace bertie
