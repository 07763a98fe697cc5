#include "cli/task.h"

#include <algorithm>
#include <cmath>

namespace bertie::cli {

void refuse(std::initializer_list<std::pair<bool, const char*>> given, std::string_view why) {
  for (const auto& [is_given, name] : given)
    if (is_given) throw UsageError(fmt::format("--{} is {}", name, why), "leave it out");
}

InputBlocks::InputBlocks(const Settings& settings, Inputs& inputs, const ForEach& how)
    : inputs_(inputs), how_(how), progress_(settings, how.shows_results) {}

bool InputBlocks::next() {
  constexpr size_t kMostBytes = size_t{1} << 15;
  block_.clear();
  read_ = double(inputs_.lines().done());
  if (error_) throw Error(*error_);
  size_t bytes = 0;
  Input input;
  try {
    while (block_.size() < how_.most && bytes < kMostBytes && inputs_.next(input, block_.empty())) {
      bytes += input.a.size() + input.b.size();
      block_.push_back(std::move(input));
    }
  } catch (const Error& error) {
    if (block_.empty()) throw;
    error_ = error;  // what came before it is not lost
  }
  return !block_.empty();
}

void InputBlocks::working(size_t done) {
  throw_if_stopped();
  const double share = double(done) / double(block_.size());
  show_progress(inputs_.count() - block_.size() + done,
                read_ + share * (double(inputs_.lines().done()) - read_));
}

void InputBlocks::done() {
  flush_output();  // whoever feeds us line by line waits for it; and whoever stops us has what is done
  throw_if_stopped();
  show_progress(inputs_.count(), double(inputs_.lines().done()));
}

void InputBlocks::show_progress(size_t count, double bytes) {
  if (!progress_.is_due()) return;
  const double now = progress_.seconds();
  if (count == 0)  // there is no rate yet
    return progress_.show(
        fmt::format("0 of {} {} after {}", with_commas(inputs_.count()), how_.what, duration_text(now)));
  progress_.show(
      with_share(fmt::format("{} {}, {:.0f}/s", with_commas(count), how_.what, double(count) / now), bytes,
                 double(inputs_.lines().total()), now));
}

int InputBlocks::finish() {
  const double now = progress_.seconds();
  progress_.finish(fmt::format("{} {} in {:.1f} s, {:.0f}/s{}", with_commas(inputs_.count()), how_.what, now,
                               double(inputs_.count()) / std::max(now, 1e-3), how_.where));
  return inputs_.report(how_.what, how_.failed);
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

JsonInput input_of(const Input& input, bool pair) {
  if (pair) return {.index = input.index, .a = input.a, .b = input.b};
  return {.index = input.index, .text = input.a};
}

JsonInput input_of(std::string_view text, const std::optional<std::string>& pair) {
  if (pair) return {.index = 0, .a = text, .b = *pair};
  return {.index = 0, .text = text};
}

void warn_if_cut(const Settings& settings, size_t cut, size_t count, std::string_view what, size_t length,
                 std::string_view hint) {
  if (cut > 0 && !settings.quiet)
    warn(fmt::format("{} of {} {} had more than {} tokens and were cut", cut, count, what, length), hint);
}

void warn_if_cut(const Settings& settings, const TextModel& model, size_t cut, size_t count,
                 std::string_view what, std::optional<size_t> max_length) {
  const size_t length = max_length.value_or(model.task_max_length());
  const size_t most = model.model().config().max_tokens();
  warn_if_cut(settings, cut, count, what, length,
              length < most
                  ? fmt::format("--max-length {}, the most this model takes, or shorter {}", most, what)
                  : fmt::format("shorter {}: this model takes no more", what));
}

std::optional<TableWriter> table_output(const Settings& settings) {
  if (!settings.format || *settings.format == int(ResultFormat::kJson)) return {};
  return TableWriter(*settings.format == int(ResultFormat::kCsv) ? ',' : '\t');
}

void print_header(TableWriter& table, std::span<const std::string_view> columns) {
  for (const std::string_view column : columns) table.field(column);
  print(table.take_row());
}

std::string percent(float share) {
  const double shown = double(share) * 100;
  return shown > 0 && shown < 0.05 ? " <0.1%" : fmt::format("{:5.1f}%", shown);
}

void print_heading(const Style& style, std::string_view what, size_t index, std::string_view text) {
  print("{}{} {}\n", index > 0 ? "\n" : "", style.dim(fmt::format("{} {}:", what, index + 1)),
        style.bold(cut(printable(text.substr(0, 4000)), std::max<size_t>(output_width(), 40) - 12)));
}

}  // namespace bertie::cli
