#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "bertie/table.h"
#include "io/quote.h"
#include "train/data/columns.h"
#include "train/data/conll.h"
#include "train/data/squad.h"

namespace bertie {

class TextRows::Source {
 public:
  virtual ~Source() = default;
  virtual bool next(TextRow& row) = 0;
  virtual uint64_t taken() const = 0;
  std::string found;
  bool header = true;  // or none was to be expected
};

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += text.empty() ? word : " " + word;
  return text;
}

class TableSource : public TextRows::Source {
 public:
  TableSource(TaskKind kind, std::unique_ptr<io::TextWindow> window, std::string_view extension,
              const WantedColumns& wanted)
      : kind_(kind), reader_(std::move(window), extension, table_hints(wanted)) {
    found = describe(reader_.format());
    header = reader_.format().json() || reader_.format().header;
    if (reader_.columns().empty()) return;  // no rows, or bad ones alone
    columns_ = find_columns(reader_, wanted);
    columns_.label.reset();
    found += ", " + describe(reader_, columns_);
  }

  bool next(TextRow& row) override {
    if (!reader_.next(row_)) return false;
    row = {.line = row_.line};
    try {
      if (row_.problem) throw Error(*row_.problem);
      if (reader_.columns().empty()) throw Error("this object is empty");
      row.a = first_text();
      if (columns_.text_pair) row.b = text_field(reader_, row_, *columns_.text_pair);
    } catch (const Error& error) {
      row.problem = error;
    }
    return true;
  }
  uint64_t taken() const override { return reader_.file().taken(); }

 private:
  std::string first_text() {
    if (kind_ != TaskKind::kTag || !reader_.format().json()) return text_field(reader_, row_, columns_.text);
    const nlohmann::json& words = json_field(reader_, row_, columns_.text);
    if (!words.is_array()) return text_field(reader_, row_, columns_.text);
    std::vector<std::string> all;
    for (const nlohmann::json& word : words) {
      if (!word.is_string()) throw Error(fmt::format("a word is a {}, not a string", word.type_name()));
      all.push_back(word.get<std::string>());
    }
    return joined(all);
  }

  TaskKind kind_;
  io::TableReader reader_;
  FoundColumns columns_;
  io::TableRow row_;
};

class ConllSource : public TextRows::Source {
 public:
  ConllSource(std::unique_ptr<io::TextWindow> window, const std::string& column)
      : reader_(std::move(window), column, "") {
    found = reader_.describe();
  }
  bool next(TextRow& row) override {
    ConllSentence sentence;
    if (!reader_.next(sentence)) return false;
    row = {.a = joined(sentence.words), .line = sentence.line, .problem = std::move(sentence.problem)};
    return true;
  }
  uint64_t taken() const override { return reader_.file().taken(); }

 private:
  ConllReader reader_;
};

class SquadSource : public TextRows::Source {
 public:
  explicit SquadSource(io::TextWindow& window) {
    found = "SQuAD's JSON";
    const std::string_view text = window.fill(SIZE_MAX);
    taken_ = window.file().taken();
    read_squad(text, window.file().name(), SquadAnswers::kIgnored,
               [&](SquadQuestion& question, const std::optional<Error>& problem) {
                 TextRow row{.a = std::move(question.question), .b = std::move(question.context)};
                 if (problem)
                   row.problem.emplace(
                       fmt::format("question {}: {}", io::quote(question.id), problem->what()),
                       problem->hint());
                 rows_.push_back(std::move(row));
               });
  }
  bool next(TextRow& row) override {
    if (at_ == rows_.size()) return false;
    row = std::move(rows_[at_++]);
    return true;
  }
  uint64_t taken() const override { return taken_; }

 private:
  std::vector<TextRow> rows_;
  size_t at_ = 0;
  uint64_t taken_ = 0;
};

bool is_table_name(std::string_view extension) {
  return extension == "csv" || extension == "tsv" || extension == "json" || extension == "jsonl" ||
         extension == "ndjson";
}

}  // namespace

TextRows::TextRows(TaskKind kind, const std::string& file, const std::string& text,
                   const std::string& text_pair) {
  auto window = std::make_unique<io::TextWindow>(file);
  const std::string_view sample = window->fill(io::kTableSample);
  const std::string extension = io::table_extension(file);
  if (kind == TaskKind::kAnswer && looks_like_squad(sample)) {
    source_ = std::make_unique<SquadSource>(*window);
  } else if (kind == TaskKind::kTag && extension != "csv" && !io::begins_json_object(sample) &&
             (extension == "conll" || extension == "conllu" || looks_like_conll(sample))) {
    source_ = std::make_unique<ConllSource>(std::move(window), text);
  } else {
    source_ = std::make_unique<TableSource>(
        kind, std::move(window), extension,
        WantedColumns{
            .kind = kind, .text = text, .text_pair = text_pair, .label = {}, .label_wanted = false});
  }
}
TextRows::~TextRows() = default;
TextRows::TextRows(TextRows&&) noexcept = default;
TextRows& TextRows::operator=(TextRows&&) noexcept = default;

bool TextRows::next(TextRow& row) { return source_->next(row); }
const std::string& TextRows::found() const { return source_->found; }
bool TextRows::has_header() const { return source_->header; }
uint64_t TextRows::taken() const { return source_->taken(); }

bool is_table(TaskKind kind, const std::string& file) {
  const std::string extension = io::table_extension(file);
  if (is_table_name(extension)) return true;
  if (kind != TaskKind::kTag) return false;
  if (extension == "conll" || extension == "conllu") return true;
  struct stat status {};  // a pipe can be read but once
  if (file == "-" || stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  io::TextWindow window(file);
  return looks_like_conll(window.fill(io::kTableSample));
}

struct UnpackedFile::File : io::InputFile {
  using io::InputFile::InputFile;
};
UnpackedFile::UnpackedFile(const std::string& path) : file_(std::make_unique<File>(path)) {}
UnpackedFile::~UnpackedFile() = default;
UnpackedFile::UnpackedFile(UnpackedFile&&) noexcept = default;
UnpackedFile& UnpackedFile::operator=(UnpackedFile&&) noexcept = default;
size_t UnpackedFile::read(std::span<char> out) { return file_->read(out); }
uint64_t UnpackedFile::taken() const { return file_->taken(); }

bool begins_packed(std::string_view bytes) { return io::is_packed(bytes); }

void TableWriter::begin() {
  if (!std::exchange(first_, false)) row_ += delimiter_;
}

TableWriter& TableWriter::field(std::string_view text) {
  begin();
  const std::array<char, 4> special{delimiter_, '"', '\n', '\r'};
  if (text.find_first_of({special.data(), special.size()}) == text.npos) {
    row_ += text;
    return *this;
  }
  row_ += '"';
  for (const char c : text) row_.append(c == '"' ? 2 : 1, c);
  row_ += '"';
  return *this;
}

TableWriter& TableWriter::field(float number) {
  begin();
  char digits[32];
  if (std::isfinite(number)) row_.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  return *this;
}

TableWriter& TableWriter::field(size_t number) {
  begin();
  row_ += std::to_string(number);
  return *this;
}

std::string TableWriter::take_row() {
  first_ = true;
  return std::exchange(row_, {}) + "\n";
}

}  // namespace bertie
