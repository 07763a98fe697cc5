#include "cli/commands/data_texts.h"

#include <algorithm>
#include <functional>

#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

TextOptions text_options(const Settings& settings, TextMeter& meter) {
  return {.inputs = settings.words,
          .field = settings.field.value_or(""),
          .strict = settings.strict,
          .warning =
              [quiet = settings.quiet](const std::string& what, const std::string& hint) {
                if (!quiet) warn(what, hint);
              },
          .progress = std::ref(meter)};
}

int report_texts(const TextReport& texts, const Settings& settings) {
  if (!settings.json) {
    if (texts.invalid_lines > 0)
      print("{} lines with bytes that are not UTF-8, or zero (first: {})\n", with_commas(texts.invalid_lines),
            printable(texts.first_invalid));
    if (texts.dropped_lines > 0)
      print("left out {} JSON lines (first: {})\n", with_commas(texts.dropped_lines),
            printable(texts.first_dropped));
    if (!texts.skipped.empty())
      print("skipped {} files that are no text (first: {})\n", with_commas(texts.skipped.size()),
            printable(texts.skipped[0].path));
  }
  return texts.invalid_lines > 0 || texts.dropped_lines > 0 ||
         std::any_of(texts.skipped.begin(), texts.skipped.end(), [](const auto& f) { return f.named; });
}

}  // namespace bertie::cli
