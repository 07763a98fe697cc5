#include "train/data/unlabeled.h"

#include "bertie/table.h"
#include "io/table.h"
#include "train/data/dataset_rows.h"

namespace bertie {
namespace {

bool is_plain_text(TaskKind kind, const std::string& file) {
  return (kind == TaskKind::kClassify || kind == TaskKind::kTag) && (file == "-" || !is_table(kind, file));
}

std::vector<std::string> split_words(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  std::vector<std::string> words;
  for (size_t at = 0; (at = text.find_first_not_of(kSpaces, at)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

class UnlabeledRows {
 public:
  UnlabeledRows(Dataset& data, const DatasetOptions& options) : data_(data), rows_(data, options) {}

  // Rows without text say nothing.
  void add(TextRow row) {
    std::vector<std::string> words = split_words(row.a);
    if (words.empty()) return;
    rows_.make_valid(row.line, {&row.a, &row.b});
    if (data_.kind == TaskKind::kTag) {
      rows_.make_valid(row.line, words);
      data_.sentences.push_back({.words = std::move(words), .line = row.line});
    } else if (data_.kind == TaskKind::kAnswer) {
      data_.questions.push_back(
          {.question = std::move(row.a), .context = std::move(row.b), .line = row.line});
    } else {
      data_.texts.push_back({.a = std::move(row.a), .b = std::move(row.b), .line = row.line});
    }
  }

  void read_lines(const std::string& file) {
    data_.found = "plain text, a row a line";
    io::TextWindow window(file);
    for (size_t end; (end = window.line_end(io::kMaxTableRow)) > 0;) {
      const size_t line = window.line();
      if (end == std::string_view::npos) {
        rows_.bad(line, Error("the line is too long"));
        window.skip_line();
        continue;
      }
      add({.a = std::string(io::without_line_end(window.text().substr(0, end))), .line = line});
      window.take(end);
    }
  }

  void read_table(const std::string& file, const DatasetOptions& options) {
    TextRows rows(data_.kind, file, options.text, options.text_pair);
    data_.found = rows.found();
    for (TextRow row; rows.next(row);)
      if (row.problem)
        rows_.bad(row.line, *row.problem);
      else
        add(std::move(row));
  }

 private:
  Dataset& data_;
  DatasetRows rows_;
};

}  // namespace

Dataset read_unlabeled(TaskKind kind, const std::string& file, const DatasetOptions& options) {
  Dataset data{.kind = kind, .file = file == "-" ? "standard input" : file, .labeled = false};
  UnlabeledRows rows(data, options);
  if (is_plain_text(kind, file))
    rows.read_lines(file);
  else
    rows.read_table(file, options);
  if (data.size() == 0) throw Error(data.file + " has no rows", "", "unlabeled_file");
  return data;
}

}  // namespace bertie
