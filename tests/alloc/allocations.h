#pragma once
// What counting_allocator.h counts, for the files that do not replace malloc themselves.
#include <atomic>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BERTIE_COUNTS_ALLOCATIONS 0  // the sanitizers replace malloc themselves
#else
#define BERTIE_COUNTS_ALLOCATIONS 1
#endif

namespace bertie::test {
inline std::atomic<size_t> allocations{0};

// Allocations, by any thread, while the action ran.
size_t allocations_of(const auto& action) {
  const size_t before = allocations;
  action();
  return allocations - before;
}

}  // namespace bertie::test
