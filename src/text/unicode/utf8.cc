#include "bertie/utf8.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace bertie {

CodePoint first_code_point(std::string_view text) {
  const text::Decoded d = text::decode_utf8(text.data(), text.data() + text.size());
  return {d.point, d.length, d.point != text::kReplacement || text.starts_with("\uFFFD")};
}

bool is_valid_utf8(std::string_view text) { return text::valid_utf8(text); }

std::string with_valid_utf8(std::string_view text) {
  std::string out;
  text::replace_invalid(text, out);
  return out;
}

CodePoints::CodePoints(std::string_view text) : text_(text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return uint8_t(c) < 0x80; })) return;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end; p += text::decode_utf8(p, end).length)
    starts_.push_back(uint32_t(p - text.data()));
  starts_.push_back(uint32_t(text.size()));
}

std::string_view CodePoints::at(Offset place) const {
  const size_t end = std::min<size_t>(place.end, size()), begin = std::min<size_t>(place.begin, end);
  if (starts_.empty()) return text_.substr(begin, end - begin);
  return text_.substr(starts_[begin], starts_[end] - starts_[begin]);
}

}  // namespace bertie
