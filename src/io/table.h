#pragma once
// Rows of a table, one after the other: CSV, TSV, JSON lines or a JSON array of objects; packed or not. How
// the file is written is recognized from its beginning (recognize_table). A row that cannot be read says why
// and the reading goes on with the next; memory does not grow with the file.
//
//   CSV  as RFC 4180 has it: a field in quotes may hold delimiters, line ends and doubled quotes. The
//   delimiter
//        is a comma or a semicolon. Lines end with \n or \r\n, and empty ones are no rows.
//   TSV  the same with tabs; or, as GLUE has it, with quotes that are characters like any other.
//   JSON lines  an object a line. Its strings are valid UTF-8, or the row is bad.
//
// Fields of CSV and TSV are the file's bytes, which need not be UTF-8.
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/error.h"
#include "io/text_window.h"

namespace bertie::io {

inline constexpr size_t kMaxTableRow = size_t{16} << 20;  // bytes; a longer row is bad
inline constexpr size_t kMaxTableColumns = 4096;
inline constexpr size_t kTableSample = size_t{1} << 20;  // bytes that a format is recognized from

// data.csv.gz gives "csv": lower case, without what it is packed with; empty where there is none.
std::string table_extension(std::string_view path);

struct TableFormat {
  enum class Kind { kDelimited, kJsonLines, kJsonArray };
  Kind kind = Kind::kDelimited;
  char delimiter = ',';
  bool quotes = true;  // fields may be in quotes
  bool header = true;  // the first row names the columns

  bool json() const { return kind != Kind::kDelimited; }
};

struct TableHints {
  std::optional<bool> header = {};                                 // whether there is one; empty: look
  bool header_expected = true;                                     // where the first row does not tell
  std::function<bool(std::string_view name)> is_column_name = {};  // that columns often have
};

// `extension` as table_extension gives it; `ended`: the sample is all there is.
TableFormat recognize_table(std::string_view sample, bool ended, std::string_view extension,
                            const TableHints& hints);
// "TSV without quotes", "CSV with semicolons", "JSON lines"
std::string describe(const TableFormat& format);

struct TableRow {
  std::vector<std::string> fields = {};  // one for each column; empty for JSON
  nlohmann::json object = {};            // JSON
  size_t line = 0;                       // that it begins in, from 1
  std::optional<Error> problem = {};     // why it cannot be used; without file and line
};

class TableReader {
 public:
  // Throws Error where the file cannot be read or is no text.
  explicit TableReader(const std::string& path, const TableHints& hints = {});
  // The same for who has looked at the text, and taken nothing; `extension` as table_extension gives it.
  TableReader(std::unique_ptr<TextWindow> window, std::string_view extension, const TableHints& hints);

  // False at the end. Throws Error where reading fails.
  bool next(TableRow& row);

  const TableFormat& format() const { return format_; }
  // The header's names, or numbers from 1. Of JSON: all keys of the first hundred rows.
  const std::vector<std::string>& columns() const { return columns_; }
  // The rows that next() will give, at least so many where there are; valid until next().
  const std::deque<TableRow>& ahead(size_t rows);
  const InputFile& file() const { return window_->file(); }

 private:
  bool read_next(TableRow& row);
  bool next_delimited(TableRow& row);
  bool next_json_line(TableRow& row);
  bool next_json_element(TableRow& row);
  void name_columns();

  std::unique_ptr<TextWindow> window_;
  TableFormat format_;
  std::vector<std::string> columns_;
  std::deque<TableRow> ahead_;  // read and not yet given
  bool in_array_ = false, after_array_ = false;
};

// What the reader and recognize_table share. Whether the text begins with a whole record, and how long it is.
struct TableRecord {
  enum class State { kWhole, kNeedsMore, kBad };
  State state = State::kWhole;
  size_t bytes = 0;                      // kWhole: with its line end. kBad: its first line
  const char* problem = nullptr;         // kBad
  bool quoted = false, doubled = false;  // a field is in quotes; with a doubled quote in it
};
TableRecord read_record(std::string_view text, bool ended, const TableFormat& format,
                        std::vector<std::string>& fields);
bool is_blank_line(std::string_view text);  // that the text begins with

// Throws Error for UTF-16 and for what is no text at all; `name` is the file's.
void check_is_text(std::string_view sample, const std::string& name);
// Whether the text begins as JSON objects do: {" or {}.
bool begins_json_object(std::string_view text);
// The end of the JSON value that the text begins with: by its brackets and quotes alone. npos: not in the
// text.
size_t json_value_end(std::string_view text);

}  // namespace bertie::io
