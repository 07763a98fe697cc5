#pragma once
// Tokens by id and ids by token.
//
// All token texts are in one block. One hash table holds the tokens that begin a word and those that continue
// one, the latter without their "##". The first 16 bytes of a key are compared as two machine words; only
// longer tokens are compared in the block.
//
// Const after seal() and add_outside(); any number of threads may look up.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace bertie::text {

inline constexpr size_t kMaxTokens = size_t{1} << 22;  // ids take 22 bits of a slot
inline constexpr size_t kMaxTokenBytes = 4096;         // no published vocabulary has more than 100
inline constexpr size_t kMaxVocabularyBytes = size_t{1} << 28;
inline constexpr size_t kPadding = 16;  // bytes that may be read past the end of a key

class Vocabulary {
 public:
  // `name` is the file's, for errors. Throws Error for too many or too long tokens and for a repeated token
  // or id. Ids may come in any order and with gaps. An empty token takes an id and matches nothing.
  explicit Vocabulary(std::string name);
  void reserve(size_t tokens, size_t bytes);
  void add(std::string_view token, uint64_t id);
  // As add, for ids that another vocabulary has checked.
  void add_unchecked(std::string_view token, uint64_t id);
  // Builds the table. Tokens that begin with `continuation_prefix` continue a word; with an empty prefix none
  // does.
  void seal(std::string_view continuation_prefix = "##");
  // After seal(): an added token. id() and token() know it; find() does not, as it is not a piece of the
  // model.
  void add_outside(std::string_view token, uint64_t id);

  // The id of the n bytes at p as a whole word (continues = false) or as a continuation; -1 if there is none.
  // p[0..n+kPadding) must be readable; n > 0.
  int32_t find(const char* p, size_t n, bool continues) const {
    if (n > longest_[continues]) return -1;
    return find_key(make_key(p, n, continues), p, n);
  }
  // The id of a whole word of at most 16 bytes, given as two little-endian words with zeros after its end.
  int32_t find_short(uint64_t low, uint64_t high, size_t n) const {
    return find_key({low, high, uint32_t(n)}, nullptr, n);
  }
  // The longest token that the n bytes at p begin with: its id (-1 if none) and its length. Arguments as for
  // find. Tries only the lengths that tokens with the same first four bytes have.
  int32_t find_longest(const char* p, size_t n, bool continues, size_t& length) const {
    uint32_t lengths = short_lengths_[continues][uint8_t(*p)];
    if (n >= 4) lengths |= lengths_[continues][prefix_slot(p)];
    if (n < kLongBit) lengths &= (2u << n) - 1;
    if (lengths >> kLongBit)
      for (length = std::min(n, longest_[continues]); length >= kLongBit; --length)
        if (int32_t id = find(p, length, continues); id >= 0) return id;
    for (lengths &= (1u << kLongBit) - 1; lengths; lengths ^= 1u << length) {
      length = size_t(std::bit_width(lengths)) - 1;
      if (int32_t id = find(p, length, continues); id >= 0) return id;
    }
    return -1;
  }

  // By the token's full text.
  int32_t id(std::string_view token) const;
  std::string_view token(size_t id) const;
  bool has(size_t id) const { return id < tokens_.size() && tokens_[id].begin != kNone; }
  // False for tokens of add_outside.
  bool in_model(size_t id) const { return outside_.empty() || !outside_.contains(std::string(token(id))); }
  // One more than the largest id.
  size_t size() const { return tokens_.size(); }
  const std::string& name() const { return name_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kContinues = 1u << 31;
  struct Token {
    uint32_t begin = kNone, length = 0;
  };
  struct Key {
    uint64_t low, high;  // the first 16 bytes, zeros after the end
    uint32_t meta;       // the length, and kContinues
  };

  static uint64_t load(const char* p, size_t n) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    return n >= 8 ? word : word & ((uint64_t{1} << 8 * n) - 1);
  }
  static Key make_key(const char* p, size_t n, bool continues) {
    return {load(p, n), n > 8 ? load(p + 8, n - 8) : 0, uint32_t(n) | (continues ? kContinues : 0)};
  }
  static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 Wide;
    Wide product = Wide{a} * b;
    return uint64_t(product) ^ uint64_t(product >> 64);
  }
  static uint64_t hash(const Key& key, const char* p, size_t n) {
    uint64_t h = mix(key.low ^ 0x9E3779B97F4A7C15 ^ key.meta, key.high ^ 0xC2B2AE3D27D4EB4F);
    for (size_t i = 16; i < n; i += 8) h = mix(h ^ load(p + i, n - i), 0x165667B19E3779F9);
    return h;
  }
  int32_t find_key(const Key& key, const char* p, size_t n) const {
    uint64_t h = hash(key, p, n);
    uint32_t tag = uint32_t(h) & ~kIdMask;
    for (size_t i = h >> shift_;; i = (i + 1) & mask_) {
      uint32_t slot = slots_[i];
      if (slot == kNone) return -1;
      if ((slot & ~kIdMask) != tag) continue;
      uint32_t id = slot & kIdMask;
      const Key& k = keys_[id];
      if (k.low == key.low && k.high == key.high && k.meta == key.meta && (n <= 16 || same_rest(id, p, n)))
        return int32_t(id);
    }
  }
  bool same_rest(uint32_t id, const char* p, size_t n) const;
  size_t prefix_slot(const char* p) const {
    uint32_t four;
    std::memcpy(&four, p, 4);
    return four * 0x9E3779B1u >> prefix_shift_;
  }
  void insert(uint32_t id);
  bool is_continuation(std::string_view token) const {
    return !prefix_.empty() && token.starts_with(prefix_);
  }
  const char* key_text(const Token& t, bool continues) const {
    return text_.data() + t.begin + (continues ? prefix_.size() : 0);
  }

  static constexpr uint32_t kIdMask = kMaxTokens - 1;

  std::string name_, prefix_;
  std::string text_;             // every token's bytes, then kPadding
  std::vector<Token> tokens_;    // by id
  std::vector<Key> keys_;        // by id
  std::vector<uint32_t> slots_;  // tag | id, open addressing, at most half full; kNone is free
  std::unordered_map<std::string, uint32_t> outside_;
  // Which lengths tokens have: bit i is set if there is one of i bytes, kLongBit for that or more. Lengths 1
  // to 3 by first byte, longer ones by a hash of the first four bytes.
  static constexpr unsigned kLongBit = 31;
  uint8_t short_lengths_[2][256] = {};
  std::vector<uint32_t> lengths_[2];
  unsigned prefix_shift_ = 0;
  size_t mask_ = 0, longest_[2] = {0, 0}, count_ = 0;
  int shift_ = 0;
};

}  // namespace bertie::text
