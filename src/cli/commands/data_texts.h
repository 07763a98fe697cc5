#pragma once
// What `bertie vocab` and `bertie prepare` share: the texts that they read, and what was wrong with them.
#include "bertie/data.h"
#include "cli/options.h"
#include "cli/terminal/progress.h"

namespace bertie::cli {

// Warnings come between the lines of progress; under --quiet not at all.
TextOptions text_options(const Settings& settings, TextMeter& meter);

// What was wrong with the texts, in words, unless JSON says it. Returns the exit code: 1 where a line is
// bad, or a file that was named is no text.
int report_texts(const TextReport& texts, const Settings& settings);

}  // namespace bertie::cli
