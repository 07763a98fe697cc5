#pragma once
// Memory in few, large, aligned blocks. Two owners:
//   Block  one zeroed allocation, 2 MiB pages where the system gives them; weights live in one.
//   Arena  bump allocation for activations and scratch: the code that takes memory runs once to count it, and
//          once on it. It grows to the largest run seen and then never allocates.
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
  // Runs `body` twice: first only to count what it takes, then on one piece of memory of that size. Pointers
  // taken before are no longer valid; those that `body` takes are until the next run. A later run that fits
  // allocates nothing. While counting() the pointers that take() gives must not be followed.
  template <class Body>
  void run(const Body& body) {
    reset(count(body));
    body();
  }
  // The first half of it: the bytes that `body` takes at most at one time.
  template <class Body>
  size_t count(const Body& body) {
    const Counting only(*this);
    body();
    return most_;
  }
  bool counting() const { return counting_; }

  // Makes room for `bytes` in one piece, where they were counted before.
  void reset(size_t bytes);

  template <class T>
  T* take(size_t count) {
    return reinterpret_cast<T*>(take_bytes(count, sizeof(T)));
  }
  template <class T>
  Matrix<T> take(size_t rows, size_t cols) {
    return {take<T>(rows * cols), rows, cols};
  }
  size_t capacity() const { return block_.size(); }

  // What is taken while a Scope lives is given back at its end.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), used_(arena.used_) {}
    ~Scope() { arena_.used_ = used_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t used_;
  };

  // What take<T>(count) uses up: add these to know what reset() needs.
  template <class T>
  static constexpr size_t bytes_for(size_t count) {
    return round_up(count * sizeof(T), kAlignment);
  }

 private:
  struct Counting {  // also when `body` throws
    explicit Counting(Arena& a) : arena(a) { a.used_ = a.most_ = 0, a.counting_ = true; }
    ~Counting() { arena.used_ = 0, arena.counting_ = false; }
    Arena& arena;
  };
  std::byte* take_bytes(size_t count, size_t size);
  Block block_;
  size_t used_ = 0, most_ = 0;
  bool counting_ = false;
};

}  // namespace bertie
