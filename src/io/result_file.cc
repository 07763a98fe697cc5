#include "bertie/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "bertie/error.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/growing_file.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

// What is written is what a link points to. A folder or a device is an Error.
fs::path written_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::exists(path, error) ? fs::canonical(path, error) : path;
  if (!error && fs::exists(real, error) && !fs::is_regular_file(real, error))
    throw Error(fmt::format("cannot write {}: it is {}", path.string(),
                            fs::is_directory(real, error) ? "a folder" : "not a regular file"),
                "give the name of a file");
  return real;
}

fs::path part_of(const fs::path& path, size_t rank, size_t ranks) {
  return path.string() + (ranks == 1 ? ".part" : fmt::format(".part-{}-of-{}", rank + 1, ranks));
}

fs::path journal_of(const fs::path& part) { return part.string() + ".journal"; }

// In this order: a part without a journal is never one of ours.
void remove_part(const fs::path& part) {
  std::error_code error;
  fs::remove(part, error);
  fs::remove(journal_of(part), error);
}

// Error where another process writes to it.
void check_not_taken(const fs::path& journal) {
  const int file = open(journal.c_str(), O_RDWR | O_CLOEXEC);
  const bool taken = file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (file >= 0) close(file);
  if (taken)
    throw Error(fmt::format("another process has {}", journal.string()),
                "wait for its end, or write elsewhere");
}

// Error where the work was begun by another number of processes.
void check_number_of_parts(const fs::path& path, size_t ranks) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string start = path.filename().string() + ".part", mine = fmt::format("-of-{}.journal", ranks);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".journal")) continue;
    const bool of_one = name == start + ".journal";
    if (of_one ? ranks != 1 : !name.ends_with(mine))
      throw Error(fmt::format("{} is of work that was begun by another number of processes", name),
                  fmt::format("the same number as then; or remove {}* and begin anew", start), "resume");
  }
}

// Held as long as the object lives: whoever is second finds the work done.
class Turn {
 public:
  explicit Turn(const fs::path& path)
      : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (file_ >= 0) (void)flock(file_, LOCK_EX);
  }
  ~Turn() {
    if (file_ < 0) return;
    unlink(path_.c_str());
    close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  fs::path path_;
  int file_;
};

}  // namespace

struct ResultFile::State {
  State(const fs::path& name, const ResultFileOptions& o) : path(written_path(name)), options(o) {
    part = part_of(path, o.rank, o.ranks);
    if (!o.force && fs::exists(path))
      throw Error(fmt::format("{} is there already", name.string()), "`force` replaces it; or another name");
    check_number_of_parts(path, o.ranks);
    const bool begun = fs::exists(journal_of(part));
    if (!o.force && (begun ? !o.resume : fs::exists(part)))
      throw Error(
          fmt::format("{} is {}", part.string(), begun ? "of work that was cut off" : "there already"),
          begun ? "`resume` goes on with it; `force` begins anew" : "another name", "resume");
    if (begun) check_not_taken(journal_of(part));
    if (!begun || !o.resume) remove_part(part);
    journal.emplace(journal_of(part), o.work);
    file.emplace(part);
    const std::string first = front(0);
    while (!journal->marks().empty() && journal->marks().back().bytes > file->size()) journal->drop_last();
    if (!journal->marks().empty()) done = journal->marks().back();
    if (done.inputs == 0) {
      file->cut(0);
      file->add(first.data(), first.size());
      file->flush();
    }
    bytes = std::max<uint64_t>(done.bytes, first.size());
    file->cut(bytes);
    marked = done.inputs > 0 || journal->ended();
  }
  // Parts have none: it goes before all of them.
  std::string front(uint64_t inputs) const {
    return options.front && options.ranks == 1 ? options.front(inputs) : std::string();
  }
  std::optional<Mark> join();

  fs::path path, part;
  ResultFileOptions options;
  std::optional<Journal> journal;
  std::optional<io::GrowingFile> file;
  uint64_t bytes = 0;
  Mark done;
  bool marked = false;  // there is something to go on with
};

ResultFile::ResultFile(const fs::path& path, const ResultFileOptions& options)
    : state_(std::make_unique<State>(path, options)) {}

ResultFile::~ResultFile() {
  if (!state_->file || state_->marked) return;
  state_->file.reset();
  remove_part(state_->part);
}

const Mark& ResultFile::done() const { return state_->done; }
bool ResultFile::ended() const { return state_->journal->ended(); }
const fs::path& ResultFile::part() const { return state_->part; }

void ResultFile::add(std::string_view bytes) {
  state_->file->add(bytes.data(), bytes.size());
  state_->bytes += bytes.size();
}

void ResultFile::mark(const Mark& mark) {
  State& s = *state_;
  s.file->flush();
  Mark with_bytes = mark;
  with_bytes.bytes = s.bytes;
  s.journal->add(with_bytes);
  s.marked = true;
}

std::optional<Mark> ResultFile::finish(const Mark& all) {
  State& s = *state_;
  if (s.options.ranks == 1) {
    s.file->put_at_front(s.front(all.inputs));
    s.file->close_on_disk();
    s.file.reset();
    fs::rename(s.part, s.path);
    io::sync_folder(s.path.has_parent_path() ? s.path.parent_path() : fs::path("."));
    fs::remove(journal_of(s.part));
    return all;
  }
  if (!ended()) {
    mark(all);
    s.journal->end();
  }
  s.file->close_on_disk();
  s.file.reset();
  s.journal.reset();  // on a network disk, what was written is there for others when it is closed
  return s.join();
}

// All parts in the order of their inputs. Nothing where one is still at work, or another process did it.
std::optional<Mark> ResultFile::State::join() {
  const Turn turn(path.string() + ".part.join");
  std::vector<Journal::Content> journals;
  for (size_t r = 0; r < options.ranks; ++r) {
    const fs::path name = journal_of(part_of(path, r, options.ranks));
    if (!fs::exists(name)) return {};
    journals.push_back(Journal::read(name));
    if (!journals.back().ended || journals.back().marks.empty()) return {};
  }
  struct Piece {
    uint64_t inputs, begin, end;
    size_t rank;
  };
  std::vector<Piece> pieces;
  Mark all = journals[0].marks.back();
  all.bytes = all.failed = all.cut = 0;
  for (size_t r = 0; r < options.ranks; ++r) {
    const Mark& last = journals[r].marks.back();
    if (last.inputs != all.inputs || last.sum != all.sum || journals[r].work != journals[0].work)
      throw Error(fmt::format("parts 1 and {} of {} are of different inputs, models or options", r + 1,
                              path.string()),
                  "`force` to begin anew, with the same for all", "resume");
    all.failed += last.failed, all.cut += last.cut;
    uint64_t begin = 0;
    for (const Mark& mark : journals[r].marks) {
      if (mark.bytes > begin) pieces.push_back({mark.inputs, begin, mark.bytes, r});
      begin = mark.bytes;
    }
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.inputs < b.inputs; });
  std::vector<io::MappedFile> parts;
  for (size_t r = 0; r < options.ranks; ++r) parts.emplace_back(part_of(path, r, options.ranks));
  io::AtomicFile whole(path);
  if (options.front) whole.write(options.front(all.inputs));
  for (const Piece& piece : pieces) {
    const std::string_view text = parts[piece.rank].text();
    if (piece.end > text.size())
      throw Error(fmt::format("{} is shorter than its journal says",
                              part_of(path, piece.rank, options.ranks).string()),
                  "`force` to begin anew");
    whole.write(text.substr(piece.begin, piece.end - piece.begin));
    all.bytes += piece.end - piece.begin;
  }
  whole.commit();
  for (size_t r = 0; r < options.ranks; ++r) remove_part(part_of(path, r, options.ranks));
  return all;
}

}  // namespace bertie
