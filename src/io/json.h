#pragma once
// JSON from files that cannot be trusted: bounded in size and depth, duplicate keys refused, numbers
// finite, strings valid UTF-8. `name` is what errors call the text, usually its file name.
//
//   parse_json  the whole text as a tree; for config files.
//   read_json   one call of a handler per item and no tree; for large files (tokenizer.json, the header of
//               a safetensors file). Duplicate keys are the handler's to notice.
//
// Everything here throws Error and is safe to call from any thread.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bertie/error.h"
#include "io/quote.h"

namespace bertie::io {

struct JsonLimits {
  size_t bytes = size_t{64} << 20;
  size_t depth = 64;
  size_t values = SIZE_MAX;  // strings, numbers, objects … : a tree of many small ones takes much memory
};

// What read_json tells. Derive, and hide the calls that matter; what is not hidden is refused with an Error
// that says what was `expected`. Strings may be moved from. A handler that is unhappy throws Error.
struct JsonHandler {
  void null() { unexpected("null"); }
  void boolean(bool) { unexpected("a boolean"); }
  void integer(int64_t) { unexpected("a negative number"); }
  void whole(uint64_t) { unexpected("a number"); }
  void real(double) { unexpected("a fraction"); }
  void string(std::string&) { unexpected("a string"); }
  void key(std::string&) { unexpected("a key"); }
  void begin_object() { unexpected("an object"); }
  void end_object() { unexpected("the end of an object"); }
  void begin_array() { unexpected("an array"); }
  void end_array() { unexpected("the end of an array"); }

  std::string name, expected = "other content";
  [[noreturn]] void unexpected(const char* what) const;
};

namespace detail {

void check_json_text(std::string_view text, const std::string& name, size_t max_bytes);
[[noreturn]] void json_syntax_error(const std::string& name, size_t position, std::string_view reason);
[[noreturn]] void json_too_deep(const std::string& name, size_t max_depth);
[[noreturn]] void json_too_many(const std::string& name, size_t max_values);

// nlohmann's events, handed on under the limits.
template <class Handler>
struct JsonEvents {
  Handler& handler;
  const std::string& name;
  JsonLimits limits;
  size_t depth = 0, values = 0;

  bool null() { return count(), handler.null(), true; }
  bool boolean(bool value) { return count(), handler.boolean(value), true; }
  bool number_integer(int64_t value) { return count(), handler.integer(value), true; }
  bool number_unsigned(uint64_t value) { return count(), handler.whole(value), true; }
  bool number_float(double value, const std::string&) { return count(), handler.real(value), true; }
  bool string(std::string& value) { return count(), handler.string(value), true; }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool key(std::string& value) { return handler.key(value), true; }
  bool start_object(size_t) { return enter(), handler.begin_object(), true; }
  bool end_object() { return --depth, handler.end_object(), true; }
  bool start_array(size_t) { return enter(), handler.begin_array(), true; }
  bool end_array() { return --depth, handler.end_array(), true; }
  bool parse_error(size_t position, const std::string&, const std::exception& error) {
    json_syntax_error(name, position, error.what());
  }
  void count() {
    if (++values > limits.values) json_too_many(name, limits.values);
  }
  void enter() {
    count();
    if (++depth > limits.depth) json_too_deep(name, limits.depth);
  }
};

}  // namespace detail

template <class Handler>
void read_json(std::string_view text, const std::string& name, Handler& handler, JsonLimits limits = {}) {
  detail::check_json_text(text, name, limits.bytes);
  detail::JsonEvents<Handler> events{handler, name, limits};
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

// A tree takes up to 50 times the memory of its text, hence the lower limit.
nlohmann::json parse_json(std::string_view text, const std::string& name,
                          JsonLimits limits = {.bytes = size_t{16} << 20});

// The value of `key` in `object`. A missing key, or null, gives `otherwise`; without one it is an Error, as
// is a value of another type or, for get_size, one above `max`. Errors name key and file.
size_t get_size(const nlohmann::json& object, std::string_view key, const std::string& name,
                std::optional<size_t> otherwise = {}, size_t max = 1'000'000'000);
double get_number(const nlohmann::json& object, std::string_view key, const std::string& name,
                  std::optional<double> otherwise = {});
bool get_bool(const nlohmann::json& object, std::string_view key, const std::string& name,
              std::optional<bool> otherwise = {});
std::string get_string(const nlohmann::json& object, std::string_view key, const std::string& name,
                       std::optional<std::string> otherwise = {});

// A tree as text. What is not UTF-8 in it, a file's name perhaps, becomes U+FFFD.
template <class Json>
std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace bertie::io
