#pragma once
// What the commands that train have in common: options, signals, the line of progress, and how a run that was
// stopped goes on.
#include <chrono>
#include <string>

#include "bertie/launcher.h"
#include "bertie/train.h"
#include "cli/options.h"

namespace bertie::cli {

// Asks the run to save and end at the first Ctrl-C (or SIGTERM, SIGHUP, SIGUSR1); a second one ends it at
// once. Under mpirun it also says how to stop all ranks.
void catch_stop_signals(const Settings& settings, const Launcher& launcher);
int stop_signal();  // that came; 0: none

// What was given.
TrainOptions train_options(const Settings& settings);

// One line with everything that moves. Written without taking memory, as the steps around it.
class TrainLine {
 public:
  explicit TrainLine(bool wanted, size_t seeds = 1);
  void operator()(const TrainProgress& p);
  void begin_seed(size_t index) { seed_ = index; }

 private:
  bool wanted_;
  size_t seeds_, seed_ = 0;
  double pause_, of_seed_ = 0;  // seconds that one takes
  std::chrono::steady_clock::time_point last_{};
};

// What a run tells, on standard error.
TrainEvents train_events(const Settings& settings, TrainLine& line, const Launcher& launcher);

std::string shell_word(const std::string& word);  // quoted where a shell would take it apart
// The command that was given, as it can be typed; and the one that goes on with its run.
std::string given_command(const Settings& settings);
std::string resume_command(const Settings& settings, const Launcher& launcher);

// The job of bertie pretrain, and what it does with it: bertie distill lm does the same.
PretrainJob pretrain_job(const Settings& settings);
int run_pretraining(const PretrainJob& job, const Settings& settings);

// What --teacher and the options beside it say.
Teaching teaching_of(const Settings& settings);

// The exit code of a run.
int exit_code(TrainEnd end);

}  // namespace bertie::cli
