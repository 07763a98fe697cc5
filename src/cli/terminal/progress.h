#pragma once
// How far a long piece of work is: one line on standard error, a few times a second on a terminal and every
// ten seconds in a log. Where results come out on the same terminal they are progress enough.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace bertie::cli {

// Says when it is time for a line. One thread at a time.
class ProgressLine {
 public:
  // `shows_results`: results are printed while the work goes on.
  ProgressLine(const Settings& settings, bool shows_results);

  bool is_due();  // and then not for a while
  void show(std::string_view line);
  // The last line: on a terminal, with -v, and where there were others.
  void finish(std::string_view line);
  double seconds() const;

 private:
  bool wanted_, says_end_;
  double pause_, last_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "12% …, 1:05 min left" where `total` is known.
std::string with_share(std::string_view line, double done, double total, double seconds);

// Text that goes by in megabytes.
class TextMeter {
 public:
  explicit TextMeter(const Settings& settings) : line_(settings, false) {}

  // Bytes of the files so far and of all (0: unknown), and of text.
  void operator()(uint64_t done, uint64_t total, uint64_t text);
  void finish(uint64_t text);
  double seconds() const { return line_.seconds(); }

 private:
  ProgressLine line_;
};

}  // namespace bertie::cli
