#pragma once
// A file that gets its name when it is complete: written whole, or not at all.
//
// Until commit() the content is in a temporary file beside the final one. commit() brings it to the disk,
// gives it its name in one step, and brings the folder to the disk. Whatever happens before that (an
// exception, a full disk, a killed process, power that fails), a file that had the name before is still
// there, whole. An object that ends without commit() removes its temporary; a process that is killed leaves
// it behind (the name, a point and six letters).
//
// Everything throws Error that names the file and the system's reason. One thread at a time.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace bertie::io {

class AtomicFile {
 public:
  // A link is followed, and what it points to is replaced. A folder or a device is an Error.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);  // after what is there
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_at(uint64_t offset, std::string_view bytes);  // over what is there
  void commit();

  const std::string& temporary() const { return temporary_; }  // empty after commit()

 private:
  [[noreturn]] void fail(int error) const;
  std::filesystem::path path_;
  std::string temporary_;
  int file_ = -1;
};

// Throws the Error of a file that cannot be written, with what to try; `error` is errno's.
[[noreturn]] void cannot_write(const std::filesystem::path& path, int error);

// A copy under another name, whole or not at all.
void copy_whole(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes something beside `path`, under its name and a few letters that make it unused: make(name) gives -1
// and sets errno to EEXIST where the name is taken. It makes with the mode 0666 or 0777, which the umask then
// narrows: mkstemp's 0600 would have to be widened by a umask that only changing it (for all threads) tells.
struct Beside {
  std::string name;
  int made;  // what make gave; -1: errno says why
};
Beside make_beside(const std::filesystem::path& path, const std::function<int(const char*)>& make);

// Puts each of two folders under the other's name: in one step, where the file system has one; else (and
// where at_once is false) there is a moment with nothing under the name b. 0, or errno.
int exchange_folders(const std::filesystem::path& a, const std::filesystem::path& b, bool at_once = true);

// Brings the names in a folder to the disk, after files in it were made or renamed.
void sync_folder(const std::filesystem::path& folder);

}  // namespace bertie::io
