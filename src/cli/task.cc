#include "cli/task.h"

#include <algorithm>
#include <cmath>

#include "core/nearest.h"

namespace bertie::cli {

TextModel load_model(const Settings& settings, Head head) {
  TextModel model = load_model(settings);
  model.require(head);
  return model;
}

size_t choice_of(std::string_view option, const std::optional<std::string>& argument,
                 const std::vector<std::string_view>& words) {
  if (!argument) return 0;
  const auto found = std::find(words.begin(), words.end(), *argument);
  if (found != words.end()) return size_t(found - words.begin());
  const std::string_view meant = nearest(*argument, words);
  throw UsageError(fmt::format("--{} knows no {}", option, in_quotes(*argument)),
                   meant.empty() ? fmt::format("--{} {}", option, fmt::join(words, ", or "))
                                 : fmt::format("--{} {}", option, meant));
}

Progress progress_of(const Settings& settings, std::string_view what) {
  const bool watched = settings.verbose || (is_terminal(2) && !is_terminal(1));
  return Progress(watched && !settings.quiet, what);
}

std::vector<std::string_view> texts_of(std::span<const Input> block) {
  std::vector<std::string_view> texts;
  for (const Input& input : block) texts.push_back(input.a);
  return texts;
}

std::vector<TextPair> pairs_of(std::span<const Input> block) {
  std::vector<TextPair> pairs;
  for (const Input& input : block) pairs.push_back({input.a, input.b});
  return pairs;
}

JsonInput input_of(size_t index, const Input& input, bool pair) {
  if (pair) return {.index = index, .a = input.a, .b = input.b};
  return {.index = index, .text = input.a};
}

void warn_if_cut(const Settings& settings, const TextModel& model, size_t cut, size_t count,
                 std::string_view what) {
  if (cut == 0 || settings.quiet) return;
  const size_t most = model.model().config().max_tokens();
  warn(fmt::format("{} of {} {} had more than {} tokens and were cut", cut, count, what,
                   model.max_length(Head::kClassify)),
       model.max_length(Head::kClassify) < most
           ? fmt::format("--max-length {}, the most this model takes, or shorter {}", most, what)
           : fmt::format("shorter {}: this model takes no more", what));
}

std::string percent(float share) {
  const double shown = double(share) * 100;
  return shown > 0 && shown < 0.05 ? " <0.1%" : fmt::format("{:5.1f}%", shown);
}

std::string bar(float share, size_t width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0)) return {};
  const auto eighths = size_t(std::lround(std::min(share, 1.0f) * float(width) * 8));
  std::string out;
  for (size_t i = 0; i < eighths / 8; ++i) out += "█";
  return out + kEighths[eighths % 8];
}

void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text) {
  print("{}{} {}\n", index > 0 ? "\n" : "", style.dim(fmt::format("{} {}:", what, index + 1)),
        style.bold(cut(printable(text.substr(0, 4000)), std::max<size_t>(output_width(), 40) - 12)));
}

}  // namespace bertie::cli
