#include "serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bertie/error.h"
#include "bertie/nearest.h"
#include "io/json.h"

namespace bertie::serve {
namespace {

using nlohmann::json;

[[noreturn]] void wrong(const std::string& field, std::string_view should_be) {
  throw RequestError(422, fmt::format("`{}` must be {}", field, should_be), field);
}

// 7, or 7.0, which JSON does not tell apart; nothing where it is negative, a fraction, or too large to be
// exact.
std::optional<uint64_t> whole_of(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (!value.is_number_float()) return {};
  const double number = value.get<double>();
  if (!(number >= 0 && number <= 9007199254740992.0) || number != std::floor(number)) return {};
  return uint64_t(number);
}

}  // namespace

json parse_body(std::string_view body, const RequestLimits& limits) {
  json tree;
  try {
    tree = io::parse_json(body, "the body",
                          {.bytes = body.size(), .depth = limits.json_depth, .values = limits.json_values});
  } catch (const Error& error) {
    throw RequestError(400, error.what());
  }
  if (!tree.is_object()) throw RequestError(422, "the body must be a JSON object");
  return tree;
}

const json* Fields::find(std::string_view name) const {
  if (!object_->is_object()) return nullptr;
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& Fields::at(std::string_view name) const {
  const json* value = find(name);
  if (!value) throw RequestError(422, fmt::format("`{}` is missing", path(name)), path(name));
  return *value;
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::string Fields::string(std::string_view name, std::optional<std::string> otherwise) const {
  if (otherwise && !has(name)) return *otherwise;
  return string_of(at(name), path(name));
}

bool Fields::boolean(std::string_view name, bool otherwise) const {
  const json* value = find(name);
  if (!value) return otherwise;
  if (!value->is_boolean()) wrong(path(name), "true or false");
  return value->get<bool>();
}

size_t Fields::whole(std::string_view name, size_t otherwise, size_t least, size_t most) const {
  const json* value = find(name);
  if (!value) return otherwise;
  const std::optional<uint64_t> number = whole_of(*value);
  if (!number || *number < least || *number > most)
    wrong(path(name), fmt::format("a whole number from {} to {}", least, most));
  return size_t(*number);
}

double Fields::number(std::string_view name, double otherwise, double least, double most) const {
  const json* value = find(name);
  if (!value) return otherwise;
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
    wrong(path(name), fmt::format("a number from {} to {}", least, most));
  return value->get<double>();
}

std::string Fields::choice(std::string_view name, const std::string& otherwise,
                           std::initializer_list<std::string_view> words) const {
  const std::string word = string(name, otherwise);
  if (std::ranges::find(words, word) == words.end())
    wrong(path(name), fmt::format("one of {}", fmt::join(words, ", ")));
  return word;
}

std::vector<size_t> Fields::wholes(std::string_view name, size_t least, size_t most) const {
  const json& list = at(name);
  const std::string range = fmt::format("a list of whole numbers from {} to {}", least, most);
  if (!list.is_array() || list.empty()) wrong(path(name), range);
  std::vector<size_t> numbers;
  for (const json& item : list) {
    const std::optional<uint64_t> number = whole_of(item);
    if (!number || *number < least || *number > most) wrong(path(name), range);
    numbers.push_back(size_t(*number));
  }
  return numbers;
}

std::vector<std::string> Fields::strings(std::string_view name, size_t most) const {
  return strings_of(at(name), path(name), most);
}

Fields Fields::object(std::string_view name) const {
  static const json kEmpty = json::object();
  const json* value = find(name);
  if (value && !value->is_object()) wrong(path(name), "an object");
  return Fields(value ? *value : kEmpty, path(name));
}

void Fields::only(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : object_->items()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::vector<std::string_view> known(names);
    const std::string_view like = nearest(name, known);
    throw RequestError(
        422,
        !like.empty() ? fmt::format("there is no `{}`; `{}` perhaps?", path(name), like)
                      : fmt::format("there is no `{}`; there are {}", path(name), fmt::join(names, ", ")),
        path(name));
  }
}

void check_count(const std::string& field, size_t count, size_t most) {
  if (count > most)
    throw RequestError(413, fmt::format("`{}` has {} items; a request may have {}", field, count, most),
                       field);
}

std::string string_of(const json& value, const std::string& field) {
  if (!value.is_string()) wrong(field, "a string");
  return value.get<std::string>();
}

int32_t token_of(const json& value, const std::string& field) {
  const std::optional<uint64_t> id = whole_of(value);
  if (!id || *id > INT32_MAX) wrong(field, "a token id: a whole number from 0 on");
  return int32_t(*id);
}

std::vector<std::string> strings_of(const json& value, const std::string& field, size_t most) {
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) wrong(field, "a string or a list of strings");
  check_count(field, value.size(), most);
  std::vector<std::string> all;
  for (const json& item : value) all.push_back(string_of(item, field));
  return all;
}

}  // namespace bertie::serve
