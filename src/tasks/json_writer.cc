#include "bertie/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "bertie/utf8.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

constexpr size_t kPiece = size_t{1} << 16;

bool is_unseen(uint32_t point) { return point < 0x20 || (point >= 0x7F && point < 0xA0) || misleads(point); }

}  // namespace

void JsonWriter::before_value() {
  if (!first_) out_ += ',';
  first_ = false;
  if (sink_ && out_.size() >= kPiece) (*sink_)(out_), out_.clear();
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  out_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  before_value();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_ += ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  out_ += '"';
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const text::Decoded d = text::decode_utf8(p, end);
    if (d.point == '"' || d.point == '\\')
      out_ += '\\', out_ += char(d.point);
    else if (d.point == text::kReplacement)  // also in place of what is not UTF-8
      out_ += "\uFFFD";
    else if (is_unseen(d.point))
      fmt::format_to(std::back_inserter(out_), "\\u{:04x}", d.point);
    else
      out_.append(p, d.length);
    p += d.length;
  }
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::value(float number) {
  if (!std::isfinite(number)) return null();
  before_value();
  fmt::format_to(std::back_inserter(out_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  before_value();
  fmt::format_to(std::back_inserter(out_), "{}", number);
  return *this;
}

JsonWriter& JsonWriter::value(Matrix<const float> rows) {
  begin_array();
  for (size_t r = 0; r < rows.rows(); ++r) value(rows[r]);
  return end_array();
}

JsonWriter& JsonWriter::fields(const JsonInput& input) {
  if (input.index) field("index", *input.index);
  if (input.window) field("window", *input.window);
  for (const auto& [name, text] : {std::pair("text", input.text),
                                   {"a", input.a},
                                   {"b", input.b},
                                   {"question", input.question},
                                   {"context", input.context}})
    if (text) field(name, *text);
  return *this;
}

void JsonWriter::finish() {
  (*sink_)(out_);
  out_.clear();
}

}  // namespace bertie
