#pragma once
// A file's bytes, mapped read-only into memory: opening costs microseconds whatever the size, and only the
// pages that are looked at are read.
//
// bytes() stays valid, and at the same address, as long as the MappedFile or the one it was moved into.
// Any number of threads may read. The file must not be shortened meanwhile: reading a page that is gone is a
// bus error, as with every mapping.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace bertie::io {

class MappedFile {
 public:
  // Throws Error where there is no regular file that may be read. An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept { return std::swap(bytes_, other.bytes_), *this; }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace bertie::io
