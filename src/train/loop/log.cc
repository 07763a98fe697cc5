#include "train/loop/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>

#include "bertie/error.h"
#include "io/file.h"
#include "io/json.h"

namespace bertie {
namespace {

constexpr std::string_view kStart = "{\"step\":", kTokens = ",\"tokens\":", kHeldOut = ",\"held_out_";

int open_log(const std::filesystem::path& path, uint64_t last_step) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    throw Error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(errno)));
  size_t keep = 0;
  try {
    const io::MappedFile log(path);
    if (!is_run_log(log.text()))
      throw Error(fmt::format("{} is not a log of Bertie's, and would be overwritten", path.string()),
                  "another `out`, or move that file away", "out");
    keep = log_bytes_up_to(log.text(), last_step);
  } catch (...) {
    close(file);
    throw;
  }
  if (ftruncate(file, off_t(keep)) != 0) {
    const int error = errno;
    close(file);
    throw Error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)));
  }
  return file;
}

constexpr LogEntry::Place kTrain{"", "train"}, kSpeed{"", "speed"}, kEvaluation{"held_out_", "held_out"};

}  // namespace

LogEntry::LogEntry() { line_.reserve(4096); }

void LogEntry::start(uint64_t step) {
  count_ = 0;
  line_.clear();
  fmt::format_to(std::back_inserter(line_), "{}{}", kStart, step);
}

void LogEntry::whole(std::string_view key, uint64_t value) {
  fmt::format_to(std::back_inserter(line_), ",\"{}\":{}", key, value);
}

void LogEntry::number(const Place& place, std::string_view name, double value, std::string_view suffix) {
  fmt::format_to(std::back_inserter(line_), ",\"{}{}{}\":", place.prefix, name, suffix);
  if (std::isfinite(value))
    fmt::format_to(std::back_inserter(line_), "{}", value);
  else
    line_ += "null";
  if (count_ == scalars_.size()) scalars_.emplace_back();
  Scalar& scalar = scalars_[count_++];
  scalar.tag.clear();
  fmt::format_to(std::back_inserter(scalar.tag), "{}/{}{}", place.folder, name, suffix);
  scalar.value = value;
}

void LogEntry::metrics(const Place& place, const std::vector<Metric>& metrics) {
  for (const Metric& m : metrics) {
    number(place, m.name, m.loss, "_loss");
    if (!std::isnan(m.accuracy)) number(place, m.name, m.accuracy, "_accuracy");
  }
}

void LogEntry::watched(const std::vector<Watched>& texts) {
  if (texts.empty()) return;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Watched& w : texts) {
    nlohmann::ordered_json masks = nlohmann::ordered_json::array();
    for (const auto& mask : w.masks) {
      masks.push_back(nlohmann::ordered_json::array());
      for (const Fill& fill : mask) masks.back().push_back({{"token", fill.token}, {"score", fill.score}});
    }
    all.push_back({{"text", w.text}, {"masks", masks}});
  }
  line_ += ",\"watched\":" + io::dump(all);
}

std::string_view LogEntry::line() { return line_ += "}\n"; }

bool is_run_log(std::string_view log) {
  const size_t digits = std::min(kStart.size(), log.size());
  if (log.substr(0, digits) != kStart.substr(0, digits)) return false;
  const std::string_view rest = log.substr(std::min(log.find_first_not_of("0123456789", digits), log.size()));
  for (const std::string_view next : {kTokens, kHeldOut}) {
    const size_t common = std::min(next.size(), rest.size());
    if (rest.substr(0, common) == next.substr(0, common)) return true;
  }
  return false;
}

size_t log_bytes_up_to(std::string_view log, uint64_t last_step) {
  size_t begin = 0;
  for (size_t end; (end = log.find('\n', begin)) != log.npos; begin = end + 1) {
    const std::string_view line = log.substr(begin, end - begin);
    uint64_t step = 0;
    if (!line.starts_with(kStart)) break;
    const char* digits = line.data() + kStart.size();
    if (std::from_chars(digits, line.data() + line.size(), step).ec != std::errc() || step > last_step) break;
  }
  return begin;
}

RunLog::RunLog(const std::filesystem::path& folder, uint64_t last_step)
    : path_(folder / "log.jsonl"), file_(open_log(path_, last_step)), events_(folder, last_step + 1) {}

RunLog::~RunLog() {
  if (file_ >= 0) close(file_);
}

void RunLog::write(const TrainProgress& p) {
  entry_.start(p.step);
  entry_.whole("tokens", p.tokens);
  entry_.number(kTrain, "epoch", p.epochs);
  entry_.number(kTrain, "loss", p.loss);
  entry_.metrics(kTrain, p.metrics);
  entry_.number(kTrain, "rate", p.rate);
  entry_.number(kTrain, "gradient_norm", p.gradient_norm);
  entry_.number(kSpeed, "tokens_per_second", p.tokens_per_second);
  entry_.number(kSpeed, "seconds", p.seconds);
  entry_.whole("skipped", p.skipped);
  write_entry(p.step);
}

void RunLog::write(const EvalResult& r) {
  entry_.start(r.step);
  if (r.scores.empty() || !std::isnan(r.loss)) entry_.number(kEvaluation, "loss", r.loss);
  entry_.metrics(kEvaluation, r.metrics);
  for (const NamedScore& score : r.scores) entry_.number(kEvaluation, score.name, score.value);
  entry_.whole("best", r.best);
  entry_.watched(r.watched);
  write_entry(r.step);
}

void RunLog::write_entry(uint64_t step) {
  write_fully(file_, entry_.line(), path_);
  events_.write(step, wall_clock(), entry_.scalars());
}

}  // namespace bertie
