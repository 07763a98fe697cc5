#include "svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace bertie::bench {
namespace {

constexpr double kLetter = 6.8, kLine = 14;  // of the labels: 11 px letters are hardly wider anywhere
constexpr double kLeft = 62, kTop = 36, kBottom = 34, kNames = 140, kTickGap = 36, kMargin = 12, kHeader = 44;

// The light theme, and what the dark one changes.
constexpr std::string_view kStyle = R"(<style>
text { font: 11px system-ui, sans-serif; fill: #52514e }
.heading { font-size: 15px; font-weight: 600; fill: #1b1b1a }
.title { font-size: 12px; font-weight: 600; fill: #1b1b1a }
.paper { fill: #fcfcfb } .grid { stroke: #e3e2de } .frame { stroke: #b9b8b3; fill: none }
.name { fill: #1b1b1a; stroke: #fcfcfb; stroke-width: 3px; paint-order: stroke }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round } .leader { stroke-width: .8; opacity: .7; fill: none }
.dashed { stroke-dasharray: 5 3 }
.ink { stroke: #1b1b1a } .line.ink { stroke-width: 3.2 } .blue { stroke: #2a6fc9 } .orange { stroke: #d1581f } .green { stroke: #12875c }
@media (prefers-color-scheme: dark) {
text { fill: #b9b8b3 } .heading, .title, .name { fill: #f2f1ee }
.paper { fill: #16171a } .grid { stroke: #2e2f33 } .frame { stroke: #5c5d61 } .name { stroke: #16171a }
.ink { stroke: #f2f1ee } .blue { stroke: #6aa5f2 } .orange { stroke: #f08a55 } .green { stroke: #3cc08c }
}
</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string_view class_of(PlotColor color) {
  constexpr std::string_view kClasses[] = {"ink", "blue", "orange", "green"};
  return kClasses[size_t(color)];
}

// An axis from pixel `from` to pixel `to`.
struct Axis {
  double low, high, from, to;  // logarithms of the values
  double at(double value) const { return from + (std::log2(value) - low) / (high - low) * (to - from); }
  bool shows(double value) const { return std::log2(value) > low - 1e-9 && std::log2(value) < high + 1e-9; }
};

Axis axis_over(const PlotPanel& panel, bool x, double room, double from, double to) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const PlotLine& line : panel.lines)
    for (const auto& point : line.points) {
      const double value = std::log2(x ? point.first : point.second);
      low = std::min(low, value), high = std::max(high, value);
    }
  if (!(low <= high)) low = high = 0;  // no points
  if (high - low < 1) low -= 0.5, high += 0.5;
  const double more = room * (high - low);
  return {low - more, high + more, from, to};
}

// Places for labels that want to be at `wanted` (increasing) and need `gap` between them: as near as can be,
// in the sense of least squares. Without their gaps the places must not decrease, which is isotonic
// regression: neighbors that would cross become one group at the mean of their wishes.
std::vector<double> spread(const std::vector<double>& wanted, double gap, double low, double high) {
  struct Group {
    double sum;
    size_t count;
    double mean() const { return sum / double(count); }
  };
  std::vector<Group> groups;
  for (size_t i = 0; i < wanted.size(); ++i) {
    groups.push_back({wanted[i] - double(i) * gap, 1});
    while (groups.size() > 1 && groups[groups.size() - 2].mean() > groups.back().mean()) {
      groups[groups.size() - 2].sum += groups.back().sum,
          groups[groups.size() - 2].count += groups.back().count;
      groups.pop_back();
    }
  }
  high = std::max(low, high - gap * (double(wanted.size()) - 1));
  std::vector<double> places;
  for (const Group& group : groups)
    for (size_t i = 0; i < group.count; ++i)
      places.push_back(std::clamp(group.mean(), low, high) + gap * double(places.size()));
  return places;
}

class PanelWriter {
 public:
  PanelWriter(std::string& out, const PlotPanel& panel, double left, double top, double width, double height)
      : out_(out),
        panel_(panel),
        x_(axis_over(panel, true, 0, left + kLeft, left + width - kNames)),
        y_(axis_over(panel, false, 0.04, top + height - kBottom, top + kTop)) {}

  void write(std::string_view x_axis) {
    add(R"(<text class="title" x="{:.0f}" y="{:.0f}">{}</text>)", x_.from, y_.to - 10, escaped(panel_.title));
    const std::vector<PlotTick>& ticks = panel_.y_ticks;
    size_t step = 1;
    if (ticks.size() > 1)
      while (step < ticks.size() && double(step) * (y_.at(ticks[0].value) - y_.at(ticks[1].value)) < kTickGap)
        step *= 2;
    for (size_t i = 0; i < ticks.size(); i += step)
      if (y_.shows(ticks[i].value)) {
        const double y = y_.at(ticks[i].value);
        add(R"(<path class="grid" d="M{:.1f} {:.1f}H{:.1f}"/>)", x_.from, y, x_.to);
        add(R"(<text text-anchor="end" x="{:.1f}" y="{:.1f}">{}</text>)", x_.from - 6, y + 4,
            escaped(ticks[i].label));
      }
    double free_from = 0;  // x labels must not touch each other
    for (const PlotTick& tick : panel_.x_ticks)
      if (x_.shows(tick.value)) {
        const double x = x_.at(tick.value), half = double(tick.label.size()) * kLetter / 2;
        add(R"(<path class="grid" d="M{:.1f} {:.1f}V{:.1f}"/>)", x, y_.from, y_.to);
        if (x - half < free_from) continue;
        free_from = x + half + 4;
        add(R"(<text text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)", x, y_.from + 15,
            escaped(tick.label));
      }
    add(R"(<path class="frame" d="M{:.1f} {:.1f}V{:.1f}H{:.1f}"/>)", x_.from, y_.to, y_.from, x_.to);
    add(R"(<text text-anchor="middle" x="{:.1f}" y="{:.1f}">{}</text>)", (x_.from + x_.to) / 2, y_.from + 30,
        escaped(x_axis));
    for (const PlotLine& line : panel_.lines) draw(line);
    name_lines();
  }

 private:
  struct Name {
    const PlotLine* line;
    double x, y;  // of the line's end
  };
  struct Box {
    double left, right, top, bottom;
  };

  void draw(const PlotLine& line) {
    if (line.points.empty()) return;
    std::string path;
    for (const auto& [x, y] : line.points)
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_.at(x),
                     y_.at(y));
    if (line.points.size() == 1) path += "h.1";  // a dot is a line too
    add(R"(<path class="line {}{}" d="{}"/>)", class_of(line.color), line.dashed ? " dashed" : "", path);
  }

  // Lines that go through to the right have their names there, in a column.
  void name_lines() {
    std::vector<Name> right, early;
    for (const PlotLine& line : panel_.lines)
      if (!line.points.empty()) {
        const Name name{&line, x_.at(line.points.back().first), y_.at(line.points.back().second)};
        (name.x > x_.to - 1 ? right : early).push_back(name);
      }
    const auto higher = [](const Name& a, const Name& b) { return a.y < b.y; };
    std::stable_sort(right.begin(), right.end(), higher);
    std::stable_sort(early.begin(), early.end(), higher);
    for (const Name& name : early) name_early_end(name);
    std::vector<double> wanted;
    for (const Name& name : right) wanted.push_back(name.y);
    const std::vector<double> places = spread(wanted, kLine, y_.to + 4, y_.from - 4);
    for (size_t i = 0; i < right.size(); ++i) {
      add(R"(<path class="leader {}" d="M{:.1f} {:.1f}L{:.1f} {:.1f}h4"/>)", class_of(right[i].line->color),
          right[i].x + 2, right[i].y, right[i].x + 12, places[i]);
      write_name(right[i], "start", right[i].x + 20, places[i] + 4);
    }
  }

  // A line that ends before has its name right of its end or above it, or else at the first free place
  // straight up or, when there is none, down.
  void name_early_end(const Name& name) {
    const double width = double(name.line->name.size()) * kLetter;
    const auto take = [&](const Box& box, std::string_view anchor, double x) {
      if (box.top < y_.to || box.bottom > y_.from || !is_free(box)) return false;
      taken_.push_back(box);
      write_name(name, anchor, x, box.bottom - 3);
      named_.push_back(name.line->name);
      return true;
    };
    if (take({name.x + 4, name.x + 8 + width, name.y - 7, name.y + 7}, "start", name.x + 6)) return;
    if (take({name.x - width - 2, name.x + 2, name.y - kLine - 4, name.y - 4}, "end", name.x)) return;
    // Where a solid and a dashed line have the same name, one may do.
    if (std::find(named_.begin(), named_.end(), name.line->name) != named_.end()) return;
    for (const double direction : {-1.0, 1.0})
      for (double y = name.y + 2 * direction; y > y_.to && y < y_.from; y += 2 * direction)
        for (const bool left : {true, false}) {
          const Box box = left ? Box{name.x - width - 6, name.x - 3, y - 7, y + 7}
                               : Box{name.x + 3, name.x + width + 6, y - 7, y + 7};
          if (!take(box, left ? "end" : "start", left ? name.x - 4 : name.x + 4)) continue;
          add(R"(<path class="leader {}" d="M{:.1f} {:.1f}V{:.1f}"/>)", class_of(name.line->color), name.x,
              name.y, y);
          return;
        }
    write_name(name, "start", name.x + 6, name.y + 4);
  }

  // No name and no line in it.
  bool is_free(const Box& box) const {
    for (const Box& other : taken_)
      if (box.left < other.right && other.left < box.right && box.top < other.bottom &&
          other.top < box.bottom)
        return false;
    for (const PlotLine& line : panel_.lines)
      for (size_t i = 0; i + 1 < line.points.size(); ++i) {
        const double x0 = x_.at(line.points[i].first), x1 = x_.at(line.points[i + 1].first);
        const double y0 = y_.at(line.points[i].second), y1 = y_.at(line.points[i + 1].second);
        const double from = std::max(x0, box.left), to = std::min(x1, box.right);
        if (from > to || x0 == x1) continue;
        const double a = y0 + (from - x0) / (x1 - x0) * (y1 - y0), b = y0 + (to - x0) / (x1 - x0) * (y1 - y0);
        if (std::max(a, b) > box.top && std::min(a, b) < box.bottom) return false;
      }
    return true;
  }

  void write_name(const Name& name, std::string_view anchor, double x, double y) {
    add(R"(<text class="name" text-anchor="{}" x="{:.1f}" y="{:.1f}">{}</text>)", anchor, x, y,
        escaped(name.line->name));
  }
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
    out_ += '\n';
  }

  std::string& out_;
  const PlotPanel& panel_;
  Axis x_, y_;
  std::vector<Box> taken_;               // by names among the lines
  std::vector<std::string_view> named_;  // there
};

}  // namespace

std::string svg(const Plot& plot) {
  const double panel_width = plot.stacked ? 820 : 450, panel_height = plot.stacked ? 430 : 330;
  const double count = double(std::max<size_t>(1, plot.panels.size()));
  const double width = (plot.stacked ? panel_width : panel_width * count) + 2 * kMargin;
  const double height = kHeader + (plot.stacked ? panel_height * count : panel_height) + 2 * kMargin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" role=\"img\">\n<title>{}</title>\n",
      width, height, width, height, escaped(plot.title));
  out += kStyle;
  out += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  out += fmt::format("<text class=\"heading\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", kMargin, kMargin + 14,
                     escaped(plot.title));
  double x = kMargin;
  for (const PlotKey& key : plot.legend) {
    out += fmt::format("<path class=\"line {}{}\" d=\"M{:.1f} {:.0f}h22\"/>\n", class_of(key.color),
                       key.dashed ? " dashed" : "", x, kMargin + 31);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.0f}\">{}</text>\n", x + 28, kMargin + 35,
                       escaped(key.meaning));
    x += 28 + double(key.meaning.size()) * kLetter + 16;
  }
  for (size_t i = 0; i < plot.panels.size(); ++i) {
    const double left = kMargin + (plot.stacked ? 0 : panel_width * double(i));
    const double top = kMargin + kHeader + (plot.stacked ? panel_height * double(i) : 0);
    PanelWriter(out, plot.panels[i], left, top, panel_width, panel_height).write(plot.x_axis);
  }
  return out + "</svg>\n";
}

}  // namespace bertie::bench
