#include "cli/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "bertie/hub.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace bertie::cli {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kMaxLine = size_t{256} << 20;  // a file without line ends is not a list of texts

std::string name_of(const std::string& file) { return file == "-" ? "standard input" : printable(file); }

[[noreturn]] void cannot_read(const std::string& file, int error) {
  throw Error(fmt::format("cannot read {}: {}", name_of(file), std::generic_category().message(error)),
              error == ENOENT ? "check the path, from the folder you are in" : "");
}

int open_file(const std::string& file) {
  const int descriptor = file == "-" ? dup(STDIN_FILENO) : open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) cannot_read(file, errno);
  return descriptor;
}

}  // namespace

bool has_model(const Settings& settings) {
  const char* variable = std::getenv("BERTIE_MODEL");
  return settings.model || (variable && *variable);
}

std::string tokenizer_directory(const Settings& settings) {
  if (!has_model(settings))
    throw UsageError(
        "no model was given",
        "--model NAME (after bertie pull NAME) or --model DIR; once for all: export BERTIE_MODEL=NAME");
  const std::string name = settings.model ? *settings.model : std::getenv("BERTIE_MODEL");
  try {
    return find_model(name).string();
  } catch (const Error& error) {
    // The library's word for it is a function's name; here it is a command.
    std::string hint = error.hint();
    const std::string theirs = fmt::format("download {} first (bertie::pull)", name);
    if (const size_t at = hint.find(theirs); at != hint.npos)
      hint.replace(at, theirs.size(), fmt::format("bertie pull {}", name));
    throw Error(fmt::format("{}{}", error.what(), settings.model ? "" : " (from $BERTIE_MODEL)"), hint);
  }
}

std::string model_directory(const Settings& settings) {
  const std::string name = tokenizer_directory(settings);
  std::error_code error;
  for (const char* file : {"config.json", "modules.json"})
    if (std::filesystem::exists(std::filesystem::path(name) / file, error)) return name;
  if (settings.model && name != *settings.model)  // in the cache, but not all of it
    throw Error(fmt::format("the model {} is not complete: {} has no config.json", in_quotes(*settings.model),
                            in_quotes(name)),
                fmt::format("bertie pull {}", *settings.model));
  throw Error(fmt::format("{} is not a model: it has no config.json", in_quotes(name)),
              "a folder with config.json, model.safetensors and tokenizer.json or vocab.txt");
}

TextModel load_model(const Settings& settings) {
  return load(std::filesystem::path(model_directory(settings)),
              {.threads = int(settings.threads.value_or(0)),
               .max_length = settings.max_length.value_or(0),
               .warning = [&](std::string_view what) {
                 if (!settings.quiet) warn(printable(what), "nothing, if the results are as they should be");
               }});
}

Texts::Texts(const Settings& settings) : words_(settings.words), files_(settings.files) {
  if (words_.empty() && files_.empty()) {
    if (is_terminal(STDIN_FILENO))
      throw UsageError("there is no text to work on",
                       "a text in quotes, --file FILE, or a pipe; --file - for typing");
    files_.push_back("-");
  }
  bool known = true;
  for (const std::string& word : words_) total_ += word.size() + 1;
  for (const std::string& file : files_) {  // all of them now: a wrong name should not wait for its turn
    const int descriptor = open_file(file);
    open_.push_back(descriptor);
    struct stat status {};
    fstat(descriptor, &status);
    if (S_ISDIR(status.st_mode)) cannot_read(file, EISDIR);
    known = known && S_ISREG(status.st_mode);
    total_ += size_t(status.st_size);
  }
  if (!known) total_ = 0;
}

Texts::~Texts() {
  for (size_t i = next_file_ > 0 ? next_file_ - 1 : 0; i < open_.size(); ++i)
    if (open_[i] >= 0) close(open_[i]);
}

bool Texts::open_next() {
  if (file_ >= 0) close(std::exchange(open_[next_file_ - 1], -1));
  file_ = -1;
  if (next_file_ == files_.size()) return false;
  file_ = open_[next_file_++];
  return true;
}

// Reads on into the buffer; false at the file's end.
bool Texts::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  if (buffer_.size() > kMaxLine)
    throw Error(
        fmt::format("{}: a line is longer than {} MiB", name_of(files_[next_file_ - 1]), kMaxLine >> 20),
        "one text a line");
  const size_t had = buffer_.size();
  buffer_.resize(had + kReadBytes);
  ssize_t count;
  do count = read(file_, buffer_.data() + had, kReadBytes);
  while (count < 0 && errno == EINTR);
  buffer_.resize(had + size_t(std::max<ssize_t>(count, 0)));
  if (count < 0) cannot_read(files_[next_file_ - 1], errno);
  return count > 0;
}

bool Texts::next(std::string& text) {
  if (next_word_ < words_.size()) {
    text = words_[next_word_++];
    done_ += text.size() + 1;
    return true;
  }
  size_t searched = begin_;
  while (true) {
    if (file_ < 0 && !open_next()) return false;
    size_t end = buffer_.find('\n', searched);
    size_t length = end - begin_ + 1;
    if (end == buffer_.npos) {
      searched = buffer_.size() - begin_;
      if (fill()) continue;
      if (buffer_.empty()) {
        if (!open_next()) return false;
        searched = 0;
        continue;
      }
      end = length = buffer_.size();  // a last line without its end
    }
    text.assign(buffer_, begin_, end - begin_);
    if (!text.empty() && text.back() == '\r') text.pop_back();
    begin_ += length;
    done_ += length;
    return true;
  }
}

bool Texts::ready() const {
  if (next_word_ < words_.size() || file_ < 0) return true;
  if (buffer_.find('\n', begin_) != buffer_.npos) return true;
  pollfd wait{.fd = file_, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) != 0;
}

}  // namespace bertie::cli
