#include "cli/inputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "bertie/json.h"
#include "bertie/utf8.h"
#include "cli/checksum.h"
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

// What there is to read, at most kReadBytes, added to `buffer`; 0 at the end, and where waiting is given up.
size_t read_some(int descriptor, const std::string& file, std::string& buffer,
                 const std::atomic<bool>& given_up) {
  const size_t had = buffer.size();
  while (!has_bytes(descriptor, 200)) {
    throw_if_stopped();
    if (given_up) return 0;
  }
  buffer.resize(had + kReadBytes);
  ssize_t count;
  do count = read(descriptor, buffer.data() + had, kReadBytes);
  while (count < 0 && errno == EINTR);
  buffer.resize(had + size_t(std::max<ssize_t>(count, 0)));
  if (count < 0) cannot_read(file, errno);
  return size_t(count);
}

}  // namespace

LineReader::LineReader(const Settings& settings, std::optional<TaskKind> tables)
    : words_(settings.words),
      files_(settings.files),
      tables_(tables),
      column_(settings.column.value_or("")),
      column_pair_(settings.column_pair.value_or("")),
      verbose_(settings.verbose),
      quiet_(settings.quiet) {
  if (!words_.empty() && files_.empty() && !(column_ + column_pair_).empty())
    throw UsageError("a column is one of a table, and there is no --file", "--file FILE");
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
  if (tables_ && words_.empty()) open_next();  // a wrong column should not wait for the model
}

LineReader::~LineReader() {
  open_.push_back(file_);
  for (int descriptor : open_)
    if (descriptor >= 0) close(descriptor);
}

void LineReader::close_file() {
  if (file_ >= 0) close(std::exchange(file_, -1));
  done_ = done();
  packed_.reset();
  rows_.reset();
}

size_t LineReader::done() const {
  return done_ + size_t(rows_ ? rows_->taken() : packed_ ? packed_->taken() : 0);
}

// What is no regular file is not asked: whoever feeds us line by line may not have written its first bytes.
bool LineReader::is_packed_file(const std::string& file) const {
  if (open_[next_file_] >= 0) return false;
  const int descriptor = open_file(file);
  char start[6];
  const ssize_t count = read(descriptor, start, sizeof start);
  close(descriptor);
  return count > 0 && begins_packed({start, size_t(count)});
}

bool LineReader::open_next() {
  close_file();
  if (next_file_ == files_.size()) return false;
  const std::string& file = files_[next_file_];
  if (tables_ && (!(column_ + column_pair_).empty() || is_table(*tables_, file))) {
    rows_.emplace(*tables_, file, column_, column_pair_);
    if (open_[next_file_] >= 0) close(std::exchange(open_[next_file_], -1));  // a pipe, open until here
    // A header that was taken for a text, or the other way round, is to be seen.
    if (verbose_ || (!quiet_ && !rows_->has_header()))
      say("{}: {}\n", name_of(file), printable(rows_->found()));
  } else if (is_packed_file(file)) {
    packed_.emplace(file);
  } else {
    file_ = std::exchange(open_[next_file_], -1);
    if (file_ < 0) file_ = open_file(file);
  }
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
  if (ended_) return false;
  if (packed_) {
    const size_t had = buffer_.size();
    buffer_.resize(had + kReadBytes);
    const size_t count = packed_->read(std::span(buffer_).subspan(had));
    buffer_.resize(had + count);
    ended_ = count == 0;
  } else {
    ended_ = read_some(file_, name, buffer_, given_up_) == 0;
  }
  return !ended_;
}

bool LineReader::next(std::string& text) {
  row_.reset();
  if (next_word_ < words_.size()) {
    text = words_[next_word_++];
    line_ = next_word_;
    done_ += text.size() + 1;
    return true;
  }
  while (true) {
    if (!is_open() && !open_next()) return false;
    if (rows_) {
      if (!rows_->next(row_.emplace())) {
        row_.reset();
        close_file();
        continue;
      }
      line_ = row_->line;
      return true;
    }
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
    if (!packed_) done_ += length;
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
  while (is_open() || open_next()) {
    if (rows_ || find_line_end() != buffer_.npos) return true;
    if (!ended_ && !packed_ && !has_bytes(file_, 0)) return false;
    if (fill()) continue;
    if (!buffer_.empty()) return true;  // a last line without its end
    open_next();
  }
  return true;
}

std::string LineReader::place(size_t file, size_t line) const {
  if (file == 0) return fmt::format("text {}", line);
  const std::string name = name_of(files_[file - 1]);
  return line == 0 ? name : fmt::format("{}:{}", name, line);  // a format without lines
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

Inputs::Inputs(const Settings& settings, std::optional<TaskKind> tables)
    : lines_(settings, tables),
      strict_(settings.strict),
      quiet_(settings.quiet),
      only_one_(is_one_word(settings)) {}
Inputs::Inputs(const Settings& settings, Fields fields, std::optional<TaskKind> tables)
    : fields_(fields),
      first_(from_words(settings, fields)),
      lines_(without_words(settings), tables),
      strict_(settings.strict),
      quiet_(settings.quiet),
      only_one_(first_.has_value()) {}
Inputs::Inputs(const Settings& settings, std::string context) : Inputs(settings, TaskKind::kClassify) {
  context_ = valid_text(settings, std::move(context), "the context");
  sum_ = sum_of(*context_);
}

bool Inputs::read(Input& input, bool may_wait) {
  std::string line;
  if (!may_wait && !lines_.ready()) return false;
  if (!lines_.next(line)) return false;
  input = {.index = count_++, .file = lines_.file(), .line = lines_.line()};
  try {
    if (first_) {
      input.a = std::move(first_->a), input.b = std::move(first_->b);
    } else if (TextRow* const row = lines_.row()) {
      if (row->problem) throw Error(*row->problem);
      input.a = std::move(row->a);
      input.b = context_ ? *context_ : std::move(row->b);
    } else if (fields_) {
      split(line, input);
    } else {
      input.a = std::move(line);
      input.b = context_.value_or("");
    }
    make_valid(input);
  } catch (const Error& error) {
    input.problem = error;
  }
  sum_ = sum_of(input.problem ? std::string_view(input.problem->what()) : input.a, sum_);
  if (!context_) sum_ = sum_of(input.b, sum_);
  input.sum = sum_;
  return true;
}

bool Inputs::next(Input& input) {
  while (read(input)) {
    if (!input.problem) return true;
    fail(input, *input.problem);
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
  const std::atomic<bool> given_up = false;
  while (read_some(descriptor, file, all, given_up) > 0) {
  }
  close(descriptor);
  if (all.starts_with(kByteOrderMark)) all.erase(0, kByteOrderMark.size());
  return all;
}

}  // namespace bertie::cli
