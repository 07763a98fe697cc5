#pragma once
// Texts to learn from, document by document, from files, folders and standard input, packed or not.
//
// Plain text: a line is a paragraph, an empty line ends a document, and so does a file's end. JSON lines (a
// file whose name says so; standard input and pipes where a field is given): each line's string under a field
// is a document, its lines are paragraphs. A paragraph longer than kMaxParagraph and a document longer than
// kMaxDocument go on as another one: memory stays bounded whatever a file holds.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/input_file.h"

namespace bertie {

inline constexpr size_t kMaxParagraph = size_t{64} << 10;
inline constexpr size_t kMaxDocument = size_t{512} << 10;  // and the paragraph that reaches it

struct CorpusOptions {
  // Files, folders (all files in them but hidden ones, in the order of their names), or "-".
  std::vector<std::string> inputs;
  std::string field = {};  // the key of JSON lines that has the text; empty: "text"
  // What is odd and passed over: files that are no text, or that look like JSON lines and are not named so.
  std::function<void(const std::string& what, const std::string& hint)> warn = {};
};

// news.jsonl, news.json, news.ndjson; with .gz, .xz or .zst too.
bool is_json_lines(std::string_view path);

class Corpus {
 public:
  // Throws Error for an input that is not there, a folder without files, or a field where nothing is JSON
  // lines.
  explicit Corpus(const CorpusOptions& options);

  // The next document's paragraphs, one a line, none empty; false at the end. Throws Error.
  bool next(std::string& document);

  struct File {
    std::string path;
    uint64_t bytes;  // 0 for what is no regular file
    bool json;       // JSON lines
  };
  const std::vector<File>& files() const { return files_; }
  // Bytes of the files taken so far, and of all; 0 if nobody knows.
  uint64_t done() const;
  uint64_t total() const { return total_; }

 private:
  bool open_next();                        // false at the end of all
  void read_more();                        // into the buffer
  bool next_line(std::string_view& line);  // without its end; false at the file's
  void add_json(std::string_view line, std::string& document) const;

  CorpusOptions options_;
  std::vector<File> files_;
  size_t file_ = 0;     // the next to open
  bool json_ = false;   // the open one
  bool ended_ = false;  // it is read to its end
  bool warned_of_json_ = false;
  std::unique_ptr<io::InputFile> open_;
  uint64_t before_ = 0, total_ = 0;
  uint64_t line_ = 0;   // of the open file, from 1
  std::string buffer_;  // what was read; lines are taken from begin_ to end_
  size_t begin_ = 0, end_ = 0;
  std::string spill_;  // a JSON document that was too long: from spilt_ on it is still to come
  size_t spilt_ = 0;
};

}  // namespace bertie
