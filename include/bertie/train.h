#pragma once
// Training: a BERT from shards of text (docs/pretraining.md).
//
//   bertie::pretrain({.data = "shards", .size = "tiny", .train = {.out = "run", .steps = 20'000}},
//                    {.progress = [](const bertie::TrainProgress& p) { … }});
//
// A run writes checkpoints into its folder, each of them a whole model for Model::load and transformers. A
// run that was killed continues from the last one with `resume`, to the same bits as if it had never stopped.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "bertie/export.h"
#include "bertie/results.h"

namespace bertie {

// The learning rate's factor over a run's progress p from 0 to 1, with a warm-up that ends at w.
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
  kMuon,      // layers' matrices by the mean gradient made orthogonal; all else as kAdamW
};

// "linear", "bert-linear" …; "adamw", "bert-adam", "lamb", "muon".
BERTIE_API std::string_view name_of(Schedule schedule);
BERTIE_API std::string_view name_of(OptimizerMethod method);

// How to train, whatever is learned.
struct TrainOptions {
  std::filesystem::path out;  // the run's folder: checkpoints and logs
  // Continue from the newest whole checkpoint in `out`, or start where there are none at all. Error where
  // there are some but none is whole.
  bool resume = false;

  size_t batch = 0;  // sequences a step, over all ranks; 0: the job's default (pretrain: 64)
  // Micro-batches that a rank's share is cut into: the same step in less memory. 0: the job's default
  // (pretrain: 1).
  size_t accumulate = 0;

  // The run ends when one of these is reached, and the schedule follows the one that is nearest. 0: no such
  // limit. All 0: as many steps as the job takes by default (pretrain: 20,000).
  uint64_t steps = 0, tokens = 0;
  double seconds = 0;

  double rate = 0;  // the highest learning rate; 0: the job's default (pretrain: 0.128 / hidden size)
  Schedule schedule = Schedule::kLinear;
  double warmup = 0.1;    // share of the run, 0 … 1; from 1 on it is a number of steps, which needs `steps`
  double cooldown = 0.2;  // kStable only: share of the run
  OptimizerMethod method = OptimizerMethod::kAdamW;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-6;
  double decay = 0.01;  // of weights: not of biases and norms
  double clip = 1;      // largest norm of the gradient; 0: no limit
  // What is evaluated and saved as the model is a running mean of the parameters: after each step it is
  // `average` of what it was and the rest of what they are now (early on less, so that the start is soon
  // forgotten). 0: the parameters themselves.
  double average = 0;
  // A step whose gradient norm is not finite, or above this many times the median of the last 64, is skipped.
  // 0: only what is not finite. Nothing: the job's default (pretrain: 20, fine-tuning: 0).
  std::optional<double> outlier = {};
  // Linear layers' products in bf16; sums, weights, evaluations and all else stay in fp32. Much faster on
  // CPUs that have such products (AVX512_BF16, AMX); others compute in fp32, and a warning says so.
  bool bf16 = false;

  uint64_t seed = 1;  // of everything random: fresh parameters, data order, masks, dropout

  // Steps between evaluations; 0: none. Nothing: the job's default (pretrain: 500).
  std::optional<uint64_t> eval_every = {};
  size_t eval_sequences = 1024;  // of an evaluation, at most, spread over all held-out data; 0: all of it
  size_t patience = 0;           // evaluations without a better result after which the run ends; 0: no end

  uint64_t save_every = 0;    // steps between checkpoints; 0: by time alone
  double save_seconds = 600;  // 0: by steps alone. At the end there is always one
  size_t keep = 2;            // checkpoints; the best one is kept beside them

  uint64_t log_every = 10;  // steps
};

// One of a run's losses: "token" for masked (or next) tokens, "label" for sentence pairs. Logs call its
// numbers token_loss and token_accuracy.
struct Metric {
  std::string name = {};
  double loss = 0;      // mean over `count` targets
  double accuracy = 0;  // share of targets that the model got right; NaN where that means nothing
  uint64_t count = 0;
};

// After a step. Losses and accuracies are means over the steps since the last log line.
struct TrainProgress {
  uint64_t step = 0, steps = 0, tokens = 0;  // steps: of the whole run; 0 where that is not known
  double fraction = 0;                       // of the run
  double epochs = 0;
  double loss = 0;  // the weighted sum of the metrics' losses: what is minimized
  std::vector<Metric> metrics = {};
  double rate = 0, gradient_norm = 0, tokens_per_second = 0;
  double seconds = 0, seconds_left = 0;  // of the run, including before it was resumed
  uint64_t skipped = 0;                  // steps
};

// What a model says now of a text with masks: for each mask the likeliest tokens, best first.
struct Watched {
  std::string text;
  std::vector<std::vector<Fill>> masks = {};
};

struct EvalResult {
  uint64_t step = 0;
  double loss = 0;  // NaN where the job measures scores alone
  std::vector<Metric> metrics = {};
  std::vector<NamedScore> scores = {};  // fine-tuning; the first decides which checkpoint is the best
  std::vector<Watched> watched = {};    // PretrainJob::watch
  size_t sequences = 0;
  bool best = false;  // so far
};

// Called between steps; all but `stop` and `failed` on rank 0 only.
struct TrainEvents {
  std::function<void(const TrainProgress&)> progress = {};  // after each step
  std::function<void(const EvalResult&)> evaluated = {};
  std::function<void(const std::filesystem::path&)> saved = {};
  std::function<void(std::string_view what)> note = {};     // worth knowing: where the run continues
  std::function<void(std::string_view what)> warning = {};  // a damaged checkpoint, a skipped step
  std::function<bool()> stop = {};                          // true: save, and end
  // A run of several ranks cannot continue. Called on the rank that has the error, or that saw another one
  // die (then from a thread of its own), before all ranks are stopped. Without it `warning` is called.
  std::function<void(const Error& error)> failed = {};
};

enum class TrainEnd { kLimit, kStopped, kPatience };

struct TrainResult {
  TrainEnd end = TrainEnd::kLimit;
  int rank = 0;  // that returns this; rank 0 is the one that reports
  uint64_t step = 0, tokens = 0, skipped = 0;
  double seconds = 0, loss = 0;  // of the last log line
  double best_loss = 0;          // on held-out data
  double best_score = 0;         // of a job with scores, which has no best_loss
  uint64_t best_step = 0;        // 0: there was no evaluation
  std::filesystem::path checkpoint = {};
};

// A larger model that a smaller one, its student, learns from (Hinton et al. 2015; docs/distillation.md).
struct Teaching {
  std::string teacher = {};  // a folder or a name; empty: there is none
  // Of the teacher, what a student without a model of its own begins with: these layers, in order; or, where
  // there are none, so many spread evenly over all of them, the first and the last among them; 0: half.
  std::vector<size_t> layers = {};
  size_t depth = 0;
  // What both models' logits are divided by: the higher, the more a student hears of what is less likely.
  double temperature = 2;
  // The loss is soft_weight times the distance to what the teacher says (T²·KL), hard_weight times the loss
  // on the labels or masked tokens, and, in pre-training, hidden_weight times 1 − cos of the last hidden
  // states. Fine-tuning: 0.5 and 0.5; pre-training, as DistilBERT's authors had it: 5, 2 and 1.
  std::optional<double> soft_weight = {}, hard_weight = {}, hidden_weight = {};
};

struct PretrainJob {
  std::filesystem::path data;  // what bertie::prepare wrote; for seq2seq pairs of texts
  // The model: a size (tiny, mini, small, medium, base, large) or a config.json, not both; or `from`'s own.
  std::string size = {};
  std::filesystem::path config = {};
  std::string from = {};  // a checkpoint whose weights are the start
  // Without `from`: random weights as in the paper, or nearby, with which heads look at words nearby from the
  // start: a small model learns sooner.
  std::string initial = "random";
  std::string objective = "mlm+nsp";  // mlm, mlm+nsp, mlm+sop, causal, seq2seq
  Teaching teaching = {};             // a student of a language model; not for seq2seq
  size_t max_length = 128;            // of a sequence, special tokens included
  // Of the mlm objectives only: share of tokens to mask; masked tokens of a sequence at most (0: as many as
  // mask_rate says); all pieces of a word or none.
  double mask_rate = 0.15;
  std::optional<double> mask_rate_end = {};  // to which it goes over the run, in a straight line
  size_t max_predictions = 0;
  bool whole_words = false;
  // The second text of a random pair comes from a document at most so many before or after the first one's,
  // which is of the same kind of text where several were prepared in turn. 0: from any; so are held-out
  // pairs.
  size_t random_within = 0;
  std::vector<std::string> watch = {};  // texts with masks, to be filled at each evaluation
  double dropout = -1;                  // below 0: as the config says
  bool recompute = false;  // less memory, more time: layers are computed again in the backward pass
  int threads = 0;         // of a rank; 0: one for every core
  TrainOptions train = {};
};

// Throws Error; what was saved before is whole. Under mpirun all ranks call it (docs/scaling.md).
BERTIE_API TrainResult pretrain(const PretrainJob& job, const TrainEvents& events = {});

// What a job would learn from, to look at: its first sequences, and what was done to them.
struct PretrainPreview {
  struct Token {
    std::string token;                       // as the model reads it
    std::optional<std::string> target = {};  // what it should say there
  };
  struct Sequence {
    std::vector<Token> tokens;
    std::optional<int> label = {};  // of a pair: 0 the second follows (sop: in order), 1 it does not
  };
  std::vector<Sequence> sequences = {};
  // Over `counted` sequences: tokens, special ones too; those to be predicted, and what stands in their
  // place: the mask, another token, they themselves. And pairs with label 0.
  size_t counted = 0, tokens = 0, chosen = 0, masked = 0, changed = 0, kept = 0, pairs = 0, next = 0;
};
// Of the first `sequences`, and counts over 1,000 or more. The job's data and how it is masked are looked at,
// not its model. Throws Error, also for seq2seq.
BERTIE_API PretrainPreview preview(const PretrainJob& job, size_t sequences);

// How well a language model knows the held-out part of shards: masked tokens (or the next ones), and next
// sentences where it has a head for them.
struct LanguageModelJob {
  std::string model;
  std::filesystem::path data;  // shards of bertie::prepare, with the model's own vocabulary
  std::string objective = {};  // as PretrainJob's; empty: what the model's heads and family are usually for
  size_t max_length = 0;       // of a sequence, special tokens included; 0: 128, or what the model takes
  double mask_rate = 0.15;
  bool whole_words = false;
  size_t sequences = 0;  // spread over all of it; 0: all
  uint64_t seed = 1;     // of the masks
  int threads = 0;       // 0: one for every core
  std::function<void(size_t done, size_t all)> progress = {};
};
struct LanguageModelScores {
  int rank = 0;  // under mpirun ranks share the work, and all have the result
  size_t sequences = 0;
  uint64_t tokens = 0;  // read
  std::vector<Metric> metrics = {};
  // What a token costs, in bits, times tokens for each byte of text: so that vocabularies compare. Of a
  // masked model the tokens around are known, so it is no measure of compression.
  double bits_per_byte = 0;
};
BERTIE_API LanguageModelScores evaluate(const LanguageModelJob& job);  // throws Error

// Steps of pre-training on random data with BERT's masks (15%) and pairs: for measuring.
class BERTIE_API PretrainBenchmark {
 public:
  struct Options {
    std::string size = "tiny";
    size_t batch = 32, length = 128, accumulate = 1;  // sequences, tokens of each, micro-batches
    bool recompute = false, bf16 = false;
    int threads = 0;  // 0: one for every core
  };
  explicit PretrainBenchmark(const Options& options);  // throws Error
  ~PretrainBenchmark();
  PretrainBenchmark(PretrainBenchmark&&) noexcept;
  PretrainBenchmark& operator=(PretrainBenchmark&&) noexcept;

  bool bf16() const;                // as asked, and the machine has it
  void step();                      // forward, backward, clip, AdamW
  double operations() const;        // of a step's matrix products: docs/pretraining.md
  size_t state_bytes() const;       // parameters, gradients, moments
  size_t activation_bytes() const;  // what the passes keep, after the first step

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
