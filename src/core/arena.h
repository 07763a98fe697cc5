#pragma once
// Memory in few, large, aligned blocks. Two owners:
//   Block  one zeroed allocation, 2 MiB pages where the system gives them; weights live in one.
//   Arena  bump allocation for a run's workspace: reset() and take() again; it grows to the largest run
//          seen and then never allocates.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "bertie/view.h"

namespace bertie {

inline constexpr size_t kAlignment = 64;  // one cache line, one AVX-512 vector

inline constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes);
  ~Block();
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept { return swap(other), *this; }

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void swap(Block& other) { std::swap(data_, other.data_), std::swap(bytes_, other.bytes_); }
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

class Arena {
 public:
  // Makes room for `bytes` in one piece; pointers taken before are no longer valid. A later run that fits
  // allocates nothing.
  void reset(size_t bytes);
  template <class T>
  T* take(size_t count) {
    return reinterpret_cast<T*>(take_bytes(count * sizeof(T)));
  }
  template <class T>
  Matrix<T> take(size_t rows, size_t cols) {
    return {take<T>(rows * cols), rows, cols};
  }
  size_t capacity() const { return block_.size(); }

  // What take<T>(count) uses up: add these to know what reset() needs.
  template <class T>
  static constexpr size_t bytes_for(size_t count) {
    return round_up(count * sizeof(T), kAlignment);
  }

 private:
  std::byte* take_bytes(size_t bytes);
  Block block_;
  size_t used_ = 0;
};

}  // namespace bertie
