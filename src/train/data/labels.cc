#include "train/data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/quote.h"

namespace bertie {
namespace {

std::string_view without_spaces_around(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  return parse_number(text, number) && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

void drop_zero_fraction(std::string& number) {
  const size_t dot = number.find('.');
  if (dot != number.npos && dot > 0 && number.find_first_not_of('0', dot + 1) == number.npos)
    number.resize(dot);
}

bool is_whole(double number) { return number == std::floor(number) && std::fabs(number) < 1e15; }

// ["a", "b"], as JSON and Python write lists; nothing where it is not one.
std::optional<std::vector<std::string>> list_in_text(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']') || text.size() < 2) return {};
  text = without_spaces_around(text.substr(1, text.size() - 2));
  std::vector<std::string> items;
  while (!text.empty()) {
    std::string item;
    size_t at = 0;
    if (text[0] == '"' || text[0] == '\'') {
      for (at = 1; at < text.size() && text[at] != text[0]; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        item += text[at];
      }
      if (at++ == text.size()) return {};
    } else {
      at = std::min(text.find(','), text.size());
      item = without_spaces_around(text.substr(0, at));
      if (item.empty()) return {};
    }
    items.push_back(std::move(item));
    text = without_spaces_around(text.substr(at));
    if (text.empty()) break;
    if (text[0] != ',') return {};
    text = without_spaces_around(text.substr(1));
  }
  return items;
}

std::string scalar_in_json(const nlohmann::json& value) {
  if (value.is_string()) return std::string(without_spaces_around(value.get_ref<const std::string&>()));
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  throw Error(fmt::format("the label is {}, not a string or a number",
                          value.is_null() ? "null" : fmt::format("an {}", value.type_name())));
}

}  // namespace

std::vector<std::string> separated(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (const std::string_view part = without_spaces_around(text.substr(at, end - at)); !part.empty())
      parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

WrittenLabel label_in_text(std::string_view text) {
  const std::string_view name = without_spaces_around(text);
  return {.names = {std::string(name)}, .missing = name.empty()};
}

WrittenLabel label_in_json(const nlohmann::json& value) {
  if (value.is_null()) return {.missing = true};
  if (!value.is_array()) {
    std::string name = scalar_in_json(value);
    const bool missing = name.empty();
    return {.names = {std::move(name)}, .missing = missing};
  }
  WrittenLabel label{.list = true};
  for (const nlohmann::json& item : value) {
    label.names.push_back(scalar_in_json(item));
    if (label.names.back().empty()) throw Error("the list of labels has an empty one in it");
  }
  return label;
}

std::optional<bool> truth_of(const WrittenLabel& written) {
  if (written.missing) return {};
  std::string name = written.list ? "a list" : written.names[0];
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  if (name == "true" || name == "yes" || number_in(name) == 1.0) return true;
  if (name == "false" || name == "no" || number_in(name) == 0.0) return false;
  throw Error(fmt::format("{} where 0 or 1 says whether a label holds", io::quote(name)));
}

Problem LabelColumn::settle(Problem given) {
  const auto texts = [&](const auto& is) {  // every label that is not a list
    return std::ranges::all_of(labels_,
                               [&](const WrittenLabel& l) { return l.missing || l.list || is(l.names[0]); });
  };
  const bool any_text = std::ranges::any_of(labels_, [](const auto& l) { return !l.missing && !l.list; });
  bool any_list = std::ranges::any_of(labels_, [](const WrittenLabel& l) { return l.list; });
  const bool may_be_lists = given == Problem::kUnset || given == Problem::kMultiLabel;
  if (may_be_lists && any_text && texts([](const std::string& t) { return list_in_text(t).has_value(); })) {
    for (WrittenLabel& label : labels_)
      if (!label.missing && !label.list) label = {.names = *list_in_text(label.names[0]), .list = true};
    any_list = true;
  }
  problem_ = given;
  if (given == Problem::kUnset) {
    const bool numbers = texts([](const std::string& t) { return number_in(t).has_value(); });
    const bool whole = numbers && texts([](const std::string& t) { return is_whole(*number_in(t)); });
    // Where most rows have one label that is no list, a list is a mistake.
    const auto lists = std::ranges::count_if(labels_, [](const WrittenLabel& l) { return l.list; });
    const auto others = std::ranges::count_if(labels_, [](const auto& l) { return !l.missing && !l.list; });
    problem_ = any_list && lists >= others     ? Problem::kMultiLabel
               : any_text && numbers && !whole ? Problem::kRegression
                                               : Problem::kSingleLabel;
  }
  if (problem_ == Problem::kSingleLabel && texts([](const std::string& t) {
        const auto number = number_in(t);
        return number && is_whole(*number);
      }))
    for (WrittenLabel& label : labels_)  // 1.0, as a column of numbers with gaps is often written, is 1
      if (!label.missing && !label.list) drop_zero_fraction(label.names[0]);
  if (given == Problem::kMultiLabel && any_text && !any_list) {
    char separator = 0;
    for (const char c : {'|', ';', ','})
      if (!separator && !texts([&](const std::string& t) { return t.find(c) == t.npos; })) separator = c;
    for (WrittenLabel& label : labels_)
      if (!label.missing && !label.list && separator) label.names = separated(label.names[0], separator);
  }
  if (problem_ == Problem::kMultiLabel)
    for (WrittenLabel& label : labels_)  // an empty field says that none of the labels holds
      if (label.missing && !label.names.empty()) label = {.list = true};
  return problem_;
}

std::vector<std::string> LabelColumn::names() const {
  if (problem_ == Problem::kRegression) return {};
  std::set<std::string_view> all;
  for (const WrittenLabel& label : labels_)
    if (!label.missing && (problem_ == Problem::kMultiLabel || label.names.size() == 1))
      all.insert(label.names.begin(), label.names.end());
  std::vector<std::string> names(all.begin(), all.end());
  sort_labels(names);
  return names;
}

void LabelColumn::put(size_t row, const LabelPlaces& places, TextExample& example) const {
  const WrittenLabel& label = labels_[row];
  if (label.missing) return;
  if (problem_ != Problem::kMultiLabel && label.names.size() != 1)
    throw Error(fmt::format("{} labels where there should be one", label.names.size()),
                "several labels a row are a problem of their own: `problem` labels");
  if (problem_ == Problem::kRegression) {
    const auto number = number_in(label.names[0]);
    if (!number)
      throw Error(
          fmt::format("the label {} is not a number, as a regression needs it", io::quote(label.names[0])));
    example.value = *number;
    return;
  }
  for (const std::string& name : label.names) example.labels.push_back(*places.find(name));
  std::ranges::sort(example.labels);
  example.labels.erase(std::unique(example.labels.begin(), example.labels.end()), example.labels.end());
}

void sort_labels(std::vector<std::string>& names) {
  const auto number = [](const std::string& name) {
    int64_t value = 0;
    return parse_number(name, value) ? std::optional(value) : std::nullopt;
  };
  if (std::ranges::all_of(names, [&](const std::string& name) { return number(name).has_value(); }))
    std::ranges::stable_sort(names, {}, [&](const std::string& name) { return *number(name); });
  else
    std::ranges::sort(names);
}

LabelPlaces::LabelPlaces(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) places_.emplace_back(names[i], int32_t(i));
  std::ranges::stable_sort(places_, {}, [](const auto& place) { return place.first; });
}

std::optional<int32_t> LabelPlaces::find(std::string_view name) const {
  const auto found =
      std::ranges::lower_bound(places_, name, {}, [](const auto& place) { return place.first; });
  return found != places_.end() && found->first == name ? std::optional(found->second) : std::nullopt;
}

}  // namespace bertie
