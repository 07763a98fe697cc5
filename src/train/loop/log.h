#pragma once
// A run's log: log.jsonl, a JSON object a line, and the same numbers for TensorBoard.
//
//   {"step":10,"tokens":81920,"epoch":0.01,"loss":10.9,"token_loss":10.2,…}
//   {"step":500,"held_out_loss":7.9,…}
//
// A run that resumes from a checkpoint first removes what was logged after it, so that no step is there
// twice. Writing allocates only where a line is longer than all before it.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/train.h"
#include "train/loop/event_file.h"

namespace bertie {

// A line of log.jsonl and an event with the same numbers, in memory that is used again and again.
class LogEntry {
 public:
  LogEntry();
  void start(uint64_t step);
  void whole(std::string_view key, uint64_t value);  // in the line only
  // `prefix`+`name`+`suffix` in the line, `folder`/`name`+`suffix` in the event: {"held_out_loss":7.9} and
  // held_out/loss. Null where the value is not finite.
  struct Place {
    std::string_view prefix, folder;
  };
  void number(const Place& place, std::string_view name, double value, std::string_view suffix = {});
  void watched(const std::vector<Watched>& texts);  // in the line only
  void metrics(const Place& place, const std::vector<Metric>& metrics);
  std::string_view line();  // whole; nothing may be added after it
  std::span<const Scalar> scalars() const { return std::span(scalars_).first(count_); }

 private:
  std::string line_;
  std::vector<Scalar> scalars_;
  size_t count_ = 0;  // of scalars_
};

class RunLog {
 public:
  // Keeps lines of steps up to `last_step`. Throws Error, also where log.jsonl is not a run's: then it is not
  // touched.
  RunLog(const std::filesystem::path& folder, uint64_t last_step);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void write(const TrainProgress& progress);
  void write(const EvalResult& result);
  const std::filesystem::path& path() const { return path_; }

 private:
  void write_entry(uint64_t step);

  std::filesystem::path path_;
  int file_ = -1;
  EventFile events_;
  LogEntry entry_;
};

// How many bytes of such a log are whole lines of steps up to `last_step`, which come first.
size_t log_bytes_up_to(std::string_view log, uint64_t last_step);

// Whether this begins as such a log does, which may be empty or end anywhere.
bool is_run_log(std::string_view log);

}  // namespace bertie
