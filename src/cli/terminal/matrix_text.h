#pragma once
// Matrices and sums of products for people: aligned, cut to the width, with the same digits everywhere.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/view.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {

// Decimals that show every number of a matrix exactly; 4 where it takes more than that.
int decimals_for(Matrix<const float> matrix);
// ".14", "-.05", "1.2", "0": rounded, without the zero before the point.
std::string shown(double number, int decimals);
std::string shape_of(Matrix<const float> matrix);  // "3 × 4"

// A token's label in at most `width` columns; the place in "deposited(12)" stays: "depo…(12)".
std::string short_label(const std::string& label, size_t width);
inline constexpr size_t kMostLabel = 14;  // columns of a row label, at most

// Which rows or columns of many are shown, increasing.
using Shown = std::vector<size_t>;
Shown all_of(size_t count);

struct MatrixText {
  std::string name = {};  // above it, with the shape; without a name there is only what is not shown
  Matrix<const float> matrix = {};
  std::span<const std::string> row_labels = {};     // printable; none: blank
  std::span<const std::string> column_labels = {};  // likewise
  Shown rows = {};                                  // empty: all
  Shown columns = {};                               // those to show where they fit; empty: all
  std::optional<size_t> key_column = {};            // always shown
  std::optional<size_t> marked_row = {};
  bool shaded = false;  // weights from 0 to 1, with their shades
};

// Those that fit stand beside each other and share the row labels; the others below each other.
std::string matrices_text(std::span<const MatrixText> matrices, const Style& style, size_t width);

// "name: a₁·b₁ + a₂·b₂ + … + bias = result", in lines of at most `width` columns. Of more than most_terms
// the first few are written out and the others summed up.
struct SumText {
  std::string name;
  std::vector<std::pair<float, float>> terms = {};
  int left_decimals = 4, right_decimals = 4;
  std::optional<float> bias = {};
  int bias_decimals = 4;
  float result = 0;
  int result_decimals = 4;
  size_t most_terms = 32, first_terms = 4;
};
std::string sum_text(const SumText& sum, const Style& style, size_t width);

}  // namespace bertie::cli
