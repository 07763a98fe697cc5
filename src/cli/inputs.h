#pragma once
// What commands work on, one input after the other: a text a line, or two texts a line, or rows of tables.
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/table.h"
#include "cli/options.h"

namespace bertie::cli {

// The texts of the command line, one after the other, holding one line at a time: first the words, then the
// files' lines (or those of standard input). A line ends with \n or \r\n; the last one may do without. A
// byte order mark at the start of a file is dropped, and packed files are unpacked. Where the command reads
// tables, files that are (bertie::is_table), or all where a column is named, give rows instead of lines.
class LineReader {
 public:
  // Throws UsageError where there is nothing to read but a terminal, Error where a file cannot be opened or
  // the first one has no such column.
  explicit LineReader(const Settings& settings, std::optional<TaskKind> tables = {});
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // False at the end. Throws Error where reading fails.
  bool next(std::string& text);
  // What next gave, if it was of a table: its row, to be taken from; else null.
  TextRow* row() { return row_ ? &*row_ : nullptr; }
  // Whether next would give something (or the end) without waiting for whoever writes to our pipe.
  bool ready();
  // Where the last text came from: "texts.txt:7", or "text 2" for a word.
  size_t file() const { return next_file_; }  // 0: a word; else files count from 1
  size_t line() const { return line_; }
  std::string place(size_t file, size_t line) const;
  // Whoever waits for a pipe in next finds the end there. From any thread.
  void give_up() { given_up_ = true; }
  // Bytes given out, and how many there are; 0 if unknown.
  size_t done() const;
  size_t total() const { return total_; }

 private:
  bool fill();
  bool open_next();
  bool is_open() const { return file_ >= 0 || packed_ || rows_; }
  void close_file();
  bool is_packed_file(const std::string& file) const;
  size_t find_line_end();  // in the buffer, or npos

  std::vector<std::string> words_, files_;
  size_t next_word_ = 0, next_file_ = 0, line_ = 0;
  std::vector<int> open_;  // descriptors of those that can be opened only once, such as pipes; else -1
  // The one being read: one of these.
  int file_ = -1;
  std::optional<UnpackedFile> packed_;
  std::optional<TextRows> rows_;
  std::optional<TextRow> row_;  // that next gave
  std::optional<TaskKind> tables_;
  std::string column_, column_pair_;
  bool verbose_, quiet_;
  bool ended_ = false;  // it has no more than what is in the buffer
  std::string buffer_;  // what was read; lines are taken from begin_ on
  size_t begin_ = 0;
  size_t searched_ = 0;  // bytes from begin_ on that have no line end
  size_t done_ = 0, total_ = 0;
  std::atomic<bool> given_up_ = false;
};

struct Input {
  std::string a = {}, b = {};
  size_t index = 0;                   // from 0, bad ones counted too
  size_t file = 0, line = 0;          // for LineReader::place
  uint64_t sum = 0;                   // a checksum of all inputs up to this one
  std::optional<Error> problem = {};  // why it cannot be used; a and b mean nothing then
};

// The names of a line's two texts where it is JSON.
struct Fields {
  std::string_view a, b;
};
inline constexpr Fields kPairFields{"text", "text_pair"}, kQuestionFields{"question", "context"};

// Inputs that cannot be used are reported and counted, and the others go on; --strict makes them errors.
// Bytes that are not UTF-8 are replaced and counted.
class Inputs {
 public:
  // Each word, each line, and where the command reads tables each row, is a text.
  explicit Inputs(const Settings& settings, std::optional<TaskKind> tables = {});
  // Two words are one input. A line is two texts with a tab between them, or a JSON object.
  Inputs(const Settings& settings, Fields fields, std::optional<TaskKind> tables = {});
  // Each word and each line is a question about the same context.
  Inputs(const Settings& settings, std::string context);

  // False at the end; and, unless it may wait, where there is none to be had at once. Those with a problem
  // are among them: whoever asks tells `fail`.
  bool read(Input& input, bool may_wait = true);
  // The next one that can be used; problems are told to `fail`.
  bool next(Input& input);
  void give_up() { lines_.give_up(); }  // from any thread: read finds the end instead of waiting
  const LineReader& lines() const { return lines_; }
  size_t count() const { return count_; }  // met so far, bad ones too
  uint64_t sum() const { return sum_; }    // of all of them
  size_t failed() const { return failed_; }
  void set_failed(size_t count) { failed_ = count; }  // by those who did this work before, or a part of it
  bool only_one() const { return only_one_; }

  // This input cannot be used. Throws under --strict, and where it is the only one.
  void fail(const Input& input, const Error& error);
  // Says how many failed (and what became of them) and how many were not UTF-8; the exit code. `what` are
  // "texts".
  int report(std::string_view what, std::string_view failed = {}) const;

 private:
  void split(std::string& line, Input& input) const;
  void make_valid(Input& input);

  std::optional<Fields> fields_;
  std::optional<std::string> context_;
  std::optional<Input> first_;  // from the command line
  LineReader lines_;
  bool strict_, quiet_, only_one_;
  size_t count_ = 0, failed_ = 0, invalid_ = 0;
  uint64_t sum_ = 0;
  std::string first_invalid_;  // its place
};

// A text that is no input of its own. Bytes that are not UTF-8 are an Error under --strict, else they are
// replaced, with a warning that calls the text `what`.
std::string valid_text(const Settings& settings, std::string text, std::string_view what);

// The whole of a file; "-" is standard input.
std::string read_whole(const std::string& file);

}  // namespace bertie::cli
