#include "cli/output.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "cli/fields.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

namespace {

[[noreturn]] void output_failed(int error) {
  if (error == EPIPE) throw ClosedPipe();
  throw OutputError(
      fmt::format("cannot write to standard output: {}", std::generic_category().message(error)),
      error == ENOSPC ? "make room, or write somewhere else" : "");
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) output_failed(errno);
}

void flush_output() {
  if (std::fflush(stdout) != 0) output_failed(errno);
}

void finish_output() {
  flush_output();
  if (std::ferror(stdout)) output_failed(EIO);
  // A network disk may say only now that it is full.
  if (close(STDOUT_FILENO) != 0) output_failed(errno);
}

void say(std::string_view text) { (void)!std::fwrite(text.data(), 1, text.size(), stderr); }

void report_problem(std::string_view line) {
  end_progress_line();
  std::fflush(stdout);  // what came before comes before it on a terminal too
  say("{}\n", printable(with_flags(line)));
}

void warn(std::string_view what, std::string_view hint) {
  report_problem(fmt::format("bertie: {}", what));
  if (!hint.empty()) report_problem(fmt::format("  try: {}", hint));
}

std::string with_commas(size_t number) {
  std::string out = fmt::format("{}", number);
  for (size_t end = out.size(); end > 3; end -= 3) out.insert(end - 3, 1, ',');
  return out;
}

std::string counted(size_t number, std::string_view one) {
  return fmt::format("{} {}{}", with_commas(number), one, number == 1 ? "" : "s");
}

std::string score_text(double score) { return std::isfinite(score) ? fmt::format("{:.4f}", score) : "-"; }

std::string size_text(size_t bytes) {
  constexpr std::string_view kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string duration_text(double seconds) {
  const auto s = size_t(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

namespace {

// What the signal handler may look at. The path is set before the flag and changed only while it is off.
char temporary_path[PATH_MAX];
std::atomic<bool> temporary_exists{false};
std::atomic<bool> progress_line_open{false};
std::atomic<bool> stops_in_order{false};
std::atomic<int> stop_signal{0};

extern "C" void on_signal(int signal) {
  if (stops_in_order && stop_signal.exchange(signal) == 0) return;
  if (temporary_exists) unlink(temporary_path);
  if (progress_line_open) (void)!write(STDERR_FILENO, "\n", 1);
  _exit(128 + signal);
}

}  // namespace

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)  // nohup wants it ignored
      sigaction(signal, &action, nullptr);
  }
  action.sa_handler = SIG_IGN;  // a closed pipe is EPIPE to us: files get cleaned up
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);  // likewise EFBIG, a file beyond ulimit -f
}

StopInOrder::StopInOrder(const std::string& temporary) {
  if (!temporary.empty() && temporary.size() < sizeof temporary_path) {
    std::memcpy(temporary_path, temporary.c_str(), temporary.size() + 1);
    temporary_exists = true;
  }
  stops_in_order = true;
}

StopInOrder::~StopInOrder() { stops_in_order = false, temporary_exists = false; }

void throw_if_stopped() {
  if (const int signal = stop_signal) throw Stopped{signal};
}

void show_progress_line(std::string_view line) {
  const bool terminal = is_terminal(STDERR_FILENO);
  progress_line_open = terminal;
  say("{}{}{}", terminal ? "\r" : "", line, terminal ? "\x1b[K" : "\n");
}

void end_progress_line() {
  if (progress_line_open.exchange(false)) say("\n");
}

}  // namespace bertie::cli
