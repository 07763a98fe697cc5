// Draws what `bertie bench attention --json` measured: time.svg, memory.svg and plots/MECHANISM.svg.
//
//   bertie bench attention --json > attention.jsonl
//   bertie_plot_attention attention.jsonl docs/attention
//
// The file may hold the lines of several runs: of a point that was measured again the fastest counts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "svg_plot.h"

namespace bertie::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Point {
  std::string mechanism, about, family;
  bool backward = false;  // forward and backward together, or forward alone
  size_t n = 0, heads = 0, head_size = 0, threads = 0, memory_bytes = 0;
  double milliseconds = 0;
};
using Points = std::vector<Point>;

struct Mechanism {
  std::string name, about = {}, family = {};
};

Point from_json(const json& j) {
  Point p;
  const auto get = [&](const char* name, auto& to) { j.at(name).get_to(to); };
  get("mechanism", p.mechanism), get("about", p.about), get("family", p.family);
  const auto pass = j.at("pass").get<std::string>();
  if (pass != "forward" && pass != "forward+backward") throw std::runtime_error("there is no pass " + pass);
  p.backward = pass == "forward+backward";
  get("n", p.n), get("heads", p.heads), get("head_size", p.head_size), get("threads", p.threads);
  get("milliseconds", p.milliseconds), get("memory_bytes", p.memory_bytes);
  if (p.n == 0 || !(p.milliseconds > 0)) throw std::runtime_error("n and milliseconds must be above 0");
  return p;
}

std::vector<Mechanism> mechanisms_of(const Points& points) {  // as they come
  std::vector<Mechanism> all;
  for (const Point& p : points)
    if (std::none_of(all.begin(), all.end(), [&](const Mechanism& m) { return m.name == p.mechanism; }))
      all.push_back({p.mechanism, p.about, p.family});
  return all;
}

PlotColor color_of(const Mechanism& m) {
  if (m.name == "full") return PlotColor::kInk;
  if (m.family == "all_keys") return PlotColor::kBlue;
  return m.family == "some_keys" ? PlotColor::kOrange : PlotColor::kGreen;
}

enum class Quantity { kTime, kMemory };

PlotPanel empty_panel(Quantity quantity) {
  PlotPanel panel;
  for (size_t n = 1; n <= size_t{1} << 20; n *= 2) panel.x_ticks.push_back({double(n), fmt::format("{}", n)});
  if (quantity == Quantity::kTime) {
    panel.y_ticks = {{1e-3, "1 µs"}, {1e-2, "10 µs"}, {0.1, "0.1 ms"}, {1, "1 ms"},    {10, "10 ms"},
                     {1e2, "0.1 s"}, {1e3, "1 s"},    {1e4, "10 s"},   {1e5, "100 s"}, {1e6, "1000 s"}};
  } else {
    const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
    for (int power = 0; power < 40; power += 2)
      panel.y_ticks.push_back(
          {std::exp2(10 + power), fmt::format("{} {}", 1 << (power % 10), units[power / 10])});
  }
  return panel;
}

PlotLine line_of(Quantity quantity, const Points& points, const Mechanism& m, bool backward) {
  PlotLine line{.name = m.name, .color = color_of(m)};
  for (const Point& p : points) {
    const double value = quantity == Quantity::kTime ? p.milliseconds : double(p.memory_bytes);
    if (p.mechanism == m.name && p.backward == backward && value > 0)
      line.points.emplace_back(double(p.n), value);
  }
  std::sort(line.points.begin(), line.points.end());
  return line;
}

std::string conditions(const Point& p) {
  return fmt::format("{} heads of {}, {} thread{}", p.heads, p.head_size, p.threads,
                     p.threads == 1 ? "" : "s");
}

// Every mechanism, forward above forward and backward.
Plot overview(Quantity quantity, const Points& points) {
  const bool time = quantity == Quantity::kTime;
  Plot plot{.title = fmt::format("{} of attention ({})", time ? "Time" : "Memory", conditions(points[0])),
            .x_axis = "n, tokens",
            .legend = {{"full", PlotColor::kInk},
                       {"all keys", PlotColor::kBlue},
                       {"some keys", PlotColor::kOrange},
                       {"approximations", PlotColor::kGreen}},
            .stacked = true};
  for (const bool backward : {false, true}) {
    PlotPanel panel = empty_panel(quantity);
    panel.title = fmt::format("{}, {}", time ? "Time of a call" : "Memory beside inputs and outputs",
                              backward ? "forward and backward" : "forward");
    for (const Mechanism& m : mechanisms_of(points)) {
      PlotLine line = line_of(quantity, points, m, backward);
      if (!line.points.empty()) panel.lines.push_back(std::move(line));
    }
    if (!panel.lines.empty()) plot.panels.push_back(std::move(panel));
  }
  return plot;
}

// One mechanism beside full attention.
Plot beside_full(const Mechanism& m, const Points& points) {
  Plot plot{.title = fmt::format("{}: {} ({})", m.name, m.about, conditions(points[0])),
            .x_axis = "n, tokens",
            .legend = {{.meaning = "forward"}, {.meaning = "forward and backward", .dashed = true}}};
  for (const Quantity quantity : {Quantity::kTime, Quantity::kMemory}) {
    PlotPanel panel = empty_panel(quantity);
    panel.title = quantity == Quantity::kTime ? "Time of a call" : "Memory beside inputs and outputs";
    std::vector<Mechanism> both = {m};
    if (m.name != "full") both.insert(both.begin(), {.name = "full"});
    for (const Mechanism& each : both)
      for (const bool backward : {false, true}) {
        PlotLine line = line_of(quantity, points, each, backward);
        line.dashed = backward;
        if (!line.points.empty()) panel.lines.push_back(std::move(line));
      }
    plot.panels.push_back(std::move(panel));
  }
  return plot;
}

Points read_points(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(fmt::format("cannot read {}", path.string()));
  Points points;
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const auto fail = [&](const std::string& why) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path.string(), number, why));
    };
    Point point;
    try {
      point = from_json(json::parse(line));
    } catch (const std::exception& error) {
      fail(error.what());
    }
    if (!points.empty() && conditions(points[0]) != conditions(point))
      fail(fmt::format("{}, but {} before", conditions(point), conditions(points[0])));
    const auto before = std::find_if(points.begin(), points.end(), [&](const Point& p) {
      return p.mechanism == point.mechanism && p.backward == point.backward && p.n == point.n;
    });
    if (before == points.end())
      points.push_back(point);
    else if (point.milliseconds < before->milliseconds)
      *before = point;
  }
  if (points.empty()) throw std::runtime_error(fmt::format("{} holds no measurements", path.string()));
  return points;
}

void write_plot(const Plot& plot, const fs::path& path) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << svg(plot) << std::flush))
    throw std::runtime_error(fmt::format("cannot write {}", path.string()));
}

void write_plots(const Points& points, const fs::path& folder) {
  fs::create_directories(folder / "plots");
  write_plot(overview(Quantity::kTime, points), folder / "time.svg");
  write_plot(overview(Quantity::kMemory, points), folder / "memory.svg");
  for (const Mechanism& m : mechanisms_of(points))
    write_plot(beside_full(m, points), folder / "plots" / fmt::format("{}.svg", m.name));
}

}  // namespace
}  // namespace bertie::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: {} MEASUREMENTS.jsonl FOLDER\n", argv[0]);
    return 2;
  }
  try {
    bertie::bench::write_plots(bertie::bench::read_points(argv[1]), argv[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
