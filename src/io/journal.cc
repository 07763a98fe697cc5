#include "bertie/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>

#include "bertie/error.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kEnd = "end\n";

std::string line_of(const Mark& m) {
  return fmt::format("{} {:016x} {} {} {}\n", m.inputs, m.sum, m.bytes, m.failed, m.cut);
}

// False where that is no mark.
bool read_mark(std::string_view line, Mark& mark) {
  const auto number = [&](uint64_t& value, int base = 10) {
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, base);
    line.remove_prefix(size_t(end - line.data()));
    const bool good = error == std::errc() && (line.empty() || line[0] == ' ');
    if (!line.empty()) line.remove_prefix(1);
    return good;
  };
  return number(mark.inputs) && number(mark.sum, 16) && number(mark.bytes) && number(mark.failed) &&
         number(mark.cut) && line.empty();
}

// Names of what is different in two objects.
std::string differences(const std::string& a, const std::string& b, const std::string& name) {
  const nlohmann::json before = io::parse_json(a, name), now = io::parse_json(b, "this work");
  std::set<std::string> names;
  for (const auto* object : {&before, &now})
    for (const auto& [key, value] : object->items())
      if (!before.contains(key) || !now.contains(key) || before[key] != now[key]) names.insert(key);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Journal::Content Journal::read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);  // not mapped: whoever has it may shorten it
  if (!in) throw Error(fmt::format("cannot read {}", path.string()));
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::string_view rest = all;
  Content content;
  const auto take_line = [&](std::string_view& line) {
    const size_t end = rest.find('\n');
    if (end == rest.npos) return false;
    line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return true;
  };
  std::string_view line;
  if (!take_line(line)) return content;
  content.work = line;
  while (take_line(line)) {
    Mark mark;
    if (line == "end") {
      content.ended = true;
    } else if (read_mark(line, mark) && !content.ended) {
      content.marks.push_back(mark);
      content.ends.push_back(all.size() - rest.size());
    } else {
      throw Error(fmt::format("{} is damaged", path.string()),
                  "remove it and what is beside it, and begin anew");
    }
  }
  return content;
}

Journal::Journal(const fs::path& path, const std::string& work) : path_(path) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) io::cannot_write(path, errno);
  try {
    // A disk without locks is no reason not to work.
    if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw Error(fmt::format("another process has {}", path.string()),
                  "wait for its end, or write elsewhere");
    content_ = read(path);
    if (content_.work.empty()) {
      content_.work = work;
      if (ftruncate(file_, 0) != 0) io::cannot_write(path, errno);
      write(work + "\n");
    } else if (content_.work != work) {
      throw Error(fmt::format("what was begun in {} is other work: another {}", path.string(),
                              differences(content_.work, work, path.string())),
                  "the same model and options; or `force` to begin anew; or another name", "resume");
    }
    cut_to_content();  // without the rest of a line that was cut off
  } catch (...) {
    close(file_);
    throw;
  }
}

Journal::~Journal() { close(file_); }

void Journal::drop_last() {
  content_.marks.pop_back(), content_.ends.pop_back();
  content_.ended = false;
  cut_to_content();
}

void Journal::cut_to_content() {
  uint64_t size = content_.ends.empty() ? content_.work.size() + 1 : content_.ends.back();
  if (content_.ended) size += kEnd.size();
  if (ftruncate(file_, off_t(size)) != 0 || lseek(file_, 0, SEEK_END) < 0) io::cannot_write(path_, errno);
}

void Journal::add(const Mark& mark) { write(line_of(mark)); }

void Journal::end() {
  if (!content_.ended) write(std::string(kEnd));
  content_.ended = true;
}

void Journal::write(const std::string& line) {
  ssize_t count;
  do count = ::write(file_, line.data(), line.size());
  while (count < 0 && errno == EINTR);
  if (count < 0) io::cannot_write(path_, errno);
  if (size_t(count) != line.size()) io::cannot_write(path_, ENOSPC);
}

}  // namespace bertie
