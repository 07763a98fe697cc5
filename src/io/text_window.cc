#include "io/text_window.h"

#include <algorithm>
#include <cstring>

namespace bertie::io {
namespace {

constexpr size_t kLeastRead = size_t{1} << 16;

}  // namespace

bool TextWindow::more() {
  if (ended_) return false;
  const size_t had = end_ - begin_, want = 2 * had + kLeastRead;
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, had);
  begin_ = 0, end_ = had;
  if (buffer_.size() < want) buffer_.resize(want);
  while (end_ < want && !ended_) {
    const size_t count = file_.read({buffer_.data() + end_, want - end_});
    end_ += count;
    ended_ = count == 0;
  }
  return end_ > had;
}

std::string_view TextWindow::fill(size_t bytes) {
  while (text().size() < bytes && more()) {
  }
  return text();
}

void TextWindow::take(size_t bytes) {
  line_ += size_t(std::count(buffer_.data() + begin_, buffer_.data() + begin_ + bytes, '\n'));
  begin_ += bytes;
}

size_t TextWindow::line_end(size_t most) {
  for (size_t searched = 0;;) {
    const size_t end = text().find('\n', searched);
    if (end != text().npos) return end < most ? end + 1 : text().npos;
    if (text().size() > most) return text().npos;
    searched = text().size();
    if (!more()) return text().size();
  }
}

void TextWindow::skip_line() {
  do {
    const size_t end = text().find('\n');
    if (end != text().npos) return take(end + 1);
    take(text().size());
  } while (more());
}

}  // namespace bertie::io
