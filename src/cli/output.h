#pragma once
// Where results go: standard output, JSON, and files that appear whole or not at all.
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "io/atomic_file.h"

namespace bertie::cli {

// Whoever read our output has seen enough (`| head`): not an error, just the end.
struct ClosedPipe {};

// To standard output. Throws ClosedPipe, or Error where the disk is full and the like.
void print(std::string_view text);
template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print(std::string_view(fmt::format(format, std::forward<Arguments>(arguments)...)));
}
void flush_output();
// Everything is out, or it throws as print does. Called once, at the end.
void finish_output();
// On standard error: what is wrong, and what to try.
void warn(std::string_view what, std::string_view hint);

std::string with_commas(size_t number);     // 109,482,240
std::string size_text(size_t bytes);        // 90.9 MB
std::string duration_text(double seconds);  // 1:05 min

// Appends JSON: a string whose bytes may be anything (what is not UTF-8 becomes U+FFFD, and what a terminal
// should not get is escaped); numbers with as many digits as it takes to read the same number back.
void append_json(std::string& out, std::string_view text);
void append_json(std::string& out, std::span<const std::string> texts);
void append_json(std::string& out, float number);
void append_json(std::string& out, std::span<const float> numbers);
void append_json(std::string& out, std::span<const int32_t> numbers);

// An io::AtomicFile whose temporary goes by Ctrl-C too. One at a time.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void write_at_start(std::string_view bytes) { file_.write_at(0, bytes); }
  void commit();

 private:
  io::AtomicFile file_;
};

// Makes Ctrl-C (and a terminal that goes away) remove the temporary file and end with 128 + the signal.
void handle_signals();

// One line on standard error that is written over and over; see embed.
void show_progress_line(std::string_view line);
void end_progress_line();  // leaves the last one standing

}  // namespace bertie::cli
