#pragma once
// SHA-256 and SHA-1, for checking that a download is what its server named it (large files are named by the
// SHA-256 of their bytes, small ones by git's SHA-1) and that checkpoints are whole. Not for passwords or
// signatures.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace bertie::io {

// Both work on blocks of 64 bytes and end with the length in bits; they differ in what a block does.
template <size_t kWords>
class Sha {
 public:
  Sha();
  void add(std::span<const std::byte> bytes);
  std::string hex();  // of everything added; then it is spent

 private:
  void block(const uint8_t* bytes);
  std::array<uint32_t, kWords> state_;
  std::array<uint8_t, 64> pending_{};
  uint64_t length_ = 0;
};
using Sha1 = Sha<5>;
using Sha256 = Sha<8>;

// What SHA-256 does with a block of 64 bytes: as the standard writes it, and by the processor's own
// instructions, some five times as fast; null where it has none.
using Sha256Block = void (*)(std::array<uint32_t, 8>& state, const uint8_t* bytes);
void sha256_block(std::array<uint32_t, 8>& state, const uint8_t* bytes);
Sha256Block sha256_block_of_processor();

// git's name for a file's content: SHA-1 over "blob LENGTH\0" and the bytes.
Sha1 git_blob_sha1(uint64_t length);

}  // namespace bertie::io
