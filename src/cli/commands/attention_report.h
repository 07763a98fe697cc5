#pragma once
// What `bertie bench attention` measured: as JSON lines, as a table and in plain words.
#include <cstddef>
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

std::string table_header();
std::string table_row(const AttentionPoint& point);

// How time and memory grow, and the window against full attention.
std::string growth_in_words(const std::vector<AttentionPoint>& points);

}  // namespace bertie::cli
