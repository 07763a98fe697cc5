#pragma once
// A run's log: log.jsonl, a JSON object a line, and the same numbers for TensorBoard.
//
//   {"step":10,"tokens":81920,"epoch":0.01,"loss":10.9,"token_loss":10.2,…}
//   {"step":500,"held_out_loss":7.9,…}
//
// A run that goes on from a checkpoint first takes back what was logged after it, so that no step is there
// twice. Writing takes no memory.
#include <cstdint>
#include <filesystem>
#include <span>

#include "bertie/train.h"
#include "train/loop/event_file.h"

namespace bertie {

class RunLog {
 public:
  // Keeps lines of steps up to `last_step`. Throws Error, also where a log.jsonl is not a run's: that stays
  // as it is.
  RunLog(const std::filesystem::path& folder, uint64_t last_step);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void write(const TrainProgress& progress);
  void write(const EvalResult& result);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int file_ = -1;
  EventFile events_;
};

// How many bytes of such a log are whole lines of steps up to `last_step`, which come first.
size_t log_bytes_up_to(std::string_view log, uint64_t last_step);

// Whether this begins as such a log does, which may be empty or end anywhere.
bool is_run_log(std::string_view log);

}  // namespace bertie
