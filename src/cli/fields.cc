#include "cli/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace bertie::cli {
namespace {

// Options that are not called as the field is.
constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
    {"method", "optimizer"},
    {"seconds", "time"},
    {"save_seconds", "save-every"},
    {"shard_bytes", "shard-size"},
    {"tokenizer", "vocab"},
    {"whole_words", "whole-word"},
    {"targets", "target"},
    {"aggregation", "group"},
    {"allow_no_answer", "may-be-empty"},
    {"max_answer_tokens", "max-answer"},
    {"max_question_tokens", "max-question"},
    {"precision", "dtype"},
    {"train_file", "train"},
    {"dev_file", "dev"},
    {"unlabeled_file", "unlabeled"},
    {"resamples", "bootstrap"},
    {"keys_file", "keys"},
    {"text", "column"},
    {"text_pair", "column-pair"},
};

std::string option_name(std::string_view field) {
  std::string name(field);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& [known, option] : kOptions)
    if (known == field) name = option;
  return name;
}

const Option* find_option(const std::vector<Option>& options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

// A field becomes a flag, a function a command; a name that is neither stays as it is. Where a name is both,
// the function has its parentheses: `index()`.
std::string in_users_words(std::string_view name) {
  if (name.ends_with("()")) return fmt::format("bertie {}", name.substr(0, name.size() - 2));
  const std::string option = option_name(name);
  bool is_option = find_option(global_options(), option), is_command = false;
  for (const Command& command : commands()) {
    is_option |= find_option(command.options, option) != nullptr;
    is_command |= command.name == name;
  }
  return is_option ? "--" + option : is_command ? fmt::format("bertie {}", name) : std::string(name);
}

}  // namespace

const Option* option_of(std::string_view field, const Command& command) {
  const std::string name = option_name(field);
  const Option* own = find_option(command.options, name);
  return own ? own : find_option(global_options(), name);
}

std::string with_flags(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_()";
  std::string out;
  for (size_t open; (open = text.find('`')) != text.npos;) {
    out += text.substr(0, open);
    const size_t close = text.find_first_not_of(kLetters, open + 1);
    if (out.ends_with('\\')) {  // the user's own
      out.back() = '`';
      text.remove_prefix(open + 1);
    } else if (close != text.npos && text[close] == '`' && close > open + 1) {
      out += in_users_words(text.substr(open + 1, close - open - 1));
      text.remove_prefix(close + 1);
    } else {
      out += '`';
      text.remove_prefix(open + 1);
    }
  }
  return out += text;
}

}  // namespace bertie::cli
