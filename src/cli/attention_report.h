#pragma once
// What `bertie bench attention` measured: as JSON lines, as a table, in plain words and as plots.
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace bertie::cli {

struct AttentionPoint {
  std::string mechanism;
  bool backward = false;  // forward and backward together, or forward alone
  size_t n = 0, heads = 0, head_size = 0, threads = 0, runs = 0;
  double milliseconds = 0, median_milliseconds = 0;
  double gflops = 0, peak_gflops = 0, fraction = 0, median_fraction = 0;
  double pairs = 0;         // a query and a key that it sees, over all heads
  size_t memory_bytes = 0;  // beside inputs, outputs, gradients and parameters; a table of n² included
  std::optional<size_t> resident_growth_bytes, resident_peak_bytes;  // where the system tells
};

std::string to_json_line(const AttentionPoint& point);
// Lines of one or several runs; of a point that was measured again the fastest counts. Error names the line.
std::vector<AttentionPoint> read_points(const std::filesystem::path& path);

std::string table_header();
std::string table_row(const AttentionPoint& point);

// How time and memory grow, and the window against full attention.
std::string growth_in_words(const std::vector<AttentionPoint>& points);

// time.svg, memory.svg and plots/MECHANISM.svg. The folder is made apart, before long measurements begin.
void make_plot_folder(const std::filesystem::path& folder);
void write_plots(const std::vector<AttentionPoint>& points, const std::filesystem::path& folder);

}  // namespace bertie::cli
