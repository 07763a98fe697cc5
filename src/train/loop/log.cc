#include "train/loop/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <iterator>
#include <system_error>

#include "bertie/error.h"
#include "io/file.h"

namespace bertie {
namespace {

constexpr std::string_view kStart = "{\"step\":", kTokens = ",\"tokens\":", kHeldOut = ",\"held_out_loss\":";

// A line of JSON in memory of fixed size.
class Line {
 public:
  explicit Line(uint64_t step) { buffer_.append(kStart), add("{}", step); }
  void number(std::string_view name, double value) {
    if (std::isfinite(value))
      add(",\"{}\":{}", name, value);
    else
      add(",\"{}\":null", name);
  }
  void whole(std::string_view name, uint64_t value) { add(",\"{}\":{}", name, value); }
  std::string_view finish() {
    buffer_.append(std::string_view("}\n"));
    return {buffer_.data(), buffer_.size()};
  }

 private:
  template <class... Arguments>
  void add(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Arguments>(arguments)...);
  }
  fmt::basic_memory_buffer<char, 2048> buffer_;  // on the stack: no line is longer
};

int open_log(const std::filesystem::path& path, uint64_t last_step) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    throw Error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(errno)));
  size_t keep = 0;
  try {
    const io::MappedFile log(path);
    if (!is_run_log(log.text()))
      throw Error(fmt::format("{} is not a log of Bertie's, and would be overwritten", path.string()),
                  "another --out, or move that file away");
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

// What goes into both logs: a number of the line, and a scalar of the event.
struct Both {
  explicit Both(uint64_t step) : line(step) {}
  void operator()(std::string_view name, std::string_view tag, double value) {
    line.number(name, value);
    scalars[count++] = {tag, value};
  }

  Line line;
  std::array<Scalar, 16> scalars;
  size_t count = 0;
};

}  // namespace

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
  Both both(p.step);
  both.line.whole("tokens", p.tokens);
  both("epoch", "train/epoch", p.epochs);
  both("loss", "train/loss", p.loss);
  both("token_loss", "train/token_loss", p.token_loss);
  both("token_accuracy", "train/token_accuracy", p.token_accuracy);
  if (p.has_labels) {
    both("label_loss", "train/label_loss", p.label_loss);
    both("label_accuracy", "train/label_accuracy", p.label_accuracy);
  }
  both("rate", "train/rate", p.rate);
  both("gradient_norm", "train/gradient_norm", p.gradient_norm);
  both("tokens_per_second", "speed/tokens_per_second", p.tokens_per_second);
  both("seconds", "speed/seconds", p.seconds);
  both.line.whole("skipped", p.skipped);
  write_fully(file_, both.line.finish(), path_);
  events_.write(p.step, wall_clock(), std::span(both.scalars).first(both.count));
}

void RunLog::write(const EvalResult& r) {
  Both both(r.step);
  both("held_out_loss", "held_out/loss", r.loss);
  both("held_out_token_loss", "held_out/token_loss", r.token_loss);
  both("held_out_token_accuracy", "held_out/token_accuracy", r.token_accuracy);
  if (r.has_labels) {
    both("held_out_label_loss", "held_out/label_loss", r.label_loss);
    both("held_out_label_accuracy", "held_out/label_accuracy", r.label_accuracy);
  }
  both.line.whole("best", r.best);
  write_fully(file_, both.line.finish(), path_);
  events_.write(r.step, wall_clock(), std::span(both.scalars).first(both.count));
}

}  // namespace bertie
