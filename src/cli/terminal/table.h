#pragma once
// Tables for people.
#include <span>
#include <string>
#include <vector>

#include "bertie/view.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

// Columns as wide as they need to be; the last one is cut where the line would be too long. Cells are
// printable text.
class Table {
 public:
  // One letter a column says where its text stands: l or r.
  Table(std::vector<std::string> headings, std::string_view alignment)
      : headings_(std::move(headings)), alignment_(alignment) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(const Style& style, size_t width) const;

 private:
  std::vector<std::string> headings_;
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

// A bar of up to `width` columns, in eighths of one.
std::string bar(float share, size_t width);

// Weights from 0 to 1 as shaded percentages, one row a token; as many columns beside each other as fit.
// Labels are printable text.
std::string heat_table(std::span<const std::string> labels, Matrix<const float> weights, const Style& style,
                       size_t width);
// What the shades mean.
std::string heat_legend(const Style& style);
// One weight: its shade `glyphs` times, in its color.
std::string heat(float weight, size_t glyphs, const Style& style);

}  // namespace bertie::cli
