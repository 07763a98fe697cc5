#pragma once
// SentencePiece's precompiled_charsmap: what some sequences of bytes become when text is normalised.
//
//   u32 little-endian: the size of the trie in bytes; the trie, a double array of u32 units; then the
//   replacements, UTF-8, each ended by a zero byte
//
// A unit: bits 0-7 and 31 its label (a value's unit has bit 31 set, and so is no byte's), bit 8 whether a key
// ends here, bits 10-30 the way to its children (times 256 if bit 9 is set). A value is a place among the
// replacements.
//
// Const after building; any number of threads may look.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bertie::text {

class Charsmap {
 public:
  // Copies. `name` is what errors call it. Throws Error where sizes do not fit or text is not UTF-8.
  Charsmap(std::string_view bytes, const std::string& name);

  // What the shortest key that `text` begins with becomes; nothing if there is none. A key that leads out of
  // the map is none.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

// The bytes that Base64 text stands for. Throws Error.
std::string decode_base64(std::string_view text, const std::string& name);

}  // namespace bertie::text
