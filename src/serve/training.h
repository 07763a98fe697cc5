#pragma once
// Logs of training runs for the page: the curves of log.jsonl while it grows, and what the model said at each
// evaluation.
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/serve.h"

namespace bertie::serve {

// One log, from a file that a run may be writing to, or from memory. Reads what is new when it is asked, some
// megabytes at once and once a second, so that no client can keep it busy. Thread-safe.
class TrainingLog {
 public:
  explicit TrainingLog(std::filesystem::path file) : file_(std::move(file)) {}
  explicit TrainingLog(std::string_view lines) { add(lines); }

  // {"step": 50, "tokens": 9000, "points": {"step": [...], "loss": [...], ...}, "evaluations": [{...}, ...]}.
  // Points are means over equal numbers of lines, at most `most` of them; evaluations are the log's own
  // lines.
  nlohmann::ordered_json curves(size_t most);
  std::string reply(const std::string& name);  // the same as JSON, at most a second old

 private:
  nlohmann::ordered_json curves_now(size_t most);
  void forget();
  void read_more();
  void add(std::string_view lines);
  void add_line(std::string_view line);

  std::mutex mutex_;
  std::filesystem::path file_;
  uint64_t read_ = 0;                                 // bytes of the file, all of them whole lines
  std::string last_;                                  // the end of these
  std::map<std::string, std::vector<float>> points_;  // NaN where a line does not have it
  size_t count_ = 0;
  double step_ = 0, tokens_ = 0;                    // of the last point
  std::deque<nlohmann::ordered_json> evaluations_;  // the last ones
  std::string reply_;
  std::chrono::steady_clock::time_point replied_ = {};
};

// By name. Folders of runs, and models that came with the log of their training: training.jsonl.
using TrainingLogs = std::map<std::string, std::unique_ptr<TrainingLog>>;
TrainingLogs training_logs(const ServeOptions& options);  // Error where a folder has no log

}  // namespace bertie::serve
