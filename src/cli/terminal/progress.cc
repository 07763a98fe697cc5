#include "cli/terminal/progress.h"

#include <algorithm>

#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

ProgressLine::ProgressLine(const Settings& settings, bool shows_results) {
  const bool on_terminal = is_terminal(2);
  wanted_ = !settings.quiet && (settings.verbose || !on_terminal || !shows_results || !is_terminal(1));
  says_end_ = wanted_ && (settings.verbose || on_terminal);
  pause_ = on_terminal ? 0.25 : settings.verbose ? 2 : 10;
}

bool ProgressLine::is_due() {
  const double now = seconds();
  if (!wanted_ || now - last_ < pause_) return false;
  last_ = now;
  return true;
}

void ProgressLine::show(std::string_view line) {
  show_progress_line(line);
  says_end_ = true;
}

void ProgressLine::finish(std::string_view line) {
  if (!says_end_) return;
  show_progress_line(line);
  end_progress_line();
}

double ProgressLine::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::string with_share(std::string_view line, double done, double total, double seconds) {
  if (!(total > 0 && done > 0)) return std::string(line);
  const double share = std::min(1.0, done / total);
  return fmt::format("{:3.0f}%  {}, {} left", 100 * share, line, duration_text(seconds / share - seconds));
}

void TextMeter::operator()(uint64_t done, uint64_t total, uint64_t text) {
  if (!line_.is_due()) return;
  const double now = seconds();
  line_.show(with_share(fmt::format("{} of text, {:.1f} MB/s", size_text(text), double(text) / 1e6 / now),
                        double(done), double(total), now));
}

void TextMeter::finish(uint64_t text) {
  const double now = seconds();
  line_.finish(fmt::format("{} of text in {:.1f} s, {:.1f} MB/s", size_text(text), now,
                           double(text) / 1e6 / std::max(now, 1e-3)));
}

}  // namespace bertie::cli
