// What libstdc++.a of GCC 12 was built to ask of a newer glibc than the tarball's program is linked for
// (package.cmake).
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

// From 2.32: whether the process is known to have one thread, so that counts need not be atomic. Not known here.
extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// From 2.36: for std::random_device.
uint32_t arc4random() noexcept {
  uint32_t number = 0;
  if (getentropy(&number, sizeof number) != 0) std::abort();
  return number;
}
}
