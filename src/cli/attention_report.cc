#include "cli/attention_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bertie/error.h"
#include "cli/mechanisms.h"
#include "cli/output.h"
#include "cli/svg_plot.h"
#include "cli/terminal.h"

namespace bertie::cli {
namespace {

using nlohmann::json;

constexpr const char* kForward = "forward";
constexpr const char* kBoth = "forward+backward";

AttentionPoint from_json(const json& j) {
  AttentionPoint p;
  const auto get = [&](const char* name, auto& to) { j.at(name).get_to(to); };
  get("mechanism", p.mechanism);
  mechanism_named(p.mechanism);
  const auto pass = j.at("pass").get<std::string>();
  if (pass != kForward && pass != kBoth) throw Error(fmt::format("there is no pass {}", in_quotes(pass)));
  p.backward = pass == kBoth;
  get("n", p.n), get("heads", p.heads), get("head_size", p.head_size), get("threads", p.threads);
  get("runs", p.runs);
  get("milliseconds", p.milliseconds), get("median_milliseconds", p.median_milliseconds);
  get("gflops", p.gflops), get("peak_gflops", p.peak_gflops);
  get("fraction", p.fraction), get("median_fraction", p.median_fraction);
  get("pairs", p.pairs), get("memory_bytes", p.memory_bytes);
  if (!j.at("resident_growth_bytes").is_null())
    p.resident_growth_bytes = j.at("resident_growth_bytes").get<size_t>();
  if (!j.at("resident_peak_bytes").is_null())
    p.resident_peak_bytes = j.at("resident_peak_bytes").get<size_t>();
  if (p.n == 0 || !(p.milliseconds > 0)) throw Error("n and milliseconds must be above 0");
  return p;
}

bool same_point(const AttentionPoint& a, const AttentionPoint& b) {
  return a.mechanism == b.mechanism && a.backward == b.backward && a.n == b.n;
}

const AttentionPoint* find(const std::vector<AttentionPoint>& points, std::string_view mechanism,
                           bool backward, size_t n) {
  for (const AttentionPoint& p : points)
    if (p.mechanism == mechanism && p.backward == backward && p.n == n) return &p;
  return nullptr;
}

double mebibytes(size_t bytes) { return double(bytes) / (1 << 20); }

std::string readable_time(double milliseconds) {
  return milliseconds < 1000 ? fmt::format("{:.3g} ms", milliseconds)
                             : fmt::format("{:.3g} s", milliseconds / 1000);
}

std::string window_against_full(const std::vector<AttentionPoint>& points, bool backward) {
  const AttentionPoint *full = nullptr, *window = nullptr;
  for (const AttentionPoint& p : points)
    if (p.mechanism == "window256" && p.backward == backward && (!window || p.n > window->n))
      if (const AttentionPoint* same_n = find(points, "full", backward, p.n)) window = &p, full = same_n;
  if (!window) return "";
  const double faster = full->milliseconds / window->milliseconds, fewer = full->pairs / window->pairs;
  return fmt::format(
      "At n = {}, {}: window256 takes {} and full attention {}, {:.1f} times as long. The window sees "
      "1/{:.1f} of the pairs of tokens, so a pair costs {:.2f} times what it costs full attention: {} 25% of "
      "proportional.",
      window->n, backward ? "forward and backward" : "forward", readable_time(window->milliseconds),
      readable_time(full->milliseconds), faster, fewer, fewer / faster,
      fewer / faster <= 1.25 ? "within" : "not within");
}

std::string growth_row(const std::vector<AttentionPoint>& points, const AttentionPoint& last) {
  const AttentionPoint* before = find(points, last.mechanism, last.backward, last.n / 2);
  if (!before) return "";
  const double memory = before->memory_bytes ? double(last.memory_bytes) / double(before->memory_bytes) : 0;
  return fmt::format("  {:<19}{:<18}{:>7} to {:<8}{:>8.2f}{:>10.2f}\n", last.mechanism,
                     last.backward ? kBoth : kForward, last.n / 2, last.n,
                     last.milliseconds / before->milliseconds, memory);
}

PlotColour colour_of(const Mechanism& m) {
  if (m.name == "full") return PlotColour::ink;
  switch (m.family) {
    case Mechanism::Family::all_keys:
      return PlotColour::blue;
    case Mechanism::Family::some_keys:
      return PlotColour::orange;
    case Mechanism::Family::approximate:
      return PlotColour::green;
  }
  return PlotColour::ink;
}

enum class Quantity { time, memory };

PlotPanel empty_panel(Quantity quantity) {
  PlotPanel panel;
  for (size_t n = 1; n <= size_t{1} << 20; n *= 2) panel.x_ticks.push_back({double(n), fmt::format("{}", n)});
  if (quantity == Quantity::time) {
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

PlotLine line_of(Quantity quantity, const std::vector<AttentionPoint>& points, const Mechanism& m,
                 bool backward) {
  PlotLine line{.name = std::string(m.name), .colour = colour_of(m)};
  for (const AttentionPoint& p : points) {
    const double value = quantity == Quantity::time ? p.milliseconds : double(p.memory_bytes);
    if (p.mechanism == m.name && p.backward == backward && value > 0)
      line.points.emplace_back(double(p.n), value);
  }
  std::sort(line.points.begin(), line.points.end());
  return line;
}

std::string conditions(const AttentionPoint& p) {
  return fmt::format("{} heads of {}, {} thread{}", p.heads, p.head_size, p.threads,
                     p.threads == 1 ? "" : "s");
}

// Every mechanism, forward above forward and backward.
Plot overview(Quantity quantity, const std::vector<AttentionPoint>& points) {
  const bool time = quantity == Quantity::time;
  Plot plot{.title = fmt::format("{} of attention ({})", time ? "Time" : "Memory", conditions(points[0])),
            .x_axis = "n, tokens",
            .legend = {{"full", PlotColour::ink},
                       {"all keys", PlotColour::blue},
                       {"some keys", PlotColour::orange},
                       {"approximations", PlotColour::green}},
            .stacked = true};
  for (const bool backward : {false, true}) {
    PlotPanel panel = empty_panel(quantity);
    panel.title = fmt::format("{}, {}", time ? "Time of a call" : "Memory beside inputs and outputs",
                              backward ? "forward and backward" : "forward");
    for (const Mechanism& m : mechanisms()) {
      PlotLine line = line_of(quantity, points, m, backward);
      if (!line.points.empty()) panel.lines.push_back(std::move(line));
    }
    if (!panel.lines.empty()) plot.panels.push_back(std::move(panel));
  }
  return plot;
}

// One mechanism beside full attention.
Plot beside_full(const Mechanism& m, const std::vector<AttentionPoint>& points) {
  Plot plot{.title = fmt::format("{}: {} ({})", m.name, m.help, conditions(points[0])),
            .x_axis = "n, tokens",
            .legend = {{.meaning = "forward"}, {.meaning = "forward and backward", .dashed = true}}};
  for (const Quantity quantity : {Quantity::time, Quantity::memory}) {
    PlotPanel panel = empty_panel(quantity);
    panel.title = quantity == Quantity::time ? "Time of a call" : "Memory beside inputs and outputs";
    std::vector<const Mechanism*> both = {&mechanisms()[0]};
    if (&m != both[0]) both.push_back(&m);
    for (const Mechanism* each : both)
      for (const bool backward : {false, true}) {
        PlotLine line = line_of(quantity, points, *each, backward);
        line.dashed = backward;
        if (!line.points.empty()) panel.lines.push_back(std::move(line));
      }
    plot.panels.push_back(std::move(panel));
  }
  return plot;
}

void write_plot(const Plot& plot, const std::filesystem::path& path) {
  const std::string text = svg(plot);
  NewFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace

std::string to_json_line(const AttentionPoint& p) {
  const auto or_null = [](const std::optional<size_t>& x) { return x ? json(*x) : json(nullptr); };
  return json{{"mechanism", p.mechanism},
              {"pass", p.backward ? kBoth : kForward},
              {"n", p.n},
              {"heads", p.heads},
              {"head_size", p.head_size},
              {"threads", p.threads},
              {"runs", p.runs},
              {"milliseconds", p.milliseconds},
              {"median_milliseconds", p.median_milliseconds},
              {"gflops", p.gflops},
              {"peak_gflops", p.peak_gflops},
              {"fraction", p.fraction},
              {"median_fraction", p.median_fraction},
              {"pairs", p.pairs},
              {"memory_bytes", p.memory_bytes},
              {"resident_growth_bytes", or_null(p.resident_growth_bytes)},
              {"resident_peak_bytes", or_null(p.resident_peak_bytes)}}
             .dump() +
         "\n";
}

std::vector<AttentionPoint> read_points(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in)
    throw Error(fmt::format("cannot read {}", path.string()),
                fmt::format("bertie bench attention --json > {}", path.string()));
  std::vector<AttentionPoint> points;
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    AttentionPoint point;
    try {
      point = from_json(json::parse(line));
    } catch (const std::exception& error) {
      throw Error(fmt::format("{}, line {}: {}", path.string(), number, error.what()),
                  "lines as bertie bench attention --json prints them");
    }
    if (!points.empty() && conditions(points[0]) != conditions(point))
      throw Error(fmt::format("{}, line {}: {}, but {} before", path.string(), number, conditions(point),
                              conditions(points[0])),
                  "a file for each number of threads and each shape");
    const auto before = std::find_if(points.begin(), points.end(),
                                     [&](const AttentionPoint& p) { return same_point(p, point); });
    if (before == points.end())
      points.push_back(point);
    else if (point.milliseconds < before->milliseconds)
      *before = point;
  }
  if (points.empty())
    throw Error(fmt::format("{} holds no measurements", path.string()), "bertie bench attention --json");
  return points;
}

std::string table_header() {
  return fmt::format("{:>7}  {:<19}{:<18}{:>10}{:>11}{:>9}{:>9}{:>9}{:>10}{:>10}\n", "n", "mechanism", "pass",
                     "best ms", "median ms", "GFLOP/s", "of peak", "median", "MiB", "resident");
}

std::string table_row(const AttentionPoint& p) {
  return fmt::format(
      "{:>7}  {:<19}{:<18}{:>10.3f}{:>11.3f}{:>9.1f}{:>8.1f}%{:>8.1f}%{:>10.2f}{:>10}\n", p.n, p.mechanism,
      p.backward ? kBoth : kForward, p.milliseconds, p.median_milliseconds, p.gflops, 100 * p.fraction,
      100 * p.median_fraction, mebibytes(p.memory_bytes),
      p.resident_growth_bytes ? fmt::format("{:.2f}", mebibytes(*p.resident_growth_bytes)) : "n/a");
}

std::string growth_in_words(const std::vector<AttentionPoint>& points) {
  std::string rows, out;
  for (const Mechanism& m : mechanisms())
    for (const bool backward : {false, true}) {
      const AttentionPoint* last = nullptr;
      for (const AttentionPoint& p : points)
        if (p.mechanism == m.name && p.backward == backward && (!last || p.n > last->n)) last = &p;
      if (last) rows += growth_row(points, *last);
    }
  if (!rows.empty())
    out += "Twice the tokens, how many times the time and the memory (2 is linear, 4 is quadratic):\n\n" +
           fmt::format("  {:<19}{:<18}{:>19}{:>8}{:>10}\n", "mechanism", "pass", "n", "time", "memory") +
           rows + "\n";
  for (const bool backward : {false, true})
    if (const std::string words = window_against_full(points, backward); !words.empty())
      out += wrap(words, std::min<size_t>(output_width(), 100)) + "\n";
  const auto largest = std::max_element(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return a.resident_peak_bytes.value_or(0) < b.resident_peak_bytes.value_or(0);
  });
  if (largest != points.end() && largest->resident_peak_bytes)
    out += wrap(fmt::format("The process held at most {:.0f} MiB, inputs and outputs included: {} at n = {}.",
                            mebibytes(*largest->resident_peak_bytes), largest->mechanism, largest->n),
                std::min<size_t>(output_width(), 100));
  return out;
}

void make_plot_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder / "plots", error);
  if (error)
    throw Error(fmt::format("cannot make the folder {}: {}", (folder / "plots").string(), error.message()),
                "a folder that you may write to");
}

void write_plots(const std::vector<AttentionPoint>& points, const std::filesystem::path& folder) {
  write_plot(overview(Quantity::time, points), folder / "time.svg");
  write_plot(overview(Quantity::memory, points), folder / "memory.svg");
  for (const Mechanism& m : mechanisms())
    if (std::any_of(points.begin(), points.end(), [&](const auto& p) { return p.mechanism == m.name; }))
      write_plot(beside_full(m, points), folder / "plots" / fmt::format("{}.svg", m.name));
}

}  // namespace bertie::cli
