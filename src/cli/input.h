#pragma once
// What commands work on: the model that was named, and texts from words, files or standard input.
#include <string>
#include <string_view>
#include <vector>

#include "bertie/text_model.h"
#include "cli/options.h"

namespace bertie::cli {

// The folder of --model or $BERTIE_MODEL, which may be a folder or a name in the cache; a UsageError that
// says how to give one where there is neither, an Error where it is not there.
std::string model_directory(const Settings& settings);      // with config.json in it
std::string tokenizer_directory(const Settings& settings);  // perhaps nothing but a tokenizer
bool has_model(const Settings& settings);
// The model, with --threads and --max-length.
TextModel load_model(const Settings& settings);

// The texts, one after the other, holding one line at a time: first the words, then the files' lines.
// A line ends with \n or \r\n; the last one may do without.
class Texts {
 public:
  // Throws UsageError where there is nothing to read but a terminal, Error where a file cannot be opened.
  explicit Texts(const Settings& settings);
  ~Texts();
  Texts(const Texts&) = delete;
  Texts& operator=(const Texts&) = delete;

  // False at the end. Throws Error where reading fails.
  bool next(std::string& text);
  // Whether next would give something (or the end) without waiting for whoever writes to our pipe.
  bool ready() const;
  // Bytes given out, and how many there are; 0 if nobody knows.
  size_t done() const { return done_; }
  size_t total() const { return total_; }

 private:
  bool fill();
  bool open_next();

  std::vector<std::string> words_, files_;
  size_t next_word_ = 0, next_file_ = 0;
  std::vector<int> open_;  // each file's descriptor, from the start: a pipe can be opened only once
  int file_ = -1;          // the one being read
  std::string buffer_;     // what was read; lines are taken from begin_ on
  size_t begin_ = 0;
  size_t done_ = 0, total_ = 0;
};

}  // namespace bertie::cli
