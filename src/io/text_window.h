#pragma once
// The text of a file (io/input_file.h) as a window that moves over it: what was read and not yet taken.
// Whoever reads rows that may have several lines looks as far ahead as it needs to, and takes a row when it
// is whole.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/input_file.h"

namespace bertie::io {

class TextWindow {
 public:
  // Throws Error where the file cannot be opened.
  explicit TextWindow(const std::string& path) : file_(path) {}

  // Valid until the next call of anything else.
  std::string_view text() const { return {buffer_.data() + begin_, end_ - begin_}; }
  bool ended() const { return ended_; }  // the file has no more than text()
  size_t line() const { return line_; }  // that text() begins in, from 1
  const InputFile& file() const { return file_; }

  bool more();                          // at least doubles text(); false at the end
  std::string_view fill(size_t bytes);  // text(), with so many bytes where the file has them
  void take(size_t bytes);              // off the front of text()
  // Where the first line ends, after its \n, or where the file does. npos where that is more than `most`
  // bytes.
  size_t line_end(size_t most);
  void skip_line();  // however long it is

 private:
  InputFile file_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0, line_ = 1;
  bool ended_ = false;
};

// A line without the \n or \r\n at its end.
inline std::string_view without_line_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace bertie::io
