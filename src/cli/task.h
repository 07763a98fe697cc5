#pragma once
// What the task commands share: loading, progress, warnings, and scores for the eye.
#include <string>
#include <vector>

#include "bertie/pipeline.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace bertie::cli {

// The model, if it can do what `head` does; --max-length and --threads are obeyed.
Pipeline load_pipeline(const Settings& settings, Head head);

// Which of `words` an option's argument is; the first where it was not given. UsageError for another word.
size_t choice_of(std::string_view option, const std::optional<std::string>& argument,
                 const std::vector<std::string_view>& words);

// Progress on standard error where it does not get between results on the same terminal.
Progress progress_of(const Settings& settings, std::string_view what);

std::vector<std::string_view> texts_of(std::span<const Input> block);
std::vector<TextPair> pairs_of(std::span<const Input> block);

// "3 of 90 texts had more than 512 tokens and were cut".
void warn_if_cut(const Settings& settings, const Pipeline& pipeline, size_t cut, size_t count,
                 std::string_view what);

// {"index":N,"text":… — a line of JSON begins; the caller ends it.
std::string json_begin(size_t index);
void json_field(std::string& line, std::string_view name, std::string_view text);
void json_field(std::string& line, std::string_view name, float number);
void json_field(std::string& line, std::string_view name, size_t number);
// Objects in an array: append(line, item) writes the fields of one, each with a comma before it.
template <class Items, class Append>
void json_list(std::string& line, std::string_view name, const Items& items, const Append& append) {
  line += ",\"";
  line += name;
  line += "\":[";
  bool first = true;
  for (const auto& item : items) {
    const size_t at = line.size() + !first;
    line += first ? "" : ",";
    first = false;
    append(line, item);
    line[at] = '{';  // in place of the first field's comma
    line += '}';
  }
  line += ']';
}

std::string percent(float share);  // " 42.1%"
// A bar of up to `width` columns, in eighths of one.
std::string bar(float share, size_t width);
// "text 3: …" in grey, for the reader of several results; nothing where there is one.
void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text);

}  // namespace bertie::cli
