#pragma once
// Text as a person sees it: printable, of known width, in color where that is wanted.
#include <string>
#include <string_view>

namespace bertie::cli {

// Text from anywhere, safe to send to a terminal: control characters, bytes that are not UTF-8 and marks
// that change the direction of writing are spelled out ("\x1b").
std::string printable(std::string_view text);
// For messages, where names in backticks become flags (fields.h): a text's own backticks stay.
std::string verbatim(std::string_view text);
std::string in_quotes(std::string_view text);  // printable, verbatim, in quotes, and cut at 60 columns

// Columns that printable text takes: 2 for most East Asian characters, 0 for combining marks.
size_t display_width(std::string_view text);
// Printable text in exactly (pad) or at most (cut) `width` columns; "…" marks what was cut off.
std::string cut(std::string_view text, size_t width);
std::string clip(std::string_view text, size_t width);  // without "…", where every column counts
std::string pad(std::string_view text, size_t width);
std::string pad_left(std::string_view text, size_t width);
// Each made printable and cut to so many columns; those that begin alike in the middle, so that they can be
// told from each other.
std::vector<std::string> short_names(const std::vector<std::string>& texts, size_t width);

// Lines of at most `width` columns, broken at spaces; each ends with a newline, and all but the first
// begin with `indent` spaces.
std::string wrap(std::string_view text, size_t width, size_t indent = 0);

bool is_terminal(int descriptor);
size_t output_width();  // $COLUMNS, the terminal's width, or 80

// ANSI colors, or nothing: a Style for stdout obeys NO_COLOR and is plain where there is no terminal.
struct Style {
  bool color = false;
  static Style for_output();
  static Style for_errors();

  std::string paint(std::string_view code, std::string_view text) const;
  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string dim(std::string_view text) const { return paint("2", text); }
  std::string accent(std::string_view text) const { return paint("36", text); }
  std::string error(std::string_view text) const { return paint("1;31", text); }
  // In one of six colors that are told apart: of kinds of entities, or of groups.
  std::string numbered(size_t number, std::string_view text) const;
};

}  // namespace bertie::cli
