#pragma once
// Texts to learn from, document by document, from files, folders and standard input, packed or not;
// TextOptions in bertie/data.h says how they are read. A paragraph longer than kMaxParagraph and a document
// longer than kMaxDocument are split, so that memory stays bounded whatever a file holds.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/data.h"
#include "bertie/error.h"
#include "io/input_file.h"

namespace bertie {

inline constexpr size_t kMaxParagraph = size_t{64} << 10;
inline constexpr size_t kMaxDocument = size_t{512} << 10;  // and the paragraph that reaches it

// news.jsonl, news.json, news.ndjson; with .gz, .xz or .zst too.
bool is_json_lines(std::string_view path);

class Corpus {
 public:
  // Throws Error for an input that is not there, a folder without files, or a field where nothing is JSON
  // lines.
  explicit Corpus(const TextOptions& options);

  // The next document's paragraphs, one a line, none empty; false at the end. Throws Error.
  bool next(std::string& document);

  struct File {
    std::string path;
    uint64_t bytes;  // 0 for what is no regular file
    bool json;       // JSON lines
    bool named;      // among the inputs, not found in a folder
  };
  const std::vector<File>& files() const { return files_; }
  // What was wrong with the texts so far.
  const TextReport& report() const { return report_; }
  // Bytes of the files read so far, and of all; 0 if that is not known.
  uint64_t done() const;
  uint64_t total() const { return total_; }

 private:
  bool open_next();                        // false at the end of all
  void read_more();                        // into the buffer
  bool next_line(std::string_view& line);  // without its end; false at the file's
  std::string place(uint64_t line) const;  // "news.txt:7"
  std::string text_in_json(std::string_view line) const;
  void add_json(std::string_view line, std::string& document);
  void drop_line(const Error& error);
  void throw_if_no_line_was_good() const;
  void skip_binary(const File& file);
  // Reports a line with bytes that are no text. Gives the line, without zero bytes.
  std::string_view checked(std::string_view line, uint64_t number);
  void warn(const std::string& what, const std::string& hint) const;

  TextOptions options_;
  TextReport report_;
  uint64_t invalid_line_ = 0;  // of the open file, the last that was counted
  uint64_t good_json_ = 0;     // lines
  std::optional<Error> first_dropped_;
  std::string without_zeros_;
  std::vector<File> files_;
  size_t file_ = 0;     // the next to open
  bool json_ = false;   // whether the open one is JSON lines
  bool ended_ = false;  // it is read to its end
  bool warned_of_json_ = false;
  std::unique_ptr<io::InputFile> open_;
  uint64_t before_ = 0, total_ = 0;
  uint64_t line_ = 0;   // of the open file, from 1
  std::string buffer_;  // what was read; lines are taken from begin_ to end_
  size_t begin_ = 0, end_ = 0;
  std::string spill_;  // a JSON document that was too long: from spilled_ on it is still to come
  size_t spilled_ = 0;
};

}  // namespace bertie
