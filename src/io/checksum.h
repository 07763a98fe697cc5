#pragma once
// A fast 64-bit checksum against damage by chance: four lanes of multiply and rotate, some 10 GB/s. For what
// strangers may have forged there is io/sha.h.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bertie::io {

uint64_t checksum(std::span<const std::byte> bytes, uint64_t seed = 0);
inline uint64_t checksum(std::string_view text, uint64_t seed = 0) {
  return checksum(std::as_bytes(std::span(text)), seed);
}
// The checksum of a list, item by item: sum = chain(sum, item).
uint64_t chain(uint64_t sum, uint64_t item);

}  // namespace bertie::io
