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

// The file of --npy. Rows that are written when the work ends early can be kept.
class NpyOutput {
 public:
  NpyOutput(const Settings& settings, std::vector<size_t> row);
  void add(std::span<const float> rows);
  size_t rows() const { return file_.rows(); }
  void commit();
  // After a signal or an error: keeps the rows there are, if any, and says so; but not where writing them is
  // what failed.
  void keep_what_is_done();

 private:
  std::string path_;
  NpyWriter file_;
  StopInOrder stop_;
  bool writing_ = false;  // and true after it, where it failed
};

}  // namespace bertie::cli
