#include "cli/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "cli/model.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace fs = std::filesystem;
namespace {

class FileIdentity {
 public:
  explicit FileIdentity(const fs::path& path) { known_ = stat(path.c_str(), &status_) == 0; }
  bool known() const { return known_; }
  bool is(const struct stat& other) const {
    return known_ && status_.st_dev == other.st_dev && status_.st_ino == other.st_ino;
  }
  // Whether it is this file, or one of the files below this folder.
  bool is_in(const fs::path& path) const {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return false;
    if (is(status)) return true;
    std::error_code error;
    if (S_ISDIR(status.st_mode))
      for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
           entry.increment(error))
        if (stat(entry->path().c_str(), &status) == 0 && is(status)) return true;
    return false;
  }

 private:
  struct stat status_ {};
  bool known_ = false;
};

}  // namespace

void check_not_read(const Settings& settings, const fs::path& path,
                    const std::vector<std::string>& also_read) {
  if (path.empty() || path == "-")
    throw UsageError(fmt::format("{} is no name for a file", in_quotes(path.string())),
                     "a name such as vectors.npy; --json goes to standard output");
  const FileIdentity file(path);
  if (!file.known()) return;
  std::vector<std::string> read = settings.files;
  read.insert(read.end(), also_read.begin(), also_read.end());
  if (settings.context) read.push_back(*settings.context);
  if (settings.vocab) read.push_back(*settings.vocab);
  try {
    if (names_model(settings))
      if (const auto folder = tokenizer_files(settings).folder()) read.push_back(folder->string());
  } catch (const Error&) {  // there is none: then it is not read
  }
  for (const std::string& name : read)
    if (file.is_in(name))
      throw Error(fmt::format("cannot write {}: it is {}", path.string(),
                              fs::is_directory(name) ? fmt::format("in {}, which is read", name)
                                                     : "a file that is read"),
                  "another name for what is written");
  struct stat input {};
  if (fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode) && file.is(input))
    throw Error(fmt::format("cannot write {}: it is standard input", path.string()),
                "another name for what is written");
}

void check_output(const Settings& settings, const fs::path& path) {
  check_not_read(settings, path);
  if (!settings.force && fs::is_regular_file(path))
    throw Error(fmt::format("{} is there already", path.string()), "--force replaces it; or another name");
}

namespace {

const std::string& checked(const Settings& settings) {
  check_output(settings, *settings.npy);
  return *settings.npy;
}

}  // namespace

NpyOutput::NpyOutput(const Settings& settings, std::vector<size_t> row)
    : path_(checked(settings)), file_(path_, std::move(row)), stop_(file_.temporary()) {}

void NpyOutput::add(std::span<const float> rows) {
  writing_ = true;
  file_.add(rows);
  writing_ = false;
}

void NpyOutput::commit() {
  writing_ = true;
  file_.commit();
  writing_ = false;
}

void NpyOutput::keep_what_is_done() {
  if (writing_) return;
  if (file_.rows() == 0) return warn(fmt::format("stopped before there was anything for {}", path_));
  try {
    commit();
    warn(fmt::format("stopped: {} has the first {} rows", path_, file_.rows()));
  } catch (const Error& error) {
    warn(error.what());  // and why it stopped is said next
  }
}

}  // namespace bertie::cli
