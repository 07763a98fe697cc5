#include "io/json.h"

#include <fmt/format.h>

#include <vector>

namespace bertie::io {

using nlohmann::json;

std::string quote(std::string_view text) {
  constexpr size_t kShown = 80;
  std::string_view shown = text.substr(0, kShown);
  if (shown.size() < text.size())  // cut between characters, not inside one
    while (!shown.empty() && (text[shown.size()] & 0xC0) == 0x80) shown.remove_suffix(1);
  std::string out = "\"";
  for (char c : shown) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c == '`' ? "\\`" : std::string(1, c);  // that is no option's name (bertie/error.h)
  }
  return out + (shown.size() < text.size() ? "…\"" : "\"");
}

void JsonHandler::unexpected(const char* what) const {
  throw Error(fmt::format("{}: {} where there should be {}", name, what, expected));
}

namespace detail {

void check_json_text(std::string_view text, const std::string& name, size_t max_bytes) {
  if (text.size() > max_bytes)
    throw Error(fmt::format("{}: {} bytes of JSON, more than the limit of {}", name, text.size(), max_bytes));
  // The parser takes a NUL for the end, so what follows would go unread.
  if (size_t nul = text.find('\0'); nul != text.npos)
    throw Error(fmt::format("{}: not JSON: a NUL at byte {}", name, nul));
}

void json_syntax_error(const std::string& name, size_t position, std::string_view reason) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while … - invalid
  // literal; last read: '…'": keep the reason, leave out the file's own bytes.
  if (size_t bracket = reason.find("] "); bracket != reason.npos) reason.remove_prefix(bracket + 2);
  if (size_t colon = reason.find(": "); reason.starts_with("parse error at ") && colon != reason.npos)
    reason.remove_prefix(colon + 2);
  reason = reason.substr(0, std::min(reason.find("; last read"), size_t{160}));
  throw Error(fmt::format("{}: not valid JSON at byte {}: {}", name, position, reason));
}

void json_too_deep(const std::string& name, size_t max_depth) {
  throw Error(fmt::format("{}: JSON nested deeper than {} levels", name, max_depth));
}

void json_too_many(const std::string& name, size_t max_values) {
  throw Error(fmt::format("{}: JSON of more than {} values", name, max_values));
}

}  // namespace detail

namespace {

// Builds the tree. open_ holds the path of containers from the root to where we are; their addresses are
// stable because only the innermost one grows.
class TreeBuilder : public JsonHandler {
 public:
  void null() { add(nullptr); }
  void boolean(bool value) { add(value); }
  void integer(int64_t value) { add(value); }
  void whole(uint64_t value) { add(value); }
  void real(double value) { add(value); }
  void string(std::string& value) { add(std::move(value)); }
  void begin_object() { open_.push_back(add(json::object())); }
  void end_object() { open_.pop_back(); }
  void begin_array() { open_.push_back(add(json::array())); }
  void end_array() { open_.pop_back(); }
  void key(std::string& value) {
    auto [entry, is_new] = open_.back()->get_ref<json::object_t&>().emplace(value, nullptr);
    if (!is_new) throw Error(fmt::format("{}: duplicate key {}", name, quote(value)));
    slot_ = &entry->second;
  }
  json root;

 private:
  json* add(json value) {
    if (open_.empty()) return &(root = std::move(value));
    if (open_.back()->is_object()) return &(*slot_ = std::move(value));
    return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
  }
  std::vector<json*> open_;
  json* slot_ = nullptr;
};

// The value, or null for a key that is missing and may be.
const json* value_of(const json& object, std::string_view key, const std::string& name, bool required) {
  if (!object.is_object()) throw Error(fmt::format("{}: there should be an object of keys and values", name));
  auto entry = object.find(key);
  if (entry != object.end() && !entry->is_null()) return &*entry;
  if (required) throw Error(fmt::format("{}: the key {} is missing", name, quote(key)));
  return nullptr;
}

[[noreturn]] void wrong(std::string_view key, const std::string& name, const json& value,
                        const std::string& expected) {
  const std::string shown = value.is_structured() ? "an " + std::string(value.type_name())
                            : value.is_string()   ? quote(value.get_ref<const std::string&>())
                                                  : value.dump();
  throw Error(fmt::format("{}: {} is {}, not {}", name, quote(key), shown, expected));
}

}  // namespace

json parse_json(std::string_view text, const std::string& name, JsonLimits limits) {
  TreeBuilder builder;
  builder.name = name;
  read_json(text, name, builder, limits);
  return std::move(builder.root);
}

size_t get_size(const json& object, std::string_view key, const std::string& name,
                std::optional<size_t> otherwise, size_t max) {
  const json* value = value_of(object, key, name, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_number_unsigned() || value->get<uint64_t>() > max)
    wrong(key, name, *value, fmt::format("a whole number from 0 to {}", max));
  return value->get<size_t>();
}

double get_number(const json& object, std::string_view key, const std::string& name,
                  std::optional<double> otherwise) {
  const json* value = value_of(object, key, name, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_number()) wrong(key, name, *value, "a number");
  return value->get<double>();
}

bool get_bool(const json& object, std::string_view key, const std::string& name,
              std::optional<bool> otherwise) {
  const json* value = value_of(object, key, name, !otherwise);
  if (!value) return *otherwise;
  if (!value->is_boolean()) wrong(key, name, *value, "true or false");
  return value->get<bool>();
}

std::string get_string(const json& object, std::string_view key, const std::string& name,
                       std::optional<std::string> otherwise) {
  const json* value = value_of(object, key, name, !otherwise);
  if (!value) return *std::move(otherwise);
  if (!value->is_string()) wrong(key, name, *value, "a string");
  return value->get<std::string>();
}

}  // namespace bertie::io
