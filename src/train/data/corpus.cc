#include "train/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "bertie/error.h"
#include "io/json.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

// Where to cut a paragraph that is too long: after a sentence, or a space, in its second half; else between
// code points.
size_t cut_place(std::string_view text) {
  for (const std::string_view end : {". ", " "}) {
    const size_t place = text.rfind(end, kMaxParagraph - end.size());
    if (place != text.npos && place > kMaxParagraph / 2) return place + end.size();
  }
  size_t place = kMaxParagraph;
  while (place > kMaxParagraph - 4 && text::is_continuation(text[place])) --place;
  return place;
}

void add_paragraph(std::string_view paragraph, std::string& document) {
  if (paragraph.empty()) return;
  if (!document.empty()) document += '\n';
  document += paragraph;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::end(entry); ++entry) {
      if (entry->path().filename().string().starts_with('.'))
        entry.disable_recursion_pending();
      else if (entry->is_regular_file())
        files.push_back(entry->path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(fmt::format("cannot read {}: {}", folder, error.code().message()));
  }
  std::sort(files.begin(), files.end());
  if (files.empty())
    throw Error(fmt::format("{} has no files in it", folder), "a folder with texts", "inputs");
  return files;
}

// Reads the string under one key of an object and ignores everything else in it.
struct FieldReader : io::JsonHandler {
  std::string field;
  std::string* text;
  int depth = 0;
  bool wanted = false, found = false;

  void key(std::string& k) { wanted = depth == 1 && k == field; }
  void string(std::string& value) {
    if (depth == 0) object_expected();
    if (std::exchange(wanted, false)) *text = std::move(value), found = true;
  }
  void null() { other(); }
  void boolean(bool) { other(); }
  void integer(int64_t) { other(); }
  void whole(uint64_t) { other(); }
  void real(double) { other(); }
  void begin_object() { enter(); }
  void begin_array() {
    if (depth == 0) object_expected();
    enter();
  }
  void end_object() { --depth; }
  void end_array() { --depth; }

 private:
  void enter() {
    if (wanted) other();
    ++depth;
  }
  void other() {
    if (depth == 0) object_expected();
    if (wanted) throw Error(fmt::format("{}: {} is not a string", name, io::quote(field)));
  }
  [[noreturn]] void object_expected() {
    throw Error(fmt::format("{}: not a JSON object", name), "each line looks like {\"text\": \"…\"}");
  }
};

}  // namespace

bool is_json_lines(std::string_view path) {
  for (const std::string_view packed : {".gz", ".xz", ".zst"})
    if (path.ends_with(packed)) {
      path.remove_suffix(packed.size());
      break;
    }
  return path.ends_with(".jsonl") || path.ends_with(".json") || path.ends_with(".ndjson");
}

Corpus::Corpus(const TextOptions& options) : options_(options) {
  const bool field_given = !options_.field.empty();
  if (!field_given) options_.field = "text";
  bool known = true, any_json = false;
  for (const std::string& input : options_.inputs) {
    std::error_code error;
    std::vector<std::string> paths{input};
    const bool named = input == "-" || !fs::is_directory(input, error);
    if (!named) paths = files_in(input);
    for (std::string& path : paths) {
      uint64_t bytes = 0;
      bool json = is_json_lines(path);
      if (path == "-" || !fs::is_regular_file(path, error)) {
        if (path != "-" && !fs::exists(path, error))
          throw Error(fmt::format("cannot read {}: there is no such file", path),
                      "check the path, from the folder you are in");
        known = false;
        json = field_given;  // a pipe has no name
      } else {
        bytes = fs::file_size(path, error);
        if (error) throw Error(fmt::format("cannot read {}: {}", path, error.message()));
      }
      total_ += bytes;
      any_json = any_json || json;
      files_.push_back({std::move(path), bytes, json, named});
    }
  }
  if (!known) total_ = 0;
  if (field_given && !any_json && !files_.empty())
    throw Error(fmt::format("`field` is for JSON lines, and {} is not named as such", files_[0].path),
                "rename it to .jsonl (or .json or .ndjson, packed or not), or pipe it to standard input",
                "field");
}

uint64_t Corpus::done() const { return before_ + (open_ ? open_->taken() : 0); }

void Corpus::warn(const std::string& what, const std::string& hint) const {
  if (options_.warning) options_.warning(what, hint);
}

std::string Corpus::place(uint64_t line) const { return fmt::format("{}:{}", open_->name(), line); }

void Corpus::skip_binary(const File& file) {
  const std::string why = "its bytes are no text";
  const std::string hint = "texts only; iconv -f UTF-16 -t UTF-8 converts a text in UTF-16";
  if (options_.strict) throw Error(fmt::format("{}: {}", open_->name(), why), hint, "inputs");
  warn(fmt::format("{} is skipped: {}", open_->name(), why), hint);
  report_.skipped.push_back({file.path, file.named});
}

std::string_view Corpus::checked(std::string_view line, uint64_t number) {
  const bool zeros = line.find('\0') != line.npos;
  if (number != invalid_line_ && (zeros || !text::valid_utf8(line))) {
    invalid_line_ = number;
    const std::string what = fmt::format("{}: {}", place(number), zeros ? "a zero byte" : "not valid UTF-8");
    const std::string hint = zeros ? "" : "iconv -f LATIN1 -t UTF-8 converts a text in Latin-1";
    if (options_.strict) throw Error(what, hint, "inputs");
    if (report_.invalid_lines++ == 0) {
      report_.first_invalid = place(number);
      warn(fmt::format("{}; bad bytes are read as U+FFFD, here and in later lines", what), hint);
    }
  }
  if (!zeros) return line;
  without_zeros_.clear();
  for (const char c : line) c == 0 ? without_zeros_ += "\xEF\xBF\xBD" : without_zeros_ += c;
  return without_zeros_;
}

void Corpus::drop_line(const Error& error) {
  constexpr uint64_t kNamed = 10, kMost = 1000;
  if (options_.strict) throw error;
  if (!first_dropped_) first_dropped_ = error, report_.first_dropped = place(line_);
  if (++report_.dropped_lines == kMost) throw_if_no_line_was_good();
  if (report_.dropped_lines > kNamed) return;
  warn(fmt::format("{}; the line is left out{}", error.what(),
                   report_.dropped_lines == kNamed ? ", and later ones are not named" : ""),
       error.hint());
}

void Corpus::throw_if_no_line_was_good() const {
  if (first_dropped_ && good_json_ == 0) throw *first_dropped_;
}

namespace {

// A zero byte here and there may be in a text. Other files have many, or other bytes that no text has; UTF-16
// has a byte order mark, or zeros in every other place.
bool is_binary(std::string_view start) {
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) return true;
  const auto zeros = size_t(std::count(start.begin(), start.end(), '\0'));
  const auto controls = size_t(std::count_if(start.begin(), start.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && !is_space(c);
  }));
  return zeros > 0 && (zeros > start.size() / 4 || controls > 4 + start.size() / 32);
}

}  // namespace

// Opens the next file that is text, or JSON lines by its name.
bool Corpus::open_next() {
  for (; file_ < files_.size(); before_ += files_[file_ - 1].bytes) {  // of those that are skipped
    const File& file = files_[file_++];
    open_ = std::make_unique<io::InputFile>(file.path);
    json_ = file.json;
    begin_ = end_ = line_ = invalid_line_ = 0;
    ended_ = false;
    while (end_ < kReadBytes && !ended_) read_more();  // a pipe gives little at a time
    const std::string_view start(buffer_.data(), end_);
    if (json_) return true;
    if (is_binary(start)) {
      skip_binary(file);
      continue;
    }
    if (trimmed(start).starts_with("{\"") && !std::exchange(warned_of_json_, true))
      warn(fmt::format("{} looks like JSON lines, but is read as plain text", open_->name()),
           "rename it to .jsonl; for standard input, `field` text");
    return true;
  }
  open_.reset();
  throw_if_no_line_was_good();
  return false;
}

void Corpus::read_more() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(2 * end_ + kReadBytes);
  const size_t count = open_->read({buffer_.data() + end_, kReadBytes});
  end_ += count;
  ended_ = count == 0;
}

// A line is a view into the buffer, valid until the next call.
bool Corpus::next_line(std::string_view& line) {
  for (size_t searched = 0;;) {  // of what is in the buffer
    const char* const start = buffer_.data() + begin_;
    const size_t size = end_ - begin_;
    const void* const found =
        size > searched ? std::memchr(start + searched, '\n', size - searched) : nullptr;
    const size_t length = found ? size_t(static_cast<const char*>(found) - start) : size;
    if (!json_ && length > kMaxParagraph) {
      line = {start, cut_place({start, length})};
      begin_ += line.size();
      return true;
    }
    if (found || ended_) {
      line = {start, length};
      begin_ += length + (found ? 1 : 0);
      ++line_;
      return found || length > 0;
    }
    if (size > io::JsonLimits{}.bytes)
      throw Error(
          fmt::format("{}: the line is longer than {} MB", place(line_ + 1), io::JsonLimits{}.bytes >> 20),
          "JSON lines have one object a line");
    searched = size;
    read_more();
  }
}

std::string Corpus::text_in_json(std::string_view line) const {
  FieldReader reader;
  reader.name = place(line_);
  reader.field = options_.field;
  std::string text;
  reader.text = &text;
  try {
    io::read_json(line, reader.name, reader);
  } catch (const Error& error) {
    if (!error.hint().empty()) throw;
    throw Error(error.what(),
                "each line of JSON lines looks like {\"text\": \"…\"}; a plain text is named "
                ".txt, or whatever is not .json");
  }
  if (!reader.found)
    throw Error(fmt::format("{}: there is no key {}", reader.name, io::quote(options_.field)),
                "`field` is the key that has the text", "field");
  return text;
}

void Corpus::add_json(std::string_view line, std::string& document) {
  std::string text;
  try {
    text = text_in_json(line);
  } catch (const Error& error) {
    return drop_line(error);
  }
  ++good_json_;
  for (std::string_view rest = checked(text, line_); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const size_t count = end > kMaxParagraph ? cut_place(rest.substr(0, end)) : end;
    add_paragraph(trimmed(rest.substr(0, count)), document);
    rest.remove_prefix(std::min(count == end ? end + 1 : count, rest.size()));
  }
}

bool Corpus::next(std::string& document) {
  document.clear();
  std::string_view line;
  while (spill_.empty() && document.size() < kMaxDocument) {
    if (!open_ && !open_next()) break;
    const uint64_t number = line_ + 1;
    if (!next_line(line)) {
      before_ += open_->taken();
      open_.reset();
      if (!document.empty()) break;
      continue;
    }
    line = trimmed(line);
    if (!json_) {
      if (line.empty() && !document.empty()) break;
      add_paragraph(checked(line, number), document);
      continue;
    }
    if (!line.empty()) add_json(line, document);
    if (document.size() > kMaxDocument + kMaxParagraph) spill_.swap(document);
    if (!document.empty()) break;
  }
  if (!spill_.empty()) {  // whole paragraphs of it
    const std::string_view rest = std::string_view(spill_).substr(spilled_);
    const size_t end =
        rest.size() > kMaxDocument ? std::min(rest.find('\n', kMaxDocument), rest.size()) : rest.size();
    document.assign(rest.substr(0, end));
    spilled_ += end + 1;
    if (spilled_ >= spill_.size()) spill_ = {}, spilled_ = 0;
  }
  return !document.empty();
}

}  // namespace bertie
