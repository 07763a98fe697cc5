#include "cli/inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "bertie/json.h"
#include "bertie/utf8.h"
#include "cli/output.h"
#include "cli/terminal/terminal.h"

namespace bertie::cli {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kMaxLine = size_t{256} << 20;  // a file without line ends is not a list of texts
constexpr const char* kNotUtf8 = "iconv -f latin1 -t utf8, if it is Latin-1";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string name_of(const std::string& file) { return file == "-" ? "standard input" : verbatim(file); }

[[noreturn]] void cannot_read(const std::string& file, int error) {
  throw Error(fmt::format("cannot read {}: {}", name_of(file), std::generic_category().message(error)),
              error == ENOENT ? "check the path, from the folder you are in" : "");
}

int open_file(const std::string& file) {
  const int descriptor = file == "-" ? dup(STDIN_FILENO) : open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) cannot_read(file, errno);
  return descriptor;
}

bool has_bytes(int descriptor, int milliseconds) {
  pollfd wait{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll(&wait, 1, milliseconds) > 0;
}

// What there is to read, at most kReadBytes, added to `buffer`; 0 at the end.
size_t read_some(int descriptor, const std::string& file, std::string& buffer) {
  const size_t had = buffer.size();
  while (!has_bytes(descriptor, 200)) throw_if_stopped();
  buffer.resize(had + kReadBytes);
  ssize_t count;
  do count = read(descriptor, buffer.data() + had, kReadBytes);
  while (count < 0 && errno == EINTR);
  buffer.resize(had + size_t(std::max<ssize_t>(count, 0)));
  if (count < 0) cannot_read(file, errno);
  return size_t(count);
}

}  // namespace

LineReader::LineReader(const Settings& settings) : words_(settings.words), files_(settings.files) {
  if (words_.empty() && files_.empty()) {
    if (is_terminal(STDIN_FILENO))
      throw UsageError("there is no text to work on",
                       "a text in quotes, --file FILE, or a pipe; --file - for typing");
    files_.push_back("-");
  }
  bool known = true;
  for (const std::string& word : words_) total_ += word.size() + 1;
  for (const std::string& file : files_) {  // all of them now: a wrong name should not wait for its turn
    const int descriptor = open_.emplace_back(open_file(file));
    struct stat status {};
    fstat(descriptor, &status);
    if (S_ISDIR(status.st_mode)) cannot_read(file, EISDIR);
    total_ += size_t(status.st_size);
    if (!S_ISREG(status.st_mode))
      known = false;
    else if (file != "-")
      close(std::exchange(open_.back(), -1));
  }
  if (!known) total_ = 0;
}

LineReader::~LineReader() {
  open_.push_back(file_);
  for (int descriptor : open_)
    if (descriptor >= 0) close(descriptor);
}

bool LineReader::open_next() {
  if (file_ >= 0) close(std::exchange(file_, -1));
  if (next_file_ == files_.size()) return false;
  file_ = std::exchange(open_[next_file_], -1);
  if (file_ < 0) file_ = open_file(files_[next_file_]);
  ++next_file_;
  line_ = 0, ended_ = false;
  return true;
}

// Reads on into the buffer; false at the file's end.
bool LineReader::fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::string& name = files_[next_file_ - 1];
  if (buffer_.size() > kMaxLine)
    throw Error(fmt::format("{}: a line is longer than {} MiB", name_of(name), kMaxLine >> 20),
                "one text a line");
  if (!ended_) ended_ = read_some(file_, name, buffer_) == 0;
  return !ended_;
}

bool LineReader::next(std::string& text) {
  if (next_word_ < words_.size()) {
    text = words_[next_word_++];
    line_ = next_word_;
    done_ += text.size() + 1;
    return true;
  }
  while (true) {
    if (file_ < 0 && !open_next()) return false;
    size_t end = find_line_end();
    size_t length = end - begin_ + 1;
    if (end == buffer_.npos) {
      if (fill()) continue;
      if (buffer_.empty()) {
        if (!open_next()) return false;
        continue;
      }
      end = length = buffer_.size();  // a last line without its end
    }
    text.assign(buffer_, begin_, end - begin_);
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (line_++ == 0 && text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    begin_ += length;
    searched_ = 0;
    done_ += length;
    return true;
  }
}

size_t LineReader::find_line_end() {
  const size_t end = buffer_.find('\n', begin_ + searched_);
  searched_ = std::min(end, buffer_.size()) - begin_;
  return end;
}

bool LineReader::ready() {
  if (next_word_ < words_.size()) return true;
  while (file_ >= 0 || open_next()) {
    if (find_line_end() != buffer_.npos) return true;
    if (!ended_ && !has_bytes(file_, 0)) return false;
    if (fill()) continue;
    if (!buffer_.empty()) return true;  // a last line without its end
    open_next();
  }
  return true;
}

std::string LineReader::place(size_t file, size_t line) const {
  return file == 0 ? fmt::format("text {}", line) : fmt::format("{}:{}", name_of(files_[file - 1]), line);
}

namespace {

// Two words are one input, and leave nothing to be read.
std::optional<Input> from_words(const Settings& settings, Fields fields) {
  if (settings.words.empty()) return {};
  if (settings.words.size() != 2 || !settings.files.empty())
    throw UsageError("two texts are needed, or --file with lines of two",
                     fmt::format("\"{}\" \"{}\", each in quotes", fields.a, fields.b));
  return Input{settings.words[0], settings.words[1]};
}

// Words are the input already; otherwise the lines of files or of standard input.
Settings without_words(Settings settings) {
  if (!settings.words.empty()) settings.words = {""};
  return settings;
}

bool is_one_word(const Settings& settings) { return settings.words.size() == 1 && settings.files.empty(); }

}  // namespace

Inputs::Inputs(const Settings& settings)
    : lines_(settings), strict_(settings.strict), quiet_(settings.quiet), only_one_(is_one_word(settings)) {}
Inputs::Inputs(const Settings& settings, Fields fields)
    : fields_(fields),
      first_(from_words(settings, fields)),
      lines_(without_words(settings)),
      strict_(settings.strict),
      quiet_(settings.quiet),
      only_one_(first_.has_value()) {}
Inputs::Inputs(const Settings& settings, std::string context) : Inputs(settings) {
  context_ = valid_text(settings, std::move(context), "the context");
}

bool Inputs::next(Input& input, bool may_wait) {
  std::string line;
  while ((may_wait || lines_.ready()) && lines_.next(line)) {
    input = {.a = {}, .b = {}, .index = count_++, .file = lines_.file(), .line = lines_.line()};
    try {
      if (first_) {
        input.a = std::move(first_->a), input.b = std::move(first_->b);
      } else if (fields_) {
        split(line, input);
      } else {
        input.a = std::move(line);
        input.b = context_.value_or("");
      }
      make_valid(input);
      return true;
    } catch (const Error& error) {
      fail(input, error);
    }
  }
  return false;
}

void Inputs::split(std::string& line, Input& input) const {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin != line.npos && line[begin] == '{') {
    std::vector<std::string> both = strings_in_json(line, std::array{fields_->a, fields_->b}, "the object");
    input.a = std::move(both[0]), input.b = std::move(both[1]);
    return;
  }
  const size_t tab = line.find('\t');
  if (tab != line.npos && line.find('\t', tab + 1) != line.npos)
    throw Error(fmt::format("more than two columns: {}", in_quotes(line)),
                "cut -f shows two columns of a table: cut -f 1,2 FILE");
  if (tab == line.npos)
    throw Error(fmt::format("not two texts: {}", in_quotes(line)),
                fmt::format("two texts with a tab between them, or {{\"{}\": …, \"{}\": …}}", fields_->a,
                            fields_->b));
  input.b = line.substr(tab + 1);
  line.resize(tab);
  input.a = std::move(line);
}

void Inputs::make_valid(Input& input) {
  const bool a = is_valid_utf8(input.a), b = context_ || is_valid_utf8(input.b);
  if (a && b) return;
  if (strict_) throw Error("not valid UTF-8", kNotUtf8);
  if (invalid_++ == 0) first_invalid_ = lines_.place(input.file, input.line);
  if (!a) input.a = with_valid_utf8(input.a);
  if (!b) input.b = with_valid_utf8(input.b);
}

void Inputs::fail(const Input& input, const Error& error) {
  if (only_one_) throw Error(error.what(), error.hint(), error.field());
  const std::string what = fmt::format("{}: {}", lines_.place(input.file, input.line), error.what());
  if (strict_) throw Error(what, error.hint(), error.field());
  ++failed_;
  report_problem(what);
  if (failed_ == 1 && !quiet_ && !error.hint().empty()) report_problem("  try: " + error.hint());
}

int Inputs::report(std::string_view what, std::string_view failed) const {
  if (invalid_ > 0 && !quiet_)
    warn(fmt::format("{} of {} {} are not valid UTF-8, the first is {}: bad bytes were read as U+FFFD",
                     invalid_, count_, what, first_invalid_),
         kNotUtf8);
  if (failed_ == 0) return 0;
  warn(fmt::format("{} of {} {} could not be used{}", failed_, count_, what, failed),
       quiet_ ? "" : "mend them; or --strict, to stop at the first");
  return 1;
}

std::string valid_text(const Settings& settings, std::string text, std::string_view what) {
  if (is_valid_utf8(text)) return text;
  if (settings.strict) throw Error(fmt::format("{} is not valid UTF-8", what), kNotUtf8);
  if (!settings.quiet)
    warn(fmt::format("{} is not valid UTF-8: bad bytes were read as U+FFFD", what), kNotUtf8);
  return with_valid_utf8(text);
}

std::string read_whole(const std::string& file) {
  const int descriptor = open_file(file);
  std::string all;
  while (read_some(descriptor, file, all) > 0) {
  }
  close(descriptor);
  if (all.starts_with(kByteOrderMark)) all.erase(0, kByteOrderMark.size());
  return all;
}

}  // namespace bertie::cli
