#pragma once
// Texts to work on, out of the files that people have: tables (CSV, TSV, JSON lines), CoNLL columns, SQuAD's
// JSON; one row after the other, so that a file may be as long as it likes. read_dataset (bertie/dataset.h)
// reads the same files whole, and with their labels.
//
//   bertie::TextRows rows(bertie::TaskKind::kClassify, "reviews.csv", "review");
//   for (bertie::TextRow row; rows.next(row);)
//     if (!row.problem) … row.a …
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bertie/dataset.h"
#include "bertie/error.h"
#include "bertie/export.h"

namespace bertie {

struct TextRow {
  std::string a = {}, b = {};  // kPair: the two texts; kAnswer: question and context. As the file has them
  size_t line = 0;             // from 1; 0 where the format has no lines
  std::optional<Error> problem = {};  // why it cannot be used; a and b mean nothing then
};

// For kTag a row is a sentence: words of CoNLL columns or of a list are joined with spaces.
class BERTIE_API TextRows {
 public:
  // Columns by name, or by number from 1; empty: found by their usual names. "-" is standard input. Throws
  // Error with field "text" or "text_pair" where a column is not there.
  TextRows(TaskKind kind, const std::string& file, const std::string& text = {},
           const std::string& text_pair = {});
  ~TextRows();
  TextRows(TextRows&&) noexcept;
  TextRows& operator=(TextRows&&) noexcept;

  bool next(TextRow& row);           // false at the end; throws Error where reading fails
  const std::string& found() const;  // the format, in words: "CSV, column review"
  bool has_header() const;           // false: a table whose first row is a row; true for other formats
  uint64_t taken() const;            // bytes of the file so far, packed ones where it is packed

  class Source;

 private:
  std::unique_ptr<Source> source_;
};

// Whether a file is one for TextRows: by its name (.csv, .tsv, .json, .jsonl, .ndjson, and for kTag .conll
// and .conllu; with .gz, .xz or .zst too), or for kTag because it has CoNLL's columns.
BERTIE_API bool is_table(TaskKind kind, const std::string& file);

// A file's bytes, unpacked where it is gzip, xz or Zstandard (the first bytes tell), without a byte order
// mark.
class BERTIE_API UnpackedFile {
 public:
  explicit UnpackedFile(const std::string& path);  // throws Error
  ~UnpackedFile();
  UnpackedFile(UnpackedFile&&) noexcept;
  UnpackedFile& operator=(UnpackedFile&&) noexcept;

  size_t read(std::span<char> out);  // how much; 0 at the end alone. Throws Error
  uint64_t taken() const;            // packed bytes so far

 private:
  struct File;
  std::unique_ptr<File> file_;
};

// Whether bytes are the beginning of such a file; six of them tell.
BERTIE_API bool begins_packed(std::string_view bytes);

// Fields of a row of CSV or TSV as TextRows and others read it back: in quotes where they must be.
class BERTIE_API TableWriter {
 public:
  explicit TableWriter(char delimiter) : delimiter_(delimiter) {}
  TableWriter& field(std::string_view text);
  TableWriter& field(float number);  // all its digits; empty where it is not finite
  TableWriter& field(size_t number);
  std::string take_row();  // with its line end

 private:
  void begin();
  char delimiter_;
  bool first_ = true;
  std::string row_;
};

}  // namespace bertie
