#include "cli/fields.h"

#include <algorithm>
#include <utility>

namespace bertie::cli {
namespace {

// Flags that are not called as the field is.
constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
    {"method", "--optimiser"},       {"seconds", "--time"},    {"save_seconds", "--save-every"},
    {"shard_bytes", "--shard-size"}, {"tokenizer", "--vocab"}, {"whole_words", "--whole-word"}};

std::string flag_of(std::string_view field) {
  for (const auto& [name, flag] : kFlags)
    if (name == field) return std::string(flag);
  std::string flag = "--" + std::string(field);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
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
