#pragma once
// UTF-8 as Bertie reads it everywhere: bytes that are not UTF-8 are one U+FFFD for each maximal prefix of a
// valid sequence, as Unicode recommends and Python's errors="replace" does.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/export.h"
#include "bertie/tokenizer.h"

namespace bertie {

struct CodePoint {
  uint32_t value;   // U+FFFD where the bytes are not valid
  uint32_t length;  // in bytes, at least 1
  bool valid;
};

// The first code point of a text that is not empty.
BERTIE_API CodePoint first_code_point(std::string_view text);

// Line separators, and marks that change the direction of writing: what is shown could read as something that
// it is not.
constexpr bool misleads(uint32_t point) {
  return point == 0x061C || point == 0x200E || point == 0x200F || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069);
}

BERTIE_API bool is_valid_utf8(std::string_view text);
BERTIE_API std::string with_valid_utf8(std::string_view text);  // with U+FFFD for what is not

// A text's code points by number, as Offset counts them; any number of look-ups after one pass over the text,
// which must live as long.
class BERTIE_API CodePoints {
 public:
  explicit CodePoints(std::string_view text);

  size_t size() const { return starts_.empty() ? text_.size() : starts_.size() - 1; }
  // What the text says there. Places past the end are cut.
  std::string_view at(Offset place) const;

 private:
  std::string_view text_;
  std::vector<uint32_t> starts_;  // of each code point, and the end; empty: one byte each
};

}  // namespace bertie
