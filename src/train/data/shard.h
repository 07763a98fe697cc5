#pragma once
// Shards: files of tokens, as bertie::prepare writes them and training maps them into memory. docs/data.md
// has the format byte by byte: a header of 128 bytes, then where documents begin (in sentences), where
// sentences begin (in tokens), and the tokens, 16 bits each where the vocabulary allows it, else 32.
#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "bertie/tokenizer.h"
#include "io/file.h"

namespace bertie {

using Fingerprint = std::array<uint8_t, 32>;
// SHA-256 of a tokenizer's kind, casing and all its tokens in order.
Fingerprint fingerprint_of(const Tokenizer& tokenizer);

enum class Part : uint32_t { kTrain = 0, kHeldOut = 1 };
// "train-00042.tokens", "held-out-00000.tokens"
std::string shard_name(Part part, size_t index);

// The header, as it is in the file, little-endian.
struct ShardHeader {
  static constexpr std::array<char, 8> kMagic = {'B', 'R', 'T', 'S', 'H', 'A', 'R', 'D'};
  static constexpr uint32_t kVersion = 1;

  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t token_bytes = 2;  // 2 or 4
  uint32_t part = 0, index = 0;
  uint64_t documents = 0, sentences = 0, tokens = 0;
  uint64_t unknown = 0;        // tokens for text that the vocabulary does not have
  uint64_t text_bytes = 0;     // of the documents
  uint64_t text_checksum = 0;  // of the documents, chained: shows on a restart whether they are the same
  uint64_t vocab_size = 0;
  Fingerprint fingerprint = {};
  uint64_t checksum = 0;         // of all bytes after the header
  uint64_t header_checksum = 0;  // of all header bytes before it
};
static_assert(sizeof(ShardHeader) == 128);

// A shard in the making.
class ShardBuilder {
 public:
  ShardBuilder(Part part, const Fingerprint& fingerprint, uint64_t vocab_size);

  // A document's sentences, as lengths, and its tokens one after the other.
  struct Document {
    std::span<const uint32_t> sentences;
    std::span<const int32_t> tokens;
    uint64_t unknown, text_bytes, text_checksum;
  };
  void add(const Document& document);
  size_t bytes() const;  // of the file as it would be now
  bool empty() const { return header_.documents == 0; }
  // Writes folder/shard_name(part, index), whole or not at all, and begins the next.
  void write(const std::filesystem::path& folder);

  size_t index() const { return header_.index; }
  void start_at(size_t index) { header_.index = uint32_t(index); }

 private:
  void clear();
  ShardHeader header_;
  std::vector<uint32_t> documents_, sentences_;  // where each begins, and where the last ends
  std::vector<uint16_t> short_tokens_;
  std::vector<uint32_t> long_tokens_;
};

// A shard to read. Const and shared by threads.
class Shard {
 public:
  // Checks header and size, not the content. Error, naming the file, where they are not right.
  explicit Shard(const std::filesystem::path& path);
  // Reads it all and checks the checksum and that every number is in its range. Error, naming the file.
  void verify() const;

  const ShardHeader& header() const { return header_; }
  const std::string& name() const { return name_; }
  size_t documents() const { return documents_.size() - 1; }
  // Tokens and sentences count through the whole shard.
  uint32_t first_sentence(size_t document) const { return documents_[document]; }
  uint32_t first_token(size_t sentence) const { return sentences_[sentence]; }
  // Tokens from `begin` on, `count` of them, to `out`.
  void read(size_t begin, size_t count, int32_t* out) const;

 private:
  std::string name_;
  io::MappedFile file_;
  ShardHeader header_;
  std::span<const uint32_t> documents_, sentences_;
  const std::byte* tokens_ = nullptr;
};

}  // namespace bertie
