#pragma once
// What the task commands share: loading, progress, warnings, and scores for the eye.
#include <string>
#include <vector>

#include "bertie/json.h"
#include "bertie/text_model.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace bertie::cli {

// The model, if it can do what `head` does; --max-length and --threads are obeyed.
TextModel load_model(const Settings& settings, Head head);

// Which of `words` an option's argument is; the first where it was not given. UsageError for another word.
size_t choice_of(std::string_view option, const std::optional<std::string>& argument,
                 const std::vector<std::string_view>& words);

// Progress on standard error where it does not get between results on the same terminal.
Progress progress_of(const Settings& settings, std::string_view what);

std::vector<std::string_view> texts_of(std::span<const Input> block);
std::vector<TextPair> pairs_of(std::span<const Input> block);

// What a line of JSON says of an input: a text, or the two of a pair.
JsonInput input_of(size_t index, const Input& input, bool pair = false);

// "3 of 90 texts had more than 512 tokens and were cut".
void warn_if_cut(const Settings& settings, const TextModel& model, size_t cut, size_t count,
                 std::string_view what);

std::string percent(float share);  // " 42.1%"
// A bar of up to `width` columns, in eighths of one.
std::string bar(float share, size_t width);
// "text 3: …" in grey, for the reader of several results; nothing where there is one.
void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text);

}  // namespace bertie::cli
