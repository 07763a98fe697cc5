#pragma once
// A file that grows at its end, and is gone on with where it is there already. One thread at a time. Throws
// Error.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

namespace bertie::io {

class GrowingFile {
 public:
  explicit GrowingFile(const std::filesystem::path& path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  uint64_t size();  // with what was added
  void cut(uint64_t size);
  void add(const void* bytes, size_t count);
  void put_at_front(const std::string& bytes);  // over what is there
  void flush();                                 // what was added outlives the process
  void close_on_disk();                         // and the machine; there is nothing to do with it then

 private:
  void to_end();
  [[noreturn]] void fail() const;
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace bertie::io
