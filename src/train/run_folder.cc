#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/atomic_file.h"
#include "io/file.h"
#include "io/json.h"
#include "io/sha.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr int kFormat = 1;  // of state.json

// The step of a checkpoint's name; nothing for any other name.
std::optional<uint64_t> step_of(std::string_view name) {
  uint64_t step = 0;
  if (!name.starts_with(kPrefix) || !parse_number(name.substr(kPrefix.size()), step)) return {};
  if (RunFolder::name_of(step) != name) return {};
  return step;
}

// A name that make_beside gave to something that was to become a checkpoint, or was one.
bool is_leftover(std::string_view name) {
  const size_t point = name.find('.');
  if (point == name.npos || name.size() != point + 7) return false;
  const std::string_view stem = name.substr(0, point);
  return step_of(stem) || stem == "last" || stem == "best";
}

[[noreturn]] void cannot_write(const fs::path& what, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "make room, or write to another disk";
  if (error == EACCES || error == EPERM || error == EROFS)
    hint = fmt::format("another --out, or make {} writable for you", what.parent_path().string());
  throw Error(fmt::format("cannot write {}: {}", what.string(), std::generic_category().message(error)),
              hint);
}

// A folder that goes away unless it is kept.
struct NewFolder {
  fs::path path;
  explicit NewFolder(const fs::path& beside) {
    const io::Beside made = io::make_beside(beside, [](const char* name) { return mkdir(name, 0777); });
    if (made.made < 0) cannot_write(beside, errno);
    path = made.name;
  }
  NewFolder(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// A checkpoint's own sums agree with its files; throws Error where not.
nlohmann::json verified_state(const fs::path& folder) {
  const fs::path file = folder / "state.json";
  const std::string name = file.string();
  nlohmann::json state = io::parse_json(io::MappedFile(file).text(), name);
  if (!state.is_object()) throw Error(fmt::format("{} is not an object", name));
  if (const size_t format = io::get_size(state, "format", name); format != kFormat)
    throw Error(fmt::format("{} has format {}; this Bertie knows {}", name, format, kFormat));
  const auto files = state.find("files");
  if (files == state.end() || !files->is_object() || files->empty())
    throw Error(fmt::format("{} has no sums of files", name));
  for (const auto& [other, sum] : files->items()) {
    if (!sum.is_string() || fs::path(other).filename() != other)
      throw Error(fmt::format("{} is not as Bertie writes it", name));
    if (sha256_of(folder / other) != sum.get<std::string>())
      throw Error(fmt::format("{} is not what it was when it was written: its SHA-256 has changed",
                              (folder / other).string()));
  }
  for (const char* needed : {"config.json", "model.safetensors", "optimizer.safetensors"})
    if (!files->contains(needed)) throw Error(fmt::format("{} does not know {}", name, needed));
  return state;
}

}  // namespace

std::string sha256_of(const fs::path& file) {
  const io::MappedFile mapped(file);
  io::Sha256 sum;
  sum.add(mapped.bytes());
  return sum.hex();
}

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) cannot_write(path_, error.value());
  if (access(path_.c_str(), W_OK | X_OK) != 0) cannot_write(path_ / name_of(0), errno);
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

void RunFolder::lock() {
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Disks without locks are no reason not to train.
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(fmt::format("another process trains in {}", path_.string()), "wait for it, or another --out");
}

std::string RunFolder::name_of(uint64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

std::vector<uint64_t> RunFolder::steps() const {
  std::vector<uint64_t> all;
  for (const auto& entry : fs::directory_iterator(path_))
    if (const auto step = step_of(entry.path().filename().string()); step && entry.is_directory())
      all.push_back(*step);
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<RunFolder::Found> RunFolder::newest(
    const std::function<void(const std::string&)>& damaged) const {
  std::vector<uint64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const fs::path folder = path_ / name_of(*step);
    try {
      return Found{*step, folder, verified_state(folder)};
    } catch (const Error& error) {
      if (damaged) damaged(fmt::format("{} is damaged ({})", folder.string(), error.what()));
    }
  }
  return {};
}

fs::path RunFolder::save(uint64_t step, const std::function<void(const fs::path&)>& write,
                         nlohmann::ordered_json state, bool best) {
  const std::string name = name_of(step);
  const fs::path final = path_ / name;
  NewFolder folder(final);
  write(folder.path);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path)) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  state["format"] = kFormat;
  for (const std::string& file : files) state["files"][file] = sha256_of(folder.path / file);
  io::AtomicFile out(folder.path / "state.json");
  out.write(state.dump(1) + "\n");
  out.commit();
  io::sync_folder(folder.path);
  // A damaged one may have the name, or one that a run with other options left there.
  if (fs::exists(final)) {
    if (const int error = io::exchange_folders(folder.path, final); error != 0) cannot_write(final, error);
  } else {
    if (rename(folder.path.c_str(), final.c_str()) != 0) cannot_write(final, errno);
    folder.path.clear();
  }
  io::sync_folder(path_);
  point("last", name);
  if (best) point("best", name);
  return final;
}

std::optional<uint64_t> RunFolder::link_target(const char* name) const {
  std::error_code error;
  const fs::path to = fs::read_symlink(path_ / name, error);
  return error ? std::nullopt : step_of(to.string());
}

void RunFolder::point(const char* name, const std::string& to) const {
  const fs::path link = path_ / name;
  const io::Beside made =
      io::make_beside(link, [&](const char* other) { return symlink(to.c_str(), other); });
  if (made.made < 0) cannot_write(link, errno);
  if (rename(made.name.c_str(), link.c_str()) != 0) {
    const int error = errno;
    unlink(made.name.c_str());
    cannot_write(link, error);
  }
}

void RunFolder::prune(size_t keep) const {
  const std::vector<uint64_t> all = steps();
  const std::optional<uint64_t> best = link_target("best");
  for (size_t i = 0; i + std::max<size_t>(keep, 1) < all.size(); ++i) {
    if (best && all[i] == *best) continue;
    // Under another name first: one that is half gone must not look like a checkpoint.
    const fs::path folder = path_ / name_of(all[i]);
    const io::Beside gone = io::make_beside(folder, [&](const char* other) {
      if (access(other, F_OK) == 0) return errno = EEXIST, -1;
      return rename(folder.c_str(), other);
    });
    std::error_code ignored;
    if (gone.made == 0) fs::remove_all(gone.name, ignored);
  }
}

void RunFolder::remove_leftovers() const {
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(path_))
    if (is_leftover(entry.path().filename().string())) leftovers.push_back(entry.path());
  std::error_code ignored;
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, ignored);
}

}  // namespace bertie
