#include "cli/terminal/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>

#include "bertie/utf8.h"

namespace bertie::cli {
namespace {

// Columns of one code point; -1 for what a terminal should not get. main() sets a UTF-8 locale for wcwidth.
int columns_of(uint32_t point) {
  if (point < 0x7F) return point < 0x20 ? -1 : 1;
  if (point < 0xA0 || misleads(point)) return -1;
  return wcwidth(wchar_t(point));
}

template <class Each>  // each(code point, its bytes)
void for_each_point(std::string_view text, const Each& each) {
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    each(point, text.substr(0, point.length));
    text.remove_prefix(point.length);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for_each_point(text, [&](CodePoint point, std::string_view bytes) {
    if (point.valid && columns_of(point.value) >= 0)
      out += bytes;
    else if (point.value == '\n')
      out += "\\n";
    else if (point.value == '\t')
      out += "\\t";
    else if (point.valid && point.value > 0x7F)
      out += fmt::format("\\u{{{:x}}}", point.value);
    else
      for (char byte : bytes) out += fmt::format("\\x{:02x}", uint8_t(byte));
  });
  return out;
}

std::string verbatim(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '`' ? "\\`" : std::string(1, c);
  return out;
}

std::string in_quotes(std::string_view text) {  // long texts need not be looked at to their end
  return '"' + verbatim(cut(printable(text.substr(0, 1000)), 60)) + '"';
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for_each_point(text, [&](CodePoint point, std::string_view) {
    width += size_t(std::max(0, columns_of(point.value)));
  });
  return width;
}

std::string clip(std::string_view text, size_t width) {
  std::string out;
  size_t used = 0;
  for_each_point(text, [&](CodePoint point, std::string_view bytes) {
    used += size_t(std::max(0, columns_of(point.value)));
    if (used <= width) out += bytes;
  });
  return out;
}

std::string cut(std::string_view text, size_t width) {
  if (display_width(text) <= width) return std::string(text);
  return width == 0 ? "" : clip(text, width - 1) + "…";
}

std::string pad(std::string_view text, size_t width) {
  std::string out = cut(text, width);
  return out.append(width - display_width(out), ' ');
}

std::string pad_left(std::string_view text, size_t width) {
  std::string out = cut(text, width);
  return out.insert(0, width - display_width(out), ' ');
}

std::vector<std::string> short_names(const std::vector<std::string>& texts, size_t width) {
  std::vector<std::string> names;
  std::map<std::string, size_t> times;
  for (const std::string& text : texts) ++times[names.emplace_back(cut(printable(text), width))];
  for (size_t i = 0; i < texts.size(); ++i) {
    if (times[names[i]] == 1 || width < 3) continue;
    const std::string whole = printable(texts[i]);
    std::string_view end = whole;
    while (display_width(end) > width - 1 - width / 3) end.remove_prefix(first_code_point(end).length);
    if (end.size() < whole.size()) names[i] = fmt::format("{}…{}", clip(whole, width / 3), end);
  }
  return names;
}

std::string wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  bool first = true;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    const size_t columns = display_width(word);
    if (!first && column + 1 + columns > width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
    first = false;
  }
  return out + '\n';
}

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

size_t output_width() {
  constexpr size_t kLeast = 40, kMost = 1000, kUsual = 80;
  size_t columns = 0;
  if (const char* variable = std::getenv("COLUMNS"))
    std::from_chars(variable, variable + std::strlen(variable), columns);
  winsize size{};
  if (columns == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns == 0 ? kUsual : std::clamp(columns, kLeast, kMost);
}

namespace {

Style style_for(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return {is_terminal(descriptor) && !dumb && (no_color == nullptr || *no_color == '\0')};
}

}  // namespace

Style Style::for_output() { return style_for(STDOUT_FILENO); }
Style Style::for_errors() { return style_for(STDERR_FILENO); }

std::string Style::paint(std::string_view code, std::string_view text) const {
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string Style::numbered(size_t number, std::string_view text) const {
  static constexpr std::string_view kCodes[] = {"1;36", "1;33", "1;35", "1;32", "1;34", "1;31"};
  return paint(kCodes[number % std::size(kCodes)], text);
}

}  // namespace bertie::cli
