#include "cli/progress.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/fields.h"
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

TextMeter::TextMeter(const Settings& settings)
    : wanted_(!settings.quiet && (settings.verbose || is_terminal(2))), pause_(is_terminal(2) ? 0.25 : 2) {}

double TextMeter::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void TextMeter::operator()(uint64_t done, uint64_t total, uint64_t text) {
  const double now = seconds();
  if (!wanted_ || now - last_ < pause_) return;
  last_ = now;
  std::string line = fmt::format("{} of text, {:.1f} MB/s", size_text(text), double(text) / 1e6 / now);
  if (total > 0 && done > 0) {
    const double share = std::min(1.0, double(done) / double(total));
    line = fmt::format("{:3.0f}%  {}, {} left", 100 * share, line, duration_text(now / share - now));
  }
  show_progress_line(line);
}

void TextMeter::finish(uint64_t text) {
  if (!wanted_) return;
  const double now = seconds();
  show_progress_line(fmt::format("{} of text in {:.1f} s, {:.1f} MB/s", size_text(text), now,
                                 double(text) / 1e6 / std::max(now, 1e-3)));
  end_progress_line();
}

TextOptions text_options(const Settings& settings, TextMeter& meter) {
  return {.inputs = settings.words,
          .field = settings.field.value_or(""),
          .strict = settings.strict,
          .warning =
              [quiet = settings.quiet](const std::string& what, const std::string& hint) {
                if (quiet) return;
                end_progress_line();
                warn(printable(with_flags(what)), printable(with_flags(hint)));
              },
          .progress = std::ref(meter)};
}

void add_text_report(const TextReport& texts, nlohmann::ordered_json& to) {
  for (const TextReport::SkippedFile& file : texts.skipped) to["skipped"].push_back(file.path);
  if (texts.invalid_lines == 0) return;
  to["invalid_lines"] = texts.invalid_lines;
  to["first_invalid"] = texts.first_invalid;
}

int report_texts(const TextReport& texts, const Settings& settings) {
  const auto named =
      std::count_if(texts.skipped.begin(), texts.skipped.end(), [](const auto& f) { return f.named; });
  if (!settings.json) {
    if (texts.invalid_lines > 0)
      print("{} lines are not valid UTF-8 (first: {})\n", with_commas(texts.invalid_lines),
            printable(texts.first_invalid));
    if (!texts.skipped.empty())
      print("skipped {} files that are no text (first: {})\n", with_commas(texts.skipped.size()),
            printable(texts.skipped[0].path));
  }
  return named > 0 ? 1 : 0;
}

}  // namespace bertie::cli
