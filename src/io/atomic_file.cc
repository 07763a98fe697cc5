#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "bertie/error.h"

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
  std::string pattern = path_.string() + ".XXXXXX";
  file_ = mkostemp(pattern.data(), O_CLOEXEC);
  if (file_ < 0) fail(errno);
  temporary_ = std::move(pattern);
  // mkostemp makes it ours alone; a file that people share is made as the umask says.
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(file_, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::fail(int error) const {
  std::string hint;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      hint = fmt::format("mkdir -p {}", folder_of(path_).string());
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
      hint = fmt::format("write somewhere else, or make {} writable for you", folder_of(path_).string());
      break;
  }
  throw Error(fmt::format("cannot write {}: {}", path_.string(), std::generic_category().message(error)),
              hint);
}

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
