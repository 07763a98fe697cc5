#pragma once
// SentencePiece's precompiled_charsmap: replacements for strings, used by its normalization. The format:
//
//   u32 little-endian: the size of the trie in bytes; the trie, a double array of u32 units; then the
//   replacements, UTF-8, each ended by a zero byte
//
// A unit: bits 0-7 and 31 are its label (bit 31 is set only in units that hold a value), bit 8 says whether a
// key ends here, bits 10-30 are the offset to its children (times 256 if bit 9 is set). A value is the offset
// of a replacement.
//
// Const after building; any number of threads may use it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::text {

class Charsmap {
 public:
  // Copies the bytes. `name` is for errors. Throws Error if sizes do not match or text is not UTF-8.
  Charsmap(std::string_view bytes, const std::string& name);

  // The replacement for the shortest key that `text` begins with; nothing if there is none, or if the trie
  // leads out of the map.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

// Throws Error.
std::string decode_base64(std::string_view text, const std::string& name);

}  // namespace bertie::text
