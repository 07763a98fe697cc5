#include "cli/progress.h"

#include <algorithm>

#include "cli/output.h"
#include "cli/terminal.h"

namespace bertie::cli {
Progress::Progress(bool wanted, std::string_view what)
    : wanted_(wanted), what_(what), pause_(is_terminal(2) ? 0.25 : 2) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::update(size_t count, const Texts& texts) {
  const double now = seconds();
  if (!wanted_ || now - last_ < pause_) return;
  last_ = now;
  std::string line = fmt::format("{} {}, {:.0f}/s", with_commas(count), what_, double(count) / now);
  if (texts.total() > 0 && texts.done() > 0) {
    const double share = std::min(1.0, double(texts.done()) / double(texts.total()));
    line = fmt::format("{:3.0f}%  {}, {} left", 100 * share, line, duration_text(now / share - now));
  }
  show_progress_line(line);
}

void Progress::finish(size_t count, std::string_view where) {
  if (!wanted_) return;
  const double now = seconds();
  show_progress_line(fmt::format("{} {} in {:.1f} s, {:.0f}/s{}", with_commas(count), what_, now,
                                 double(count) / std::max(now, 1e-3), where));
  end_progress_line();
}

}  // namespace bertie::cli
