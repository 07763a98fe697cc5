#pragma once
// The training loop: batches from a source, a learner's passes, an optimizer's steps; evaluation, logs and
// checkpoints between them; on one rank or many.
//
//   Trainer trainer({.learner = *learner, .source = *source, .ranks = *ranks}, options, events);
//   TrainResult result = trainer.run();
//
// A run is a pure function of the learner's parameters at the start, the source and the options: not of the
// number of threads, nor of where it was stopped and resumed. After the first step no step allocates.
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bertie/train.h"
#include "train/data/batch_source.h"
#include "train/loop/batch_step.h"
#include "train/loop/log.h"
#include "train/loop/optimizer.h"
#include "train/loop/run_folder.h"
#include "train/loop/schedule.h"
#include "train/ranks/collective.h"

namespace bertie {

// Batch, evaluations and outliers where nothing was said of them: those of pre-training.
TrainOptions with_defaults(TrainOptions options);
// What is worth a warning before the run; empty: nothing.
std::string warning_of(const TrainOptions& options);

class Trainer {
 public:
  // What a job puts together. Everything it refers to outlives the trainer.
  struct Parts {
    Learner& learner;
    BatchSource& source;
    BatchSource* held_out = nullptr;  // to evaluate on, from where it is now
    Collective& ranks;
    size_t eval_sequences = 0;  // of an evaluation: the next of held_out
    // How good the model is now, on rank 0, the higher the better: then the first of these decides what is
    // best, and not the loss on held_out. With one rank it may throw EvaluationStopped: the run is saved and
    // ends as if it had been asked to between steps, and evaluates when it is resumed.
    std::function<std::vector<NamedScore>()> scores = {};
    std::function<std::vector<Watched>()> watch = {};  // beside an evaluation, on rank 0
    size_t max_length = 0;  // tokens of a sequence, at most, to allocate once; 0: as they come
    bool dropout = true;    // false: the model's config has none
    std::optional<ModelFiles> tokenizer = {};  // whose files go into each checkpoint
    // A JSON object with what else determines the run: saved, and compared when a run is resumed.
    std::string description = "{}";
    std::function<double()> clock = {};  // seconds since some time; empty: the machine's
  };
  // Throws Error for options that make no sense, for a folder that has checkpoints already (without
  // `resume`), and for checkpoints of another model.
  Trainer(const Parts& parts, const TrainOptions& options, const TrainEvents& events = {});

  TrainResult run();
  struct EvaluationStopped {};

  bool finished() const;
  void step();
  EvalResult evaluate();
  std::filesystem::path save(bool best = false);
  const TrainProgress& progress() const { return progress_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool first_rank() const { return parts_.ranks.rank() == 0; }
  double now() const;      // this rank's clock: never for a decision that all ranks must take alike
  double seconds() const;  // of the run, by it
  double fraction_at(double seconds) const;
  BatchStep::Shape shape() const;
  void report(const StepSums& sums, const StepTaken& taken, double rate);
  void report_skipped(const StepTaken& taken) const;
  const char* best_key() const { return parts_.scores ? "score" : "loss"; }  // in state.json
  bool can_evaluate() const { return parts_.held_out || parts_.scores; }
  bool eval_due() const;
  bool save_due() const;
  bool agree_to_stop();
  void begin();
  void open_log();
  void restore(const RunFolder::Found& found);
  void set_state(const nlohmann::json& state, const std::string& name);
  nlohmann::ordered_json state() const;
  nlohmann::ordered_json description() const;
  nlohmann::ordered_json rank_description() const;
  std::string layout() const;
  void tell(const std::function<void(std::string_view)>& event, const std::string& what) const;

  Parts parts_;
  TrainOptions options_;
  TrainEvents events_;
  Rates rates_;
  Optimizer optimizer_;
  BatchStep training_;
  std::optional<BatchStep> evaluation_;
  std::optional<RunFolder> folder_;  // rank 0
  std::optional<RunLog> log_;
  std::string held_out_start_;

  uint64_t step_ = 0, tokens_ = 0;
  double seconds_before_ = 0;  // of the run, in earlier processes
  double start_ = 0;           // by now()
  double agreed_seconds_ = 0;  // rank 0's clock at the last step
  double best_result_ = 0;     // a score, where there are any; else a loss
  uint64_t best_step_ = 0;
  size_t evals_since_best_ = 0;
  std::optional<uint64_t> saved_step_, evaluated_step_;
  // Rank 0's clock, on every rank: after the last step, and at the last save.
  double clock_ = 0, saved_at_ = 0;
  std::filesystem::path checkpoint_;

  StepSums since_log_;
  TrainProgress progress_;
  struct {
    Clock::time_point at;
    uint64_t tokens = 0;
    double fraction = 0;
  } session_, rate_from_;
};

}  // namespace bertie
