#pragma once
// What the readers of labelled data share: rows that are bad, and bytes that are not UTF-8.
#include <initializer_list>
#include <string>
#include <vector>

#include "bertie/dataset.h"
#include "bertie/error.h"
#include "io/table.h"

namespace bertie {

class DatasetRows {
 public:
  // Both must live as long.
  DatasetRows(Dataset& data, const DatasetOptions& options) : data_(data), options_(options) {}

  // A row that cannot be used: throws, or leaves it out as the options say. A line of 0 is none.
  void bad(size_t line, const Error& problem);
  // Mends texts of a row that are not valid UTF-8, and counts the row once however often it is called. Error
  // under `strict`.
  void make_valid(size_t line, std::initializer_list<std::string*> texts);
  void make_valid(size_t line, std::vector<std::string>& texts);

  // Of JSON that has no keys in its first rows.
  void bad_all(io::TableReader& reader);

  std::string place(size_t line) const;  // "reviews.csv:7"

 private:
  void mend(std::string& text, size_t line);

  Dataset& data_;
  const DatasetOptions& options_;
  size_t counted_line_ = 0;  // of the last row that was not valid UTF-8
};

// The parts of read_dataset, each in a file of its own. They fill rows, labels, found and what is said of
// them.
void read_texts(Dataset& data, const DatasetOptions& options, const std::string& path);
void read_tags(Dataset& data, const DatasetOptions& options, const std::string& path);
void read_questions(Dataset& data, const DatasetOptions& options, const std::string& path);

}  // namespace bertie
