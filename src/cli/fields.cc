#include "cli/fields.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/options.h"

namespace bertie::cli {
namespace {

// Options that are not called as the field is.
constexpr std::pair<std::string_view, std::string_view> kOptions[] = {
    {"method", "optimiser"},
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
};

bool is_option(std::string_view name) {
  const auto has = [&](const std::vector<Option>& options) {
    return std::any_of(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  };
  return has(global_options()) ||
         std::any_of(commands().begin(), commands().end(), [&](const Command& c) { return has(c.options); });
}

// A field that no option sets stays as it is.
std::string flag_of(std::string_view field) {
  std::string name(field);
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& [known, option] : kOptions)
    if (known == field) name = option;
  return is_option(name) ? "--" + name : std::string(field);
}

}  // namespace

std::string with_flags(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  std::string out;
  for (size_t open; (open = text.find('`')) != text.npos;) {
    const size_t close = text.find_first_not_of(kLetters, open + 1);
    const bool is_field = close != text.npos && text[close] == '`' && close > open + 1;
    const size_t end = is_field ? close + 1 : open + 1;
    out += is_field ? std::string(text.substr(0, open)) + flag_of(text.substr(open + 1, close - open - 1))
                    : std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out += text;
}

}  // namespace bertie::cli
