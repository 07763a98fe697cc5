#include "train/data/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <limits>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/atomic_file.h"
#include "io/checksum.h"
#include "io/sha.h"

namespace bertie {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

constexpr const char* kTryAgain = "prepare the data again with the same options: that makes what is missing";

uint64_t header_checksum(const ShardHeader& header) {
  return io::checksum(
      std::string_view(reinterpret_cast<const char*>(&header), offsetof(ShardHeader, header_checksum)));
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}

// Where the parts of the file begin, and where it ends. Token numbers begin at a multiple of 4, as all do.
struct Layout {
  uint64_t documents, sentences, tokens, end;
};
Layout layout_of(const ShardHeader& h) {
  const Checked sentences = Checked(sizeof(ShardHeader)) + (Checked(h.documents) + 1) * 4;
  const Checked tokens = sentences + (Checked(h.sentences) + 1) * 4;
  const Checked end = tokens + Checked(h.tokens) * h.token_bytes;
  return {sizeof(ShardHeader), sentences.value(), tokens.value(), end.value()};
}

template <class T>
std::span<const T> numbers_at(std::span<const std::byte> bytes, uint64_t offset, uint64_t count) {
  return {reinterpret_cast<const T*>(bytes.data() + offset), size_t(count)};
}

// 0 first, ascending, `last` at the end.
bool ascends(std::span<const uint32_t> places, uint64_t last) {
  return places.front() == 0 && places.back() == last && std::is_sorted(places.begin(), places.end());
}

}  // namespace

Fingerprint fingerprint_of(const Tokenizer& tokenizer) {
  io::Sha256 sha;
  const auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    sha.add(std::as_bytes(std::span(&size, 1)));
    sha.add(std::as_bytes(std::span(text)));
  };
  add(tokenizer.kind());
  add(tokenizer.lowercase() ? "lower" : "as is");
  for (size_t id = 0; id < tokenizer.vocab_size(); ++id) add(tokenizer.token(int32_t(id)));
  const std::string hex = sha.hex();
  Fingerprint fingerprint;
  for (size_t i = 0; i < fingerprint.size(); ++i)
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, fingerprint[i], 16);
  return fingerprint;
}

std::string shard_name(Part part, size_t index) {
  return fmt::format("{}-{:05}.tokens", part == Part::kTrain ? "train" : "held-out", index);
}

ShardBuilder::ShardBuilder(Part part, const Fingerprint& fingerprint, uint64_t vocab_size) {
  header_.part = uint32_t(part);
  header_.token_bytes = vocab_size <= 1u << 16 ? 2 : 4;
  header_.vocab_size = vocab_size;
  header_.fingerprint = fingerprint;
  clear();
}

void ShardBuilder::clear() {
  header_.documents = header_.sentences = header_.tokens = 0;
  header_.unknown = header_.text_bytes = header_.text_checksum = 0;
  documents_.assign(1, 0);
  sentences_.assign(1, 0);
  short_tokens_.clear();
  long_tokens_.clear();
}

void ShardBuilder::add(const Document& document) {
  for (uint32_t length : document.sentences) sentences_.push_back(sentences_.back() + length);
  documents_.push_back(uint32_t(sentences_.size() - 1));
  if (header_.token_bytes == 2)
    short_tokens_.insert(short_tokens_.end(), document.tokens.begin(), document.tokens.end());
  else
    long_tokens_.insert(long_tokens_.end(), document.tokens.begin(), document.tokens.end());
  header_.documents += 1;
  header_.sentences += document.sentences.size();
  header_.tokens += document.tokens.size();
  header_.unknown += document.unknown;
  header_.text_bytes += document.text_bytes;
  header_.text_checksum = io::chain(header_.text_checksum, document.text_checksum);
}

size_t ShardBuilder::bytes() const { return layout_of(header_).end; }

void ShardBuilder::write(const std::filesystem::path& folder) {
  io::AtomicFile file(folder / shard_name(Part(header_.part), header_.index));
  // The content's checksum is that of its three parts, chained.
  const std::span<const std::byte> parts[] = {
      bytes_of(documents_), bytes_of(sentences_),
      header_.token_bytes == 2 ? bytes_of(short_tokens_) : bytes_of(long_tokens_)};
  header_.checksum = 0;
  for (const auto part : parts) header_.checksum = io::chain(header_.checksum, io::checksum(part));
  header_.header_checksum = header_checksum(header_);
  file.write(std::as_bytes(std::span(&header_, 1)));
  for (const auto part : parts) file.write(part);
  file.commit();
  clear();
  ++header_.index;
}

Shard::Shard(const std::filesystem::path& path) : name_(path.string()), file_(path) {
  const auto bytes = file_.bytes();
  if (bytes.size() < sizeof(ShardHeader))
    throw Error(fmt::format("{} is too short for a shard", name_), kTryAgain);
  std::memcpy(&header_, bytes.data(), sizeof header_);
  if (header_.magic != ShardHeader::kMagic)
    throw Error(fmt::format("{} is not a shard: it does not begin as one", name_),
                "`data` is a folder of prepared shards", "data");
  if (header_.version != ShardHeader::kVersion)
    throw Error(fmt::format("{} is of version {} of the shards' format; this program reads version {}", name_,
                            header_.version, ShardHeader::kVersion),
                "prepare the data again with this version");
  if (header_.header_checksum != header_checksum(header_))
    throw Error(fmt::format("{} is damaged: its header's checksum is wrong", name_), kTryAgain);
  // The header is as it was written, but not necessarily by this program.
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if ((header_.token_bytes != 2 && header_.token_bytes != 4) || header_.documents > kMost ||
      header_.sentences > kMost || header_.tokens > kMost || header_.vocab_size > kMost / 2)
    throw Error(fmt::format("{} is damaged: its header makes no sense", name_), kTryAgain);
  const Layout layout = layout_of(header_);
  if (layout.end != bytes.size())
    throw Error(
        fmt::format("{} is damaged: it has {} bytes and should have {}", name_, bytes.size(), layout.end),
        kTryAgain);
  documents_ = numbers_at<uint32_t>(bytes, layout.documents, header_.documents + 1);
  sentences_ = numbers_at<uint32_t>(bytes, layout.sentences, header_.sentences + 1);
  tokens_ = bytes.data() + layout.tokens;
}

void Shard::verify() const {
  const auto bytes = file_.bytes();
  const Layout layout = layout_of(header_);
  uint64_t sum = 0;
  const uint64_t ends[] = {layout.sentences, layout.tokens, layout.end};
  for (uint64_t begin = layout.documents; const uint64_t end : ends) {
    sum = io::chain(sum, io::checksum(bytes.subspan(begin, end - begin)));
    begin = end;
  }
  if (sum != header_.checksum)
    throw Error(fmt::format("{} is damaged: its checksum is wrong", name_), kTryAgain);
  const auto in_vocabulary = [&](auto zero) {
    const auto tokens = numbers_at<decltype(zero)>(bytes, layout.tokens, header_.tokens);
    return tokens.empty() || *std::max_element(tokens.begin(), tokens.end()) < header_.vocab_size;
  };
  if (!ascends(documents_, header_.sentences) || !ascends(sentences_, header_.tokens) ||
      !(header_.token_bytes == 2 ? in_vocabulary(uint16_t{0}) : in_vocabulary(uint32_t{0})))
    throw Error(fmt::format("{} is damaged: numbers in it are out of range", name_), kTryAgain);
}

void Shard::read(size_t begin, size_t count, int32_t* out) const {
  const auto copy = [&](auto zero) {
    const auto* from = reinterpret_cast<const decltype(zero)*>(tokens_) + begin;
    std::copy(from, from + count, out);
  };
  header_.token_bytes == 2 ? copy(uint16_t{0}) : copy(uint32_t{0});
}

}  // namespace bertie
