#pragma once
// What `bertie vocab` and `bertie prepare` share: the texts that they read, and what was wrong with them.
#include "bertie/data.h"
#include "bertie/json_writer.h"
#include "cli/options.h"
#include "cli/terminal/progress.h"

namespace bertie::cli {

// Warnings come between the lines of progress; under --quiet not at all.
TextOptions text_options(const Settings& settings, TextMeter& meter);

// What was wrong with the texts: in JSON, where anything was; and in words, unless JSON says it. Returns the
// exit code: 1 where a file that was named is no text.
void add_text_report(const TextReport& texts, JsonWriter& to);
int report_texts(const TextReport& texts, const Settings& settings);

}  // namespace bertie::cli
