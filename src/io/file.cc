#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "bertie/error.h"

namespace bertie::io {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

std::string hint_for(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path, from the folder you are in";
    case EACCES:
    case EPERM:
      return "make the file and its folders readable for you: chmod +r FILE";
    default:
      return {};
  }
}

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw Error(fmt::format("cannot read {}: {}", path.string(), std::generic_category().message(error)),
              hint_for(error));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK a named pipe would be waited for, for ever.
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) fail(path, errno);
  struct stat status {};
  if (fstat(file.number, &status) != 0) fail(path, errno);
  if (S_ISDIR(status.st_mode))
    throw Error(fmt::format("cannot read {}: it is a folder", path.string()), "name a file in that folder");
  if (!S_ISREG(status.st_mode))
    throw Error(fmt::format("cannot read {}: it is not a regular file", path.string()),
                "copy what it gives into a file first");
  auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // a mapping of nothing is an error to the system
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (data == MAP_FAILED) fail(path, errno);
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace bertie::io
