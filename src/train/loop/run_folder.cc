#include "train/loop/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
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
#include "io/model_file_names.h"
#include "io/sha.h"

namespace bertie {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr size_t kFormat = 2;  // of state.json
constexpr const char* kSum = "sum";

// The step of a checkpoint's name; nothing for any other name.
std::optional<uint64_t> step_of(std::string_view name) {
  uint64_t step = 0;
  if (!name.starts_with(kPrefix) || !parse_number(name.substr(kPrefix.size()), step)) return {};
  if (RunFolder::name_of(step) != name) return {};
  return step;
}

// The name of something that is being made or removed, before make_beside's six letters. No user chooses such
// a name, so whatever has it may be removed.
fs::path temporary(const fs::path& final) {
  return final.parent_path() / fmt::format(".{}.tmp", final.filename().string());
}

bool is_leftover(std::string_view name) {
  constexpr std::string_view kMark = ".tmp.";
  constexpr size_t kLetters = 6;
  if (!name.starts_with('.') || name.size() <= 1 + kMark.size() + kLetters) return false;
  const std::string_view letters = name.substr(name.size() - kLetters);
  const std::string_view rest = name.substr(1, name.size() - 1 - kLetters);
  if (!rest.ends_with(kMark) ||
      letters.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") != letters.npos)
    return false;
  const std::string_view stem = rest.substr(0, rest.size() - kMark.size());
  return step_of(stem) || stem == "last" || stem == "best";
}

[[noreturn]] void cannot_write(const fs::path& what, int error) {
  std::string hint;
  if (error == ENOSPC || error == EDQUOT) hint = "make room, or write to another disk";
  if (error == EACCES || error == EPERM || error == EROFS)
    hint = fmt::format("another `out`, or make {} writable for you", what.parent_path().string());
  if (error == EEXIST || error == ENOTDIR) hint = "the name of a folder: another `out`";
  throw Error(fmt::format("cannot write {}: {}", what.string(), std::generic_category().message(error)), hint,
              "out");
}

// A folder that goes away unless it is kept.
struct NewFolder {
  fs::path path;
  explicit NewFolder(const fs::path& beside) {
    const io::Beside made =
        io::make_beside(temporary(beside), [](const char* name) { return mkdir(name, 0777); });
    if (made.made < 0) cannot_write(beside, errno);
    path = made.name;
  }
  NewFolder(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// A checkpoint that may be whole, but cannot be read: no older one is used in its place.
struct Refused : Error {
  using Error::Error;
};

// state.json holds its own SHA-256: as it is with zeros in the place of these digits.
std::string with_sum(std::string text, std::string_view digits) {
  const size_t at = text.rfind(digits);
  if (digits.empty() || at == text.npos) return {};
  std::fill_n(text.begin() + ptrdiff_t(at), digits.size(), '0');
  io::Sha256 sum;
  sum.add(std::as_bytes(std::span(text)));
  const std::string hex = sum.hex();
  if (digits.size() != hex.size()) return {};
  return text.replace(at, digits.size(), hex);
}

void check_readable(const fs::path& file) {
  if (access(file.c_str(), R_OK) == 0 || (errno != EACCES && errno != EPERM)) return;
  throw Refused(fmt::format("cannot read {}: {}", file.string(), std::generic_category().message(errno)),
                fmt::format("make {} readable for you", file.string()));
}

// The text of state.json. Throws Error where a checksum does not match or the step is not `step`.
std::string verified_state(const fs::path& folder, uint64_t step) {
  const fs::path file = folder / "state.json";
  const std::string name = file.string();
  check_readable(file);
  const std::string text(io::MappedFile(file).text());
  const nlohmann::json state = io::parse_json(text, name);
  if (!state.is_object()) throw Error(fmt::format("{} is not an object", name));
  if (const size_t format = io::get_size(state, "format", name); format != kFormat)
    throw Refused(fmt::format("{} has format {}; this Bertie knows {}", name, format, kFormat),
                  "the Bertie that wrote it; or another `out`");
  if (with_sum(text, io::get_string(state, kSum, name)) != text)
    throw Error(fmt::format("{} is not what it was when it was written: its SHA-256 has changed", name));
  if (const size_t its = io::get_size(state, "step", name, {}, size_t{1} << 53); its != step)
    throw Error(fmt::format("{} is of step {}: the folder was renamed", name, its));
  const auto files = state.find("files");
  if (files == state.end() || !files->is_object() || files->empty())
    throw Error(fmt::format("{} has no sums of files", name));
  for (const auto& [other, sum] : files->items()) {
    if (!sum.is_string() || fs::path(other).filename() != other)
      throw Error(fmt::format("{} is not as Bertie writes it", name));
    check_readable(folder / other);
    if (sha256_of(folder / other) != sum.get<std::string>())
      throw Error(fmt::format("{} is not what it was when it was written: its SHA-256 has changed",
                              (folder / other).string()));
  }
  for (const std::string_view needed :
       {io::kConfigFile, io::kWeightsFile, std::string_view("optimizer.safetensors")})
    if (!files->contains(needed)) throw Error(fmt::format("{} does not know {}", name, needed));
  return text;
}

}  // namespace

std::string sha256_of(const fs::path& file) {
  const io::MappedFile mapped(file);
  io::Sha256 sum;
  sum.add(mapped.bytes());
  return sum.hex();
}

namespace {

// Before the work and before it is replaced: what is there under a link's name, and is none, is not ours.
void check_link(const fs::path& link) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(link, error);
  if (fs::exists(status) && !fs::is_symlink(status))
    throw Error(fmt::format("{} is there already, and is not a link to a checkpoint", link.string()),
                "move it away, or another `out`", "out");
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (!error && !fs::is_directory(path_)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) cannot_write(path_, error.value());
  if (access(path_.c_str(), W_OK | X_OK) != 0) cannot_write(path_ / name_of(0), errno);
  for (const char* link : {"last", "best"}) check_link(path_ / link);
}

void RunFolder::lock() {
  lock_.emplace(path_);
  if (lock_->taken())
    throw Error(fmt::format("another process trains in {}", path_.string()), "wait for it, or another `out`",
                "out");
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
  const std::vector<uint64_t> all = steps();
  std::string why;
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    const fs::path folder = path_ / name_of(*step);
    try {
      return Found{*step, folder, verified_state(folder, *step)};
    } catch (const Refused&) {
      throw;
    } catch (const Error& error) {
      if (damaged) damaged(fmt::format("{} is damaged ({})", folder.string(), error.what()));
      if (why.empty()) why = error.what();
    }
  }
  if (all.empty()) return {};
  throw Error(fmt::format("{} has checkpoints, but none that is whole: {}", path_.string(), why),
              "repair what can be read, or another `out` to start over (`from` takes the weights of a "
              "checkpoint whose model.safetensors is good)",
              "resume");
}

void RunFolder::resume_from(const Found& found, uint64_t best,
                            const std::function<void(const std::string&)>& moved) const {
  for (const uint64_t step : steps()) {
    if (step <= found.step) continue;
    const fs::path folder = path_ / name_of(step);
    fs::path aside = path_ / fmt::format("damaged-{}", name_of(step));
    for (int number = 2; fs::exists(fs::symlink_status(aside)); ++number)
      aside = path_ / fmt::format("damaged-{}-{}", name_of(step), number);
    if (rename(folder.c_str(), aside.c_str()) != 0) cannot_write(aside, errno);
    if (moved) moved(fmt::format("{} is now {}", folder.string(), aside.filename().string()));
  }
  // A process may have been killed after a checkpoint got its name and before the links followed.
  point("last", name_of(found.step));
  if (best > 0 && fs::is_directory(path_ / name_of(best))) point("best", name_of(best));
  if (const auto target = link_target("best"); target && !fs::exists(path_ / name_of(*target)))
    unlink((path_ / "best").c_str());
}

fs::path RunFolder::save(uint64_t step, const std::function<void(const fs::path&)>& write,
                         const std::string& text, bool best) {
  const std::string name = name_of(step);
  const fs::path final = path_ / name;
  NewFolder folder(final);
  write(folder.path);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path)) files.push_back(entry.path().filename());
  std::sort(files.begin(), files.end());
  auto state = nlohmann::ordered_json::parse(text);
  state["format"] = kFormat;
  for (const std::string& file : files) state["files"][file] = sha256_of(folder.path / file);
  const std::string blank(64, '0');
  state[kSum] = blank;
  io::AtomicFile out(folder.path / "state.json");
  out.write(with_sum(io::dump(state, 1) + "\n", blank));
  out.commit();
  io::sync_folder(folder.path);
  // A damaged one may have the name, or one left by a run with other options.
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
  check_link(link);
  const io::Beside made =
      io::make_beside(temporary(link), [&](const char* other) { return symlink(to.c_str(), other); });
  if (made.made < 0) cannot_write(link, errno);
  if (rename(made.name.c_str(), link.c_str()) != 0) {
    const int error = errno;
    unlink(made.name.c_str());
    cannot_write(link, error);
  }
}

void RunFolder::prune(size_t keep, std::vector<uint64_t> spared) const {
  const std::vector<uint64_t> all = steps();
  for (const char* link : {"last", "best"})
    if (const auto target = link_target(link)) spared.push_back(*target);
  for (size_t i = 0; i + std::max<size_t>(keep, 1) < all.size(); ++i) {
    if (std::find(spared.begin(), spared.end(), all[i]) != spared.end()) continue;
    // Under another name first: one that is half gone must not look like a checkpoint.
    const fs::path folder = path_ / name_of(all[i]);
    const io::Beside gone = io::make_beside(temporary(folder), [&](const char* other) {
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
