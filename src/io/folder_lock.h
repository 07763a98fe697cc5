#pragma once
// Keeps a folder to one process at a time: held as long as the object lives, and gone with the process.
#include <filesystem>
#include <utility>

namespace bertie::io {

class FolderLock {
 public:
  // Whether another process has it is told by taken(); a disk without locks is no reason not to work.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)), taken_(other.taken_) {}
  FolderLock& operator=(FolderLock&&) = delete;

  bool taken() const { return taken_; }  // by another

 private:
  int file_ = -1;
  bool taken_ = false;
};

}  // namespace bertie::io
