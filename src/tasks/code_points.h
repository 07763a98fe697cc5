#pragma once
// Places in a text, in code points, to its bytes; any number of look-ups after one pass over the text.
#include <cstdint>
#include <string_view>
#include <vector>

#include "bertie/tokenizer.h"

namespace bertie {

class CodePoints {
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
