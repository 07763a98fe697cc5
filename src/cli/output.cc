#include "cli/output.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "bertie/error.h"
#include "cli/terminal.h"
#include "text/unicode/unicode.h"

namespace bertie::cli {

namespace {

[[noreturn]] void output_failed(int error) {
  if (error == EPIPE) throw ClosedPipe();
  throw Error(fmt::format("cannot write to standard output: {}", std::generic_category().message(error)),
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

void warn(std::string_view what, std::string_view hint) {
  std::fflush(stdout);  // what came before comes before it on a terminal too
  fmt::print(stderr, "bertie: {}\n  try: {}\n", what, hint);
}

std::string with_commas(size_t number) {
  std::string out = fmt::format("{}", number);
  for (size_t end = out.size(); end > 3; end -= 3) out.insert(end - 3, 1, ',');
  return out;
}

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

void append_json(std::string& out, std::string_view text) {
  out += '"';
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const text::Decoded d = text::decode_utf8(p, end);
    if (d.point == '"' || d.point == '\\')
      out += '\\', out += char(d.point);
    else if (d.point == text::kReplacement)
      out += "\uFFFD";
    else if (const std::string_view bytes(p, d.length); d.point < 0x7F && d.point >= 0x20)
      out += bytes;
    else if (d.point < 0xA0 || (d.point < 0x10000 && printable(bytes) != bytes))
      out += fmt::format("\\u{:04x}", d.point);
    else
      out += bytes;
    p += d.length;
  }
  out += '"';
}

namespace {

void append_list(std::string& out, const auto& items, const auto& append_item) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append_item(item);
  }
  out += ']';
}

}  // namespace

void append_json(std::string& out, std::span<const std::string> texts) {
  append_list(out, texts, [&](const std::string& text) { append_json(out, std::string_view(text)); });
}

void append_json(std::string& out, float number) {
  if (std::isfinite(number))
    fmt::format_to(std::back_inserter(out), "{}", number);
  else
    out += "null";
}

void append_json(std::string& out, std::span<const float> numbers) {
  append_list(out, numbers, [&](float number) { append_json(out, number); });
}

void append_json(std::string& out, std::span<const int32_t> numbers) {
  append_list(out, numbers, [&](int32_t number) { fmt::format_to(std::back_inserter(out), "{}", number); });
}

namespace {

// What the signal handler may look at. The path is set before the flag and changed only while it is off.
char temporary_path[PATH_MAX];
std::atomic<bool> temporary_exists{false};
std::atomic<bool> progress_line_open{false};

extern "C" void on_signal(int signal) {
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

NewFile::NewFile(const std::filesystem::path& path) : file_(path) {
  const std::string& name = file_.temporary();
  if (name.size() >= sizeof temporary_path) return;  // longer than the system opens
  std::memcpy(temporary_path, name.c_str(), name.size() + 1);
  temporary_exists = true;
}

NewFile::~NewFile() { temporary_exists = false; }

void NewFile::commit() {
  file_.commit();
  temporary_exists = false;
}

void show_progress_line(std::string_view line) {
  const bool terminal = is_terminal(STDERR_FILENO);
  progress_line_open = terminal;
  fmt::print(stderr, "{}{}{}", terminal ? "\r" : "", line, terminal ? "\x1b[K" : "\n");
}

void end_progress_line() {
  if (progress_line_open.exchange(false)) fmt::print(stderr, "\n");
}

}  // namespace bertie::cli
