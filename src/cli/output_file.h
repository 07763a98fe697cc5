#pragma once
// Files that commands write: never over what they read, and over nothing else unless --force says so.
#include <filesystem>
#include <string>
#include <vector>

#include "bertie/npy.h"
#include "cli/options.h"
#include "cli/output.h"

namespace bertie::cli {

// Throws Error if `path` is a file that the command reads (--file, --context, --vocab, the model's files,
// standard input, or one of `also_read`), also under another name; and UsageError if it is no name.
void check_not_read(const Settings& settings, const std::filesystem::path& path,
                    const std::vector<std::string>& also_read = {});
// The same, and Error if there is such a file and --force was not given.
void check_output(const Settings& settings, const std::filesystem::path& path);

// The file of --npy. Rows that are written when a signal comes can be kept.
class NpyOutput {
 public:
  NpyOutput(const Settings& settings, std::vector<size_t> row);
  void add(std::span<const float> rows) { file_.add(rows); }
  size_t rows() const { return file_.rows(); }
  void commit() { file_.commit(); }
  // After a signal: keeps the rows there are, if any, and says so.
  void keep_what_is_done();

 private:
  std::string path_;
  NpyWriter file_;
  StopInOrder stop_;
};

}  // namespace bertie::cli
