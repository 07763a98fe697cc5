#include "cli/commands/attention_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/json_writer.h"
#include "cli/commands/mechanisms.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

constexpr const char* kForward = "forward";
constexpr const char* kBoth = "forward+backward";
constexpr const char* kFamilies[] = {"all_keys", "some_keys", "approximate"};  // Mechanism::Family

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
      "1/{:.1f} of the pairs of tokens, so a pair costs {:.2f} times what it costs full attention.",
      window->n, backward ? "forward and backward" : "forward", readable_time(window->milliseconds),
      readable_time(full->milliseconds), faster, fewer, fewer / faster);
}

std::string growth_row(const std::vector<AttentionPoint>& points, const AttentionPoint& last) {
  const AttentionPoint* before = find(points, last.mechanism, last.backward, last.n / 2);
  if (!before) return "";
  const double memory = before->memory_bytes ? double(last.memory_bytes) / double(before->memory_bytes) : 0;
  return fmt::format("  {:<19}{:<18}{:>7} to {:<8}{:>8.2f}{:>10.2f}\n", last.mechanism,
                     last.backward ? kBoth : kForward, last.n / 2, last.n,
                     last.milliseconds / before->milliseconds, memory);
}

}  // namespace

std::string to_json_line(const AttentionPoint& p) {
  const Mechanism& mechanism = mechanism_named(p.mechanism);
  JsonWriter json;
  json.begin_object()
      .field("mechanism", p.mechanism)
      .field("about", mechanism.help)
      .field("family", kFamilies[size_t(mechanism.family)])
      .field("pass", p.backward ? kBoth : kForward)
      .field("n", p.n)
      .field("heads", p.heads)
      .field("head_size", p.head_size)
      .field("threads", p.threads)
      .field("runs", p.runs)
      .field("milliseconds", p.milliseconds)
      .field("median_milliseconds", p.median_milliseconds)
      .field("gflops", p.gflops)
      .field("peak_gflops", p.peak_gflops)
      .field("fraction", p.fraction)
      .field("median_fraction", p.median_fraction)
      .field("pairs", p.pairs)
      .field("memory_bytes", p.memory_bytes);
  for (const auto& [name, bytes] : {std::pair("resident_growth_bytes", p.resident_growth_bytes),
                                    {"resident_peak_bytes", p.resident_peak_bytes}}) {
    json.key(name);
    bytes ? json.value(*bytes) : json.null();
  }
  return json.end_object().take() + "\n";
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

}  // namespace bertie::cli
