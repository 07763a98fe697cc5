#include "train/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "bertie/error.h"
#include "io/json.h"
#include "text/unicode.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

// Where to cut a text that is longer than `most`: after its last space before that, or between code points.
size_t cut_place(std::string_view text, size_t most) {
  const size_t space = text.find_last_of(" \t\n", most - 1);
  if (space != text.npos && space > most / 2) return space + 1;
  size_t place = most;
  while (place > most - 4 && text::is_continuation(text[place])) --place;
  return place;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  try {
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && !entry.path().filename().string().starts_with('.'))
        files.push_back(entry.path().string());
  } catch (const fs::filesystem_error& error) {
    throw Error(fmt::format("cannot read {}: {}", folder, error.code().message()));
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw Error(fmt::format("{} has no files in it", folder), "name a folder with texts");
  return files;
}

// The string under one key of an object; everything else in it is passed over, whatever it is.
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
    throw Error(fmt::format("{} is not a JSON object", name), "each line looks like {\"text\": \"…\"}");
  }
};

}  // namespace

Corpus::Corpus(const CorpusOptions& options) : options_(options) {
  bool known = true;
  for (const std::string& input : options_.inputs) {
    std::error_code error;
    std::vector<std::string> paths{input};
    if (input != "-" && fs::is_directory(input, error)) paths = files_in(input);
    for (std::string& path : paths) {
      uint64_t bytes = 0;
      if (path == "-" || !fs::is_regular_file(path, error)) {
        if (path != "-" && !fs::exists(path, error))
          throw Error(fmt::format("cannot read {}: there is no such file", path),
                      "check the path, from the folder you are in");
        known = false;
      } else {
        bytes = fs::file_size(path, error);
        if (error) throw Error(fmt::format("cannot read {}: {}", path, error.message()));
      }
      total_ += bytes;
      files_.push_back({std::move(path), bytes});
    }
  }
  if (!known) total_ = 0;
}

uint64_t Corpus::done() const { return before_ + (open_ ? open_->taken() : 0); }

// A line is a view into the buffer, valid until the next call.
bool Corpus::next_line(std::string_view& line) {
  for (size_t searched = begin_;;) {
    const char* start = buffer_.data();
    const void* found = end_ > searched ? std::memchr(start + searched, '\n', end_ - searched) : nullptr;
    if (found) {
      const size_t end = size_t(static_cast<const char*>(found) - start);
      line = {start + begin_, end - begin_};
      begin_ = end + 1;
      ++line_;
      return true;
    }
    if (options_.field.empty() && end_ - begin_ > kMaxDocument) {
      const size_t count = cut_place({start + begin_, end_ - begin_}, kMaxDocument);
      line = {start + begin_, count};
      begin_ += count;
      return true;
    }
    searched = end_ - begin_;
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() < end_ + kReadBytes) buffer_.resize(2 * end_ + kReadBytes);
    const size_t count = open_->read({buffer_.data() + end_, kReadBytes});
    end_ += count;
    if (count > 0) {
      if (line_ == 0 && begin_ == 0 && std::string_view(buffer_.data(), end_).starts_with(kByteOrderMark))
        begin_ = searched = kByteOrderMark.size();
      if (end_ - begin_ > io::JsonLimits{}.bytes)
        throw Error(fmt::format("{}: line {} is longer than {} MB", open_->name(), line_ + 1,
                                io::JsonLimits{}.bytes >> 20),
                    "JSON lines have one object a line");
      continue;
    }
    line = {buffer_.data() + begin_, end_ - begin_};
    begin_ = end_;
    return !line.empty();
  }
}

void Corpus::add_json(std::string_view line, std::string& document) const {
  FieldReader reader;
  reader.name = fmt::format("{}: line {}", open_->name(), line_);
  reader.field = options_.field;
  std::string text;
  reader.text = &text;
  io::read_json(line, reader.name, reader);
  if (!reader.found)
    throw Error(fmt::format("{}: there is no key {}", reader.name, io::quote(options_.field)),
                "--field NAME says which key has the text");
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view paragraph = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (paragraph.empty()) continue;
    if (!document.empty()) document += '\n';
    document += paragraph;
  }
}

bool Corpus::next(std::string& document) {
  document.clear();
  if (!spill_.empty()) {
    document.swap(spill_);
  } else {
    std::string_view line;
    while (document.size() < kMaxDocument) {
      if (!open_) {
        if (file_ == files_.size()) break;
        open_ = std::make_unique<io::InputFile>(files_[file_++].path);
        begin_ = end_ = 0;
        line_ = 0;
      }
      if (!next_line(line)) {
        before_ += open_->taken();
        open_.reset();
        if (!document.empty()) break;
        continue;
      }
      line = trimmed(line);
      if (!options_.field.empty()) {
        if (!line.empty()) add_json(line, document);
        if (!document.empty()) break;
        continue;
      }
      if (line.empty()) {
        if (!document.empty()) break;
        continue;
      }
      if (!document.empty()) document += '\n';
      document += line;
    }
  }
  if (document.size() > 2 * kMaxDocument) {  // of plain text, the last line may have been as long again
    const size_t place = cut_place(document, kMaxDocument);
    spill_.assign(trimmed(std::string_view(document).substr(place)));
    document.resize(trimmed(std::string_view(document).substr(0, place)).size());
  }
  return !document.empty();
}

}  // namespace bertie
