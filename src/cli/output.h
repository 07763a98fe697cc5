#pragma once
// What the program says: results on standard output, everything else on standard error; and how it stops.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "bertie/error.h"

namespace bertie::cli {

// Whoever read our output has seen enough (`| head`): not an error, just the end.
struct ClosedPipe {};

// Standard output cannot be written to.
class OutputError : public Error {
 public:
  using Error::Error;
};

// To standard output. Throws ClosedPipe, or OutputError where the disk is full and the like.
void print(std::string_view text);
template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}
void flush_output();
// Everything is out, or it throws as print does. Called once, at the end.
void finish_output();
// To standard error. What cannot be said there is lost; results do not depend on who listens.
void say(std::string_view text);
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::memory_buffer text;  // up to 500 characters without taking memory: `pretrain` speaks between steps
  fmt::format_to(std::back_inserter(text), format, std::forward<Arguments>(arguments)...);
  say(std::string_view(text.data(), text.size()));
}
// On standard error: what is wrong, and what to try (if anything). Both may be anything: they are made
// printable, and the library's names of options become flags.
void warn(std::string_view what, std::string_view hint = {});
void report_problem(std::string_view line);  // the same without "bertie:", for "texts.txt:7: …"

std::string with_commas(size_t number);                    // 109,482,240
std::string counted(size_t number, std::string_view one);  // "1 row", "2,000 rows"
std::string score_text(double score);                      // 0.9231, or - where it is not a number
std::string size_text(size_t bytes);                       // 90.9 MB
std::string duration_text(double seconds);                 // 1:05 min

// Makes Ctrl-C (and a terminal that goes away) remove the temporary file and end with 128 + the signal.
void handle_signals();

// A signal asked us to stop, and the work has been left in order. The exit code is 128 + the signal.
struct Stopped {
  int signal;
};

// While there is one, the first signal ends nothing: the work asks throw_if_stopped() now and then. A second
// signal ends the program at once. `temporary` (or nothing) is removed then.
class StopInOrder {
 public:
  explicit StopInOrder(const std::string& temporary = {});
  ~StopInOrder();
  StopInOrder(const StopInOrder&) = delete;
  StopInOrder& operator=(const StopInOrder&) = delete;
};
void throw_if_stopped();  // throws Stopped

// One line on standard error: on a terminal it is written over and over.
void show_progress_line(std::string_view line);
void end_progress_line();  // leaves the last one standing

}  // namespace bertie::cli
