#pragma once
// Lines on two logarithmic axes as an SVG file: every line has its name at its end, and colors follow the
// reader's light or dark theme. Nothing is fetched and nothing runs.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bertie::bench {

enum class PlotColor { kInk, kBlue, kOrange, kGreen };

struct PlotLine {
  std::string name;
  PlotColor color = PlotColor::kInk;
  bool dashed = false;
  std::vector<std::pair<double, double>> points = {};  // x increasing, both above 0
};

struct PlotTick {
  double value;
  std::string label;
};

struct PlotPanel {
  std::string title;
  std::vector<PlotTick> x_ticks, y_ticks;  // those that would be too many or beyond the lines are left out
  std::vector<PlotLine> lines;
};

struct PlotKey {
  std::string meaning;
  PlotColor color = PlotColor::kInk;
  bool dashed = false;
};

struct Plot {
  std::string title, x_axis;         // of all panels
  std::vector<PlotKey> legend = {};  // may be empty
  std::vector<PlotPanel> panels = {};
  bool stacked = false;  // panels below each other, not side by side
};

std::string svg(const Plot& plot);

}  // namespace bertie::bench
