#include "cli/terminal/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bertie::cli {

std::string Table::text(const Style& style, size_t width) const {
  constexpr size_t kGap = 2;
  std::vector<size_t> widths(headings_.size());
  for (size_t c = 0; c < widths.size(); ++c) {
    widths[c] = display_width(headings_[c]);
    for (const auto& row : rows_) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  size_t before_last = 0;
  for (size_t c = 0; c + 1 < widths.size(); ++c) before_last += widths[c] + kGap;
  widths.back() = std::min(widths.back(), width > before_last + 8 ? width - before_last : 8);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (size_t c = 0; c < cells.size(); ++c) {
      if (alignment_[c] == 'r')
        out += pad_left(cells[c], widths[c]);
      else
        out += pad(cells[c], widths[c]);
      if (c + 1 < cells.size()) out.append(kGap, ' ');
    }
    return out.substr(0, out.find_last_not_of(' ') + 1);
  };
  std::string out = style.bold(line(headings_)) + '\n';
  for (const auto& row : rows_) out += line(row) + '\n';
  return out;
}

std::string bar(float share, size_t width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0)) return {};
  const auto eighths = size_t(std::lround(std::min(share, 1.0f) * float(width) * 8));
  std::string out;
  for (size_t i = 0; i < eighths / 8; ++i) out += "█";
  return out + kEighths[eighths % 8];
}

namespace {

struct Shade {
  int from;  // percent
  std::string_view glyph, color;
};
// From dark violet to bright yellow, in steps that keep small weights apart.
constexpr Shade kShades[] = {
    {50, "█", "1;38;5;226"}, {25, "▓", "38;5;214"}, {10, "▒", "38;5;167"},
    {3, "░", "38;5;97"},     {0, " ", "38;5;242"},
};

int percent(float weight) { return int(std::lround(std::clamp(weight, 0.0f, 1.0f) * 100)); }

// By the number as it is shown, so that equal numbers look equal.
const Shade& shade_of(float weight) {
  for (const Shade& shade : kShades)
    if (percent(weight) >= shade.from) return shade;
  return kShades[std::size(kShades) - 1];
}

std::string repeat(std::string_view glyph, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += glyph;
  return out;
}

}  // namespace

std::string heat(float weight, size_t glyphs, const Style& style) {
  const Shade& shade = shade_of(weight);
  return style.paint(shade.color, repeat(shade.glyph, glyphs));
}

std::string heat_legend(const Style& style) {
  std::string out;
  for (size_t i = std::size(kShades) - 1; i-- > 0;)
    out += fmt::format("{} from {}%{}", style.paint(kShades[i].color, repeat(kShades[i].glyph, 2)),
                       kShades[i].from, i > 0 ? "   " : "");
  return out;
}

std::string heat_table(std::span<const std::string> labels, Matrix<const float> weights, const Style& style,
                       size_t width) {
  constexpr size_t kLeastCell = 5, kMostCell = 9, kMostLabel = 14, kIndent = 2;
  if (weights.cols() == 0) return {};
  size_t widest = 0;
  for (const std::string& label : labels) widest = std::max(widest, display_width(label));
  const size_t label_width = std::min(widest, kMostLabel);
  const size_t room = std::max(width, kIndent + label_width + kLeastCell) - kIndent - label_width;
  // Groups of like size, their columns as wide as the tokens want and the room allows.
  const size_t fit = room / kLeastCell, groups = (weights.cols() + fit - 1) / fit;
  const size_t group = (weights.cols() + groups - 1) / groups;
  const size_t cell = std::clamp(room / group, kLeastCell, std::clamp(widest + 1, kLeastCell + 1, kMostCell));
  std::string out;
  for (size_t first = 0; first < weights.cols(); first += group) {
    const size_t count = std::min(group, weights.cols() - first);
    if (first > 0) out += '\n';
    std::string heading(kIndent + label_width, ' ');
    for (size_t c = first; c < first + count; ++c)
      heading += ' ' + pad_left(clip(labels[c], cell - 1), cell - 1);
    out += style.dim(heading) + '\n';
    for (size_t r = 0; r < weights.rows(); ++r) {
      out += std::string(kIndent, ' ') + pad(labels[r], label_width);
      for (size_t c = first; c < first + count; ++c) {
        const float weight = weights(r, c);
        const Shade& shade = shade_of(weight);
        const std::string shown = std::isnan(weight)     ? "?"
                                  : percent(weight) == 0 ? "·"
                                                         : fmt::format("{}", percent(weight));
        out += ' ' + style.paint(shade.color, repeat(shade.glyph, cell - 4) + pad_left(shown, 3));
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace bertie::cli
