#pragma once
// Builds JSON text: objects and arrays as they are opened and closed; the commas come by themselves.
//
//   bertie::JsonWriter json;
//   json.begin_object().field("threads", 4).field("seconds", 0.25).end_object();
//   json.take()  // {"threads":4,"seconds":0.25}
#include <charconv>
#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bertie/export.h"
#include "bertie/json.h"
#include "bertie/view.h"

namespace bertie {

class BERTIE_API JsonWriter {
 public:
  // With a sink, text goes there whenever there is much of it, and at the end.
  explicit JsonWriter(const JsonSink* sink = nullptr) : sink_(sink) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(float number);  // null where it is not finite
  JsonWriter& value(double number);
  template <std::same_as<bool> Bool>
  JsonWriter& value(Bool truth) {
    return raw(truth ? "true" : "false");
  }
  template <std::integral Whole>
  requires(!std::same_as<Whole, bool>) JsonWriter& value(Whole number) {
    char digits[24];
    return raw({digits, std::to_chars(digits, digits + sizeof digits, number).ptr});
  }
  JsonWriter& null() { return raw("null"); }
  template <class Item, size_t extent>
  JsonWriter& value(std::span<Item, extent> items) {
    begin_array();
    for (const auto& item : items) value(item);
    return end_array();
  }
  template <class Item>
  JsonWriter& value(const std::vector<Item>& items) {
    return value(std::span(items));
  }
  JsonWriter& value(Matrix<const float> rows);

  template <class Value>
  JsonWriter& field(std::string_view name, const Value& content) {
    key(name);
    return value(content);
  }
  // The fields of `input` that are set.
  JsonWriter& fields(const JsonInput& input);

  std::string take() { return std::move(out_); }
  void finish();  // the rest to the sink

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void before_value();

  const JsonSink* sink_;
  std::string out_;
  bool first_ = true;  // of its object or array, or after a key
};

}  // namespace bertie
