#include "cli/terminal/matrix_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/terminal/table.h"

namespace bertie::cli {
namespace {

constexpr size_t kIndent = 4, kGap = 2, kLeastCell = 5;
constexpr int kMostDecimals = 4;

std::string without_end_spaces(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

int decimals_for(Matrix<const float> matrix) {
  int decimals = 0;
  for (size_t r = 0; r < matrix.rows(); ++r)
    for (float value : matrix[r]) {
      if (!std::isfinite(value)) continue;  // a key that is not seen
      for (; decimals < kMostDecimals; ++decimals) {
        const double scaled = double(value) * std::pow(10, decimals);
        if (std::abs(scaled - std::round(scaled)) < 1e-6 * std::max(1.0, std::abs(scaled))) break;
      }
    }
  return decimals;
}

std::string shown(double number, int decimals) {
  if (number == 0 || (decimals < kMostDecimals && std::abs(number) < 1e-6)) return "0";
  std::string text = fmt::format("{:.{}f}", number, decimals);
  if (text.find_first_not_of("-0.") == text.npos && text[0] == '-') text.erase(0, 1);
  const size_t first = text[0] == '-';
  if (text.size() > first + 1 && text[first] == '0' && text[first + 1] == '.') text.erase(first, 1);
  return text;
}

std::string shape_of(Matrix<const float> matrix) {
  return fmt::format("{} × {}", matrix.rows(), matrix.cols());
}

std::string short_label(const std::string& label, size_t width) {
  const size_t place = label.ends_with(')') ? label.rfind('(') : label.npos;
  if (place == label.npos || label.size() - place >= width) return cut(label, width);
  return cut(label.substr(0, place), width - (label.size() - place)) + label.substr(place);
}

Shown all_of(size_t count) {
  Shown all(count);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

namespace {

// A matrix with everything decided: what is shown, and how wide.
class Sheet {
 public:
  Sheet(const MatrixText& text, size_t label_width, size_t room)
      : text_(text), label_width_(label_width), room_(room) {
    if (text_.rows.empty()) text_.rows = all_of(text_.matrix.rows());
    picked_ = !text_.columns.empty();
    if (!picked_) text_.columns = all_of(text_.matrix.cols());
    decimals_ = decimals_for(text_.matrix);
    for (size_t r : text_.rows)
      for (size_t c : text_.columns) cell_ = std::max(cell_, number(r, c).size());
    if (text_.shaded) cell_ += kShade + 1;
    for (size_t c = 0; c < text_.column_labels.size(); ++c)
      cell_ = std::max(cell_, std::min<size_t>(display_width(text_.column_labels[c]), kMostHeading));
    fit(room > label_width ? room - label_width : 0);
  }

  size_t width() const {  // gaps before every cell included
    const size_t numbers = label_width_ + text_.columns.size() * (kGap + cell_) + gaps() * (kGap + 1);
    return std::max(numbers, display_width(title_line()));
  }

  // All lines, each padded to width().
  std::vector<std::string> text(const Style& style) const {
    std::vector<std::string> out;
    const std::string blank(label_width_, ' ');
    const auto add = [&](const std::string& plain, const std::string& painted) {
      const size_t used = display_width(plain);
      out.push_back(painted + std::string(width() > used ? width() - used : 0, ' '));
    };
    const auto add_dim = [&](const std::string& plain) { add(plain, style.dim(plain)); };
    if (!title().empty()) add_dim(title_line());
    if (!text_.column_labels.empty()) {
      std::string line = blank;
      each_column([&](size_t c) { line += std::string(kGap, ' ') + heading(c); },
                  [&] { line += std::string(kGap, ' ') + "…"; });
      add_dim(line);
    }
    for (size_t i = 0; i < text_.rows.size(); ++i) {
      const size_t r = text_.rows[i];
      const std::string label = text_.row_labels.empty() || label_width_ == 0
                                    ? blank
                                    : pad(short_label(text_.row_labels[r], label_width_), label_width_);
      const bool marked = text_.marked_row == r;
      std::string plain = label, painted = marked && label_width_ > 0 ? style.bold(label) : label;
      each_column(
          [&](size_t c) {
            const std::string value = pad_left(number(r, c), cell_ - (text_.shaded ? kShade + 1 : 0));
            const std::string gap(kGap, ' ');
            plain += gap + (text_.shaded ? std::string(kShade + 1, ' ') : "") + value;
            painted += gap;
            if (text_.shaded) painted += heat(text_.matrix(r, c), kShade, style) + ' ';
            painted += marked ? style.bold(value) : value;
          },
          [&] {
            plain += std::string(kGap, ' ') + "…";
            painted += std::string(kGap, ' ') + style.dim("…");
          });
      add(plain, painted);
    }
    return out;
  }

 private:
  static constexpr size_t kShade = 2, kMostHeading = 8;

  std::string number(size_t r, size_t c) const { return shown(text_.matrix(r, c), decimals_); }
  std::string heading(size_t c) const { return pad_left(short_label(text_.column_labels[c], cell_), cell_); }
  // Above the numbers; where that is too narrow, above the labels too.
  std::string title_line() const {
    const size_t before = label_width_ + kGap;
    if (before + display_width(title()) <= room_) return std::string(before, ' ') + title();
    return cut(title(), room_);
  }
  std::string title() const {
    const size_t rows = text_.matrix.rows() - text_.rows.size();
    const size_t columns = text_.matrix.cols() - text_.columns.size();
    const auto count = [](size_t n, std::string_view what) {
      return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
    };
    std::string hidden;
    if (rows > 0) hidden += count(rows, "row");
    if (rows > 0 && columns > 0) hidden += " and ";
    if (columns > 0) hidden += count(columns, "column");
    if (!hidden.empty()) hidden += " not shown";
    if (text_.name.empty()) return hidden.empty() ? "" : fmt::format("({})", hidden);
    return fmt::format("{} ({}{}{})", text_.name, shape_of(text_.matrix), hidden.empty() ? "" : "; ", hidden);
  }

  // "…" stands where columns were left out to fit; of picked ones everybody knows that they are not all.
  bool skips(size_t i) const { return !picked_ && i > 0 && text_.columns[i] != text_.columns[i - 1] + 1; }
  bool ends_early() const {
    return picked_ ? text_.columns.size() < text_.matrix.cols()
                   : text_.columns.back() + 1 < text_.matrix.cols();
  }
  size_t gaps() const {
    size_t count = ends_early();
    for (size_t i = 0; i < text_.columns.size(); ++i) count += skips(i);
    return count;
  }
  void each_column(const auto& column, const auto& gap) const {
    for (size_t i = 0; i < text_.columns.size(); ++i) {
      if (skips(i)) gap();
      column(text_.columns[i]);
    }
    if (ends_early()) gap();
  }
  // Drops columns from the right, but the key column never, until what is left fits.
  void fit(size_t room) {
    const auto needed = [&] { return text_.columns.size() * (kGap + cell_) + gaps() * (kGap + 1); };
    while (text_.columns.size() > 1 && needed() > room) {
      const bool keep_last = text_.columns.back() == text_.key_column;
      text_.columns.erase(text_.columns.end() - (keep_last ? 2 : 1));
    }
  }

  MatrixText text_;
  size_t label_width_, room_, cell_ = kLeastCell;
  bool picked_ = false;
  int decimals_ = 0;
};

}  // namespace

std::string matrices_text(std::span<const MatrixText> matrices, const Style& style, size_t width) {
  size_t label_width = 0;
  for (const MatrixText& m : matrices)
    for (const std::string& label : m.row_labels)
      label_width = std::max(label_width, std::min(display_width(label), kMostLabel));
  const size_t room = width > kIndent ? width - kIndent : 0;

  constexpr size_t kUncut = 100'000;
  std::vector<std::vector<std::string>> beside;  // lines of each
  size_t total = 0;
  for (const MatrixText& m : matrices) {
    const Sheet sheet(m, beside.empty() ? label_width : 0, kUncut);
    total += sheet.width() + (beside.empty() ? 0 : kGap);
    if (total > room) break;
    beside.push_back(sheet.text(style));
    if (beside.back().size() != beside.front().size()) break;
  }
  std::string out;
  const std::string indent(kIndent, ' '), gap(kGap, ' ');
  if (beside.size() == matrices.size() && beside.back().size() == beside.front().size()) {
    for (size_t i = 0; i < beside.front().size(); ++i) {
      std::string line = indent;
      for (size_t s = 0; s < beside.size(); ++s) line += (s > 0 ? gap : "") + beside[s][i];
      out += without_end_spaces(line) + '\n';
    }
    return out;
  }
  for (const MatrixText& m : matrices) {
    if (!out.empty()) out += '\n';
    for (const std::string& line : Sheet(m, label_width, room).text(style))
      out += indent + without_end_spaces(line) + '\n';
  }
  return out;
}

std::string sum_text(const SumText& sum, const Style& style, size_t width) {
  const size_t terms = sum.terms.size(), written = terms > sum.most_terms ? sum.first_terms : terms;
  std::string text = sum.name + ": ";
  for (size_t i = 0; i < written; ++i) {
    if (i > 0) text += " + ";
    text +=
        shown(sum.terms[i].first, sum.left_decimals) + "·" + shown(sum.terms[i].second, sum.right_decimals);
  }
  if (written < terms) {
    double rest = 0;
    for (size_t i = written; i < terms; ++i) rest += double(sum.terms[i].first) * double(sum.terms[i].second);
    text += fmt::format(" + {} ({} more terms)", shown(rest, kMostDecimals), terms - written);
  }
  if (sum.bias) text += fmt::format(" + {} (bias)", shown(*sum.bias, sum.bias_decimals));
  text += " = ";
  const std::string result = shown(sum.result, sum.result_decimals);
  // Painted after it is wrapped, so that colours take no columns.
  std::string out = std::string(kIndent, ' ') + wrap(text + result, width, kIndent + 2);
  const size_t place = out.rfind(result);
  return out.substr(0, place) + style.accent(result) + out.substr(place + result.size());
}

}  // namespace bertie::cli
