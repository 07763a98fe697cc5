#pragma once
// The loop: batches from a source, a learner's passes, an optimizer's steps; looks at held-out data, logs and
// checkpoints between them; on one rank or many.
//
//   Trainer trainer({.learner = *learner, .source = *source, .held_out = nullptr, .ranks = *ranks,
//                    .heads = {Head::kMaskedLm, Head::kNextSentence}}, options, events);
//   TrainResult result = trainer.run();
//
// A run is a pure function of the learner's parameters at the start, the source and the options: not of the
// number of threads, nor of where it was stopped and resumed. After the first step a step takes no memory.
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bertie/train.h"
#include "train/loop/batch_step.h"
#include "train/ranks/collective.h"
#include "train/data/batch_source.h"
#include "train/loop/log.h"
#include "train/loop/optimizer.h"
#include "train/loop/run_folder.h"
#include "train/loop/schedule.h"

namespace bertie {

class Trainer {
 public:
  struct Parts {
    Learner& learner;
    BatchSource& source;
    BatchSource* held_out = nullptr;
    Collective& ranks;
    BatchHeads heads = {};
    std::vector<std::filesystem::path> files = {};  // copied into each checkpoint: the tokenizer's
    // What else decides about the run; saved, and compared by a run that goes on.
    nlohmann::ordered_json about = nlohmann::ordered_json::object();
    std::function<double()> clock = {};  // seconds since some time; the machine's where there is none
  };
  // Everything in `parts` outlives it. Throws Error for options that make no sense, for a folder that has
  // checkpoints already (without `resume`), and for checkpoints that belong to another model.
  Trainer(const Parts& parts, const TrainOptions& options, const TrainEvents& events = {});

  TrainResult run();

  bool finished() const;
  void step();
  EvalResult evaluate();
  std::filesystem::path save(bool best = false);
  uint64_t steps_done() const { return step_; }
  const TrainProgress& progress() const { return progress_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool first_rank() const { return parts_.ranks.rank() == 0; }
  double now() const;      // this rank's clock: never for a decision that all ranks take
  double seconds() const;  // of the run, by it
  double fraction_at(double seconds) const;
  void report(const StepSums& sums, const StepTaken& taken, double rate);
  void tell_skipped(const StepTaken& taken) const;
  bool eval_due() const;
  bool save_due() const;
  bool agree_to_stop();
  void begin();
  void open_log();
  void restore(const RunFolder::Found& found);
  void set_state(const nlohmann::json& state, const std::string& name);
  nlohmann::ordered_json state() const;
  nlohmann::ordered_json description() const;
  nlohmann::ordered_json whole_description() const;
  std::string layout() const;
  void tell(const std::function<void(std::string_view)>& who, const std::string& what) const;

  Parts parts_;
  TrainOptions options_;
  TrainEvents events_;
  Rates rates_;
  Optimizer optimizer_;
  BatchStep batches_;
  std::optional<RunFolder> folder_;  // rank 0
  std::optional<RunLog> log_;
  std::string held_out_start_;

  uint64_t step_ = 0, tokens_ = 0;
  double seconds_before_ = 0;  // that earlier processes spent
  double start_ = 0;           // by now()
  double agreed_seconds_ = 0;  // rank 0's clock at the last step
  double best_loss_ = 0;
  uint64_t best_step_ = 0;
  size_t waited_ = 0;  // looks since the best
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
