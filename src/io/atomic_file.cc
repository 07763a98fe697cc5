#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <system_error>
#include <utility>

#include "bertie/error.h"
#include "bertie/files.h"
#include "core/system.h"
#include "io/file.h"

namespace bertie::io {
namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  std::error_code error;
  // Renaming over a link would replace the link, and over a device the device.
  if (fs::exists(path_, error)) path_ = fs::canonical(path_, error);
  if (!error && fs::exists(path_, error) && !fs::is_regular_file(path_, error))
    throw Error(fmt::format("cannot write {}: it is {}", path.string(),
                            fs::is_directory(path_, error) ? "a folder" : "not a regular file"),
                "give the name of a file");
  Beside made = make_beside(
      path_, [](const char* name) { return open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
  file_ = made.made;
  if (file_ < 0) fail(errno);
  temporary_ = std::move(made.name);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void cannot_write(const fs::path& path, int error) {
  std::string hint;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      hint = fmt::format("mkdir -p {}", folder_of(path).string());
      break;
    case ENOSPC:
    case EDQUOT:
      hint = "make room, or write to another disk";
      break;
    case EFBIG:
      hint = "raise the limit on the size of files (ulimit -f), or write to another disk";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      hint = fmt::format("write somewhere else, or make {} writable for you", folder_of(path).string());
      break;
  }
  throw Error(fmt::format("cannot write {}: {}", path.string(), std::generic_category().message(error)),
              hint);
}

void AtomicFile::fail(int error) const { cannot_write(path_, error); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) fail(errno);
    if (count > 0) bytes = bytes.subspan(size_t(count));
  }
}

void AtomicFile::write_at(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file_, bytes.data(), bytes.size(), off_t(offset));
    if (count < 0 && errno != EINTR) fail(errno);
    if (count > 0) bytes.remove_prefix(size_t(count)), offset += uint64_t(count);
  }
}

void AtomicFile::commit() {
  if (fsync(file_) != 0) fail(errno);
  if (close(std::exchange(file_, -1)) != 0) fail(errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void copy_whole(const std::filesystem::path& from, const std::filesystem::path& to) {
  const MappedFile file(from);
  AtomicFile out(to);
  out.write(file.bytes());
  out.commit();
}

Beside make_beside(const fs::path& path, const std::function<int(const char*)>& make) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr int kMaxTries = 100;
  std::random_device random;
  Beside beside{.name = {}, .made = -1};
  for (int tries = 0; tries < kMaxTries; ++tries) {
    beside.name = path.string() + ".";
    for (int i = 0; i < 6; ++i) beside.name += kLetters[random() % kLetters.size()];
    beside.made = make(beside.name.c_str());
    if (beside.made >= 0 || errno != EEXIST) break;
  }
  return beside;
}

int exchange_folders(const fs::path& a, const fs::path& b, bool at_once) {
  if (at_once) {
    const int error = exchange_names(a, b);
    if (error != EINVAL && error != ENOSYS) return error;
  }
  // Renaming a folder over an empty one is allowed: so no other process takes the name meanwhile.
  const Beside aside = make_beside(b, [](const char* name) { return mkdir(name, 0777); });
  if (aside.made < 0) return errno;
  if (rename(b.c_str(), aside.name.c_str()) != 0) {
    const int error = errno;
    rmdir(aside.name.c_str());
    return error;
  }
  if (rename(a.c_str(), b.c_str()) != 0) {
    const int error = errno;
    rename(aside.name.c_str(), b.c_str());
    return error;
  }
  return rename(aside.name.c_str(), a.c_str()) == 0 ? 0 : errno;
}

void sync_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done =
      descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);  // EINVAL: a disk that cannot
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  // A folder that may be written but not read (drop boxes) cannot be synced, and need not be.
  if (!done && error != EACCES)
    throw Error(fmt::format("cannot write {}: {}", folder.string(), std::generic_category().message(error)));
}

}  // namespace bertie::io

void bertie::write_file(const std::filesystem::path& path, std::string_view text) {
  io::AtomicFile file(path);
  file.write(text);
  file.commit();
}
