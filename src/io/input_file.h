#pragma once
// The text of a file or of standard input ("-"), unpacked on the way where it is gzip, xz or Zstandard: the
// first bytes tell, not the name. A UTF-8 byte order mark at the start is dropped. Reads from front to end;
// memory does not grow with the file.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace bertie::io {

// The text without a byte order mark at its start.
std::string_view without_byte_order_mark(std::string_view text);

// Whether these are the first bytes of gzip, xz or Zstandard; six of them tell.
bool is_packed(std::string_view bytes);

class InputFile {
 public:
  // Throws Error where it cannot be opened.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills `out` from the front and returns how much; 0 at the end alone. Error where reading fails or packed
  // data is damaged or ends too early.
  size_t read(std::span<char> out);

  uint64_t taken() const { return taken_; }  // bytes of the file so far, packed ones where it is packed
  uint64_t size() const { return size_; }    // of the file; 0 if nobody knows
  const std::string& name() const { return name_; }  // for errors

 private:
  class Unpacker;
  class Gzip;
  class Xz;
  class Zstd;
  size_t read_raw(std::span<char> out);
  size_t read_unpacked(std::span<char> out);
  bool fill();  // more packed bytes; false at the end

  std::string name_;
  int file_ = -1;
  uint64_t taken_ = 0, size_ = 0;
  std::string packed_;  // read and not yet unpacked: from begin_ to end_
  size_t begin_ = 0, end_ = 0;
  std::unique_ptr<Unpacker> unpacker_;
  std::array<char, 3>
      start_;  // the first bytes, unpacked: from start_begin_ to start_end_ they are still to come
  size_t start_begin_ = 0, start_end_ = 0;
  bool started_ = false;
};

}  // namespace bertie::io
