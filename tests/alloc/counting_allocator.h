#pragma once
// Counts every way to get memory: malloc and its relatives, operator new (which calls them) and mmap. The
// program that includes this has them replaced, so it holds nothing but tests that count.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "alloc/allocations.h"

#if BERTIE_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  ++bertie::test::allocations;
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(size_t count, size_t bytes) {
  ++bertie::test::allocations;
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* old, size_t bytes) {
  ++bertie::test::allocations;
  return __libc_realloc(old, bytes);
}
__attribute__((visibility("default"))) void* memalign(size_t alignment, size_t bytes) {
  ++bertie::test::allocations;
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
__attribute__((visibility("default"))) void* mmap(void* address, size_t bytes, int protection, int flags,
                                                  int file, off_t offset) noexcept {
  ++bertie::test::allocations;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
}
#endif
