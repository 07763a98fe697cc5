#pragma once
// Logs of training runs for the page: the curves of log.jsonl while it grows, and what the model said at each
// evaluation.
#include <cstdint>
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

// One log, from a file that a run may be writing to, or from memory. Reads what is new when it is asked.
// Thread-safe.
class TrainingLog {
 public:
  explicit TrainingLog(std::filesystem::path file) : file_(std::move(file)) {}
  explicit TrainingLog(std::string_view lines) { add(lines); }

  // {"points": {"step": [...], "loss": [...], ...}, "evaluations": [{...}, ...]}. Points are means over equal
  // numbers of lines, at most `most` of them; evaluations are the log's own lines, the last `most`.
  nlohmann::ordered_json curves(size_t most = 400);

 private:
  void read_more();
  void add(std::string_view lines);  // whole ones
  void add_line(std::string_view line);

  std::mutex mutex_;
  std::filesystem::path file_;
  uint64_t read_ = 0;                                 // bytes of the file
  std::map<std::string, std::vector<float>> points_;  // NaN where a line does not have it
  size_t count_ = 0;
  std::vector<nlohmann::ordered_json> evaluations_;
};

// By name. Folders of runs, and models that came with the log of their training: training.jsonl.
using TrainingLogs = std::map<std::string, std::unique_ptr<TrainingLog>>;
TrainingLogs training_logs(const ServeOptions& options);  // Error where a folder has no log

}  // namespace bertie::serve
