#include "core/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "bertie/error.h"
#include "core/checked.h"
#include "core/system.h"

namespace bertie {

Block::Block(size_t bytes) {
  if (bytes == 0) return;
  constexpr size_t kHuge = size_t{2} << 20;
  // A 2 MiB boundary lets the kernel back the block with huge pages: a tenth of the page faults at load,
  // and no TLB misses while weights stream through the caches.
  size_t rounded = round_up(bytes, bytes >= kHuge ? kHuge : size_t{4096});
  size_t padded = rounded >= kHuge ? rounded + kHuge : rounded;
  void* raw = padded < bytes
                  ? MAP_FAILED
                  : mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    throw Error(fmt::format("out of memory: could not get {} MiB", bytes >> 20),
                "use a smaller batch or model");
  auto address = reinterpret_cast<uintptr_t>(raw);
  uintptr_t begin = rounded >= kHuge ? round_up(address, kHuge) : address;
  if (begin > address) munmap(raw, begin - address);
  if (size_t tail = address + padded - (begin + rounded))
    munmap(reinterpret_cast<void*>(begin + rounded), tail);
  if (rounded >= kHuge) allow_large_pages(reinterpret_cast<void*>(begin), rounded);
  data_ = reinterpret_cast<std::byte*>(begin);
  bytes_ = rounded;
}

Block::~Block() {
  if (data_) munmap(data_, bytes_);
}

void Arena::reset(size_t bytes) {
  if (bytes > block_.size()) {
    block_ = Block();  // give back first: never hold two
    block_ = Block(bytes + bytes / 4);
  }
  used_ = 0;
}

std::byte* Arena::take_bytes(size_t count, size_t size) {
  // Addresses while counting are as far apart as they will be, but lead nowhere.
  std::byte* const base = counting_ ? reinterpret_cast<std::byte*>(kAlignment) : block_.data();
  std::byte* p = base + used_;
  used_ = (Checked(used_) + Checked(round_up((Checked(count) * size).value(), kAlignment))).value();
  most_ = std::max(most_, used_);
  // Our own mistake, and never to be let through: what comes after would be somebody else's memory.
  if (!counting_ && used_ > block_.size())
    throw Error("a workspace was planned too small: this is a mistake in bertie");
  return p;
}

}  // namespace bertie
