#include "io/growing_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/atomic_file.h"

namespace bertie::io {
namespace fs = std::filesystem;

GrowingFile::GrowingFile(const fs::path& path) : path_(path) {
  file_ = std::fopen(path.c_str(), fs::exists(path) ? "r+b" : "w+bx");
  if (!file_) fail();
  to_end();
}

GrowingFile::~GrowingFile() {
  if (file_) std::fclose(file_);
}

uint64_t GrowingFile::size() {
  flush();
  return fs::file_size(path_);
}

void GrowingFile::cut(uint64_t size) {
  flush();
  if (ftruncate(fileno(file_), off_t(size)) != 0) fail();
  to_end();
}

void GrowingFile::add(const void* bytes, size_t count) {
  if (count > 0 && std::fwrite(bytes, 1, count, file_) != count) fail();
}

void GrowingFile::put_at_front(const std::string& bytes) {
  if (std::fseek(file_, 0, SEEK_SET) != 0) fail();
  add(bytes.data(), bytes.size());
  flush();
  to_end();
}

void GrowingFile::flush() {
  if (std::fflush(file_) != 0) fail();
}

void GrowingFile::close_on_disk() {
  flush();
  if (fsync(fileno(file_)) != 0) fail();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
}

void GrowingFile::to_end() {
  if (std::fseek(file_, 0, SEEK_END) != 0) fail();
}

void GrowingFile::fail() const { cannot_write(path_, errno); }

}  // namespace bertie::io
