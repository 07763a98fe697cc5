#pragma once
// Texts to learn from, document by document, from files, folders and standard input, packed or not.
//
// Plain text: a line is a paragraph, an empty line ends a document, and so does a file's end. JSON lines:
// each line's string under a field is a document, its lines are paragraphs. A document longer than
// kMaxDocument goes on as another one, and so does a line of that length: memory stays bounded whatever a
// file holds.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/input_file.h"

namespace bertie {

inline constexpr size_t kMaxDocument = size_t{4} << 20;

struct CorpusOptions {
  std::vector<std::string> inputs;  // files, folders (all files in them, in the order of their names), or "-"
  std::string field = {};           // not empty: the files are JSON lines, and this key has the text
};

class Corpus {
 public:
  // Throws Error for an input that is not there, or a folder without files.
  explicit Corpus(const CorpusOptions& options);

  // The next document's paragraphs, one a line, none empty; false at the end. Throws Error.
  bool next(std::string& document);

  struct File {
    std::string path;
    uint64_t bytes;  // 0 for what is no regular file
  };
  const std::vector<File>& files() const { return files_; }
  // Bytes of the files taken so far, and of all; 0 if nobody knows.
  uint64_t done() const;
  uint64_t total() const { return total_; }

 private:
  bool next_line(std::string_view& line);  // without its end; false at the file's
  void add_json(std::string_view line, std::string& document) const;

  CorpusOptions options_;
  std::vector<File> files_;
  size_t file_ = 0;  // the next to open
  std::unique_ptr<io::InputFile> open_;
  uint64_t before_ = 0, total_ = 0;
  uint64_t line_ = 0;   // of the open file, from 1
  std::string buffer_;  // what was read; lines are taken from begin_ to end_
  size_t begin_ = 0, end_ = 0;
  std::string spill_;  // of a JSON document that was too long: what is still to come
};

}  // namespace bertie
