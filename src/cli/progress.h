#pragma once
// How far a long piece of work is: one line with count, rate and time left, a few times a second on a
// terminal, now and then in a log.
#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "bertie/data.h"
#include "cli/input.h"

namespace bertie::cli {

class Progress {
 public:
  // `what` is counted: "texts".
  Progress(bool wanted, std::string_view what);

  void update(size_t count, const Texts& texts);
  void finish(size_t count, std::string_view where = {});

 private:
  double seconds() const;
  bool wanted_;
  std::string_view what_;
  double pause_, last_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The same for text that goes by in megabytes. Thread by thread, not two at once.
class TextMeter {
 public:
  explicit TextMeter(const Settings& settings);

  // Bytes of the files so far and of all (0: unknown), and of text.
  void operator()(uint64_t done, uint64_t total, uint64_t text);
  void finish(uint64_t text);
  double seconds() const;

 private:
  bool wanted_;
  double pause_, last_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The texts that vocab and prepare read. Warnings come between the lines of progress; under --quiet not at
// all.
TextOptions text_options(const Settings& settings, TextMeter& meter);
// What was wrong with them: in JSON, where anything was; and in words, unless JSON says it. Returns the exit
// code: 1 where a file that was named is no text.
void add_text_report(const TextReport& texts, nlohmann::ordered_json& to);
int report_texts(const TextReport& texts, const Settings& settings);

}  // namespace bertie::cli
