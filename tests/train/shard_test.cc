// Shards: what is written is read, and what is damaged or forged is refused.
#include "train/data/shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "../../fuzz/shard_fuzz.cc"
#include "core/random.h"
#include "io/checksum.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::expect_error;
using test::TempFolder;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path write_small(const TempFolder& folder, uint64_t vocab_size) {
  ShardBuilder builder(Part::kHeldOut, Fingerprint{1, 2, 3}, vocab_size);
  builder.start_at(7);
  const std::vector<uint32_t> a = {2, 1}, b = {}, c = {3};
  const std::vector<int32_t> ids = {1, 2, 3}, none = {}, more = {int32_t(vocab_size - 1), 0, 4};
  builder.add({.sentences = a, .tokens = ids, .unknown = 1, .text_bytes = 10, .text_checksum = 5});
  builder.add({.sentences = b, .tokens = none, .unknown = 0, .text_bytes = 2, .text_checksum = 6});
  builder.add({.sentences = c, .tokens = more, .unknown = 0, .text_bytes = 8, .text_checksum = 7});
  const size_t bytes = builder.bytes();
  builder.write(folder.path());
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.index(), 8u);
  const auto path = folder.path() / "held-out-00007.tokens";
  EXPECT_EQ(std::filesystem::file_size(path), bytes);
  return path;
}

TEST(Shard, WhatIsWrittenIsRead) {
  const TempFolder folder;
  for (const uint64_t vocab_size : {uint64_t{300}, uint64_t{65536}, uint64_t{65537}, uint64_t{250000}}) {
    const Shard shard(write_small(folder, vocab_size));
    shard.verify();
    const ShardHeader& h = shard.header();
    EXPECT_EQ(h.token_bytes, vocab_size <= 65536 ? 2u : 4u);
    EXPECT_EQ(h.index, 7u);
    EXPECT_EQ(h.documents, 3u);
    EXPECT_EQ(h.sentences, 3u);
    EXPECT_EQ(h.tokens, 6u);
    EXPECT_EQ(h.unknown, 1u);
    EXPECT_EQ(h.text_bytes, 20u);
    EXPECT_EQ(h.fingerprint, (Fingerprint{1, 2, 3}));
    EXPECT_EQ(shard.first_sentence(1), 2u);
    EXPECT_EQ(shard.first_sentence(2), 2u);
    EXPECT_EQ(shard.first_sentence(3), 3u);
    EXPECT_EQ(shard.first_token(1), 2u);
    std::vector<int32_t> ids(6);
    shard.read(0, 6, ids.data());
    EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 3, int32_t(vocab_size - 1), 0, 4}));
  }
}

TEST(Shard, EveryShorteningAndEveryChangedByteIsNoticed) {
  const TempFolder folder;
  const std::string bytes = bytes_of(write_small(folder, 300));
  const auto open_and_verify = [&](const std::string& content) {
    const auto path = folder.write("a.tokens", content);
    Shard(path).verify();
  };
  open_and_verify(bytes);
  for (size_t keep = 0; keep < bytes.size(); ++keep)
    expect_error("a.tokens", [&] { open_and_verify(bytes.substr(0, keep)); });
  expect_error("a.tokens", [&] { open_and_verify(bytes + "x"); });
  for (size_t i = 0; i < bytes.size(); ++i)
    for (const char flip : {'\x01', '\xFF'}) {
      std::string changed = bytes;
      changed[i] = char(changed[i] ^ flip);
      expect_error("a.tokens", [&] { open_and_verify(changed); });
    }
}

// A forger can make checksums too.
std::string forged(const std::string& bytes, const std::function<void(ShardHeader&, std::string&)>& change) {
  ShardHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  std::string rest = bytes.substr(sizeof h);
  change(h, rest);
  const size_t documents = 4 * size_t(h.documents + 1), sentences = 4 * size_t(h.sentences + 1);
  h.checksum = 0;
  if (documents + sentences <= rest.size()) {
    const std::string_view view = rest;
    for (const std::string_view part :
         {view.substr(0, documents), view.substr(documents, sentences), view.substr(documents + sentences)})
      h.checksum = io::chain(h.checksum, io::checksum(part));
  }
  const char* start = reinterpret_cast<const char*>(&h);
  h.header_checksum = io::checksum(std::string_view(start, offsetof(ShardHeader, header_checksum)));
  return std::string(start, sizeof h) + rest;
}

TEST(Shard, ForgedOnesLeadNowhere) {
  const TempFolder folder;
  const std::string bytes = bytes_of(write_small(folder, 300));
  const auto refused = [&](const char* why, const std::function<void(ShardHeader&, std::string&)>& change) {
    const auto path = folder.write("forged.tokens", forged(bytes, change));
    SCOPED_TRACE(why);
    expect_error("forged.tokens", [&] { Shard(path).verify(); });
  };
  const auto put = [](std::string& rest, size_t place, uint32_t number) {
    std::memcpy(rest.data() + 4 * place, &number, 4);
  };
  const auto path = folder.write("forged.tokens", forged(bytes, [](ShardHeader&, std::string&) {}));
  Shard(path).verify();  // unchanged, it passes
  refused("counts that overflow", [](ShardHeader& h, std::string&) { h.tokens = UINT64_MAX; });
  refused("counts that wrap to the size",
          [](ShardHeader& h, std::string&) { h.tokens += uint64_t{1} << 63; });
  refused("documents beyond 32 bits", [](ShardHeader& h, std::string&) { h.documents = uint64_t{1} << 40; });
  refused("more tokens than there are", [](ShardHeader& h, std::string&) { h.tokens += 1; });
  refused("tokens of 0 bytes", [](ShardHeader& h, std::string&) { h.token_bytes = 0; });
  refused("tokens of 3 bytes", [](ShardHeader& h, std::string&) { h.token_bytes = 3; });
  refused("a later version", [](ShardHeader& h, std::string&) { h.version = 2; });
  refused("another file", [](ShardHeader& h, std::string&) { h.magic[0] = 'X'; });
  refused("a vocabulary too small", [](ShardHeader& h, std::string&) { h.vocab_size = 299; });
  refused("a vocabulary too large", [](ShardHeader& h, std::string&) { h.vocab_size = UINT64_MAX; });
  refused("documents out of order",
          [&](ShardHeader&, std::string& rest) { put(rest, 1, 3), put(rest, 2, 2); });
  refused("a document beyond the end", [&](ShardHeader&, std::string& rest) { put(rest, 3, 900); });
  refused("documents that begin late", [&](ShardHeader&, std::string& rest) { put(rest, 0, 1); });
  refused("sentences beyond the end", [&](ShardHeader&, std::string& rest) { put(rest, 4 + 1, 70000); });
  refused("sentences that end early", [&](ShardHeader&, std::string& rest) { put(rest, 4 + 3, 5); });
}

TEST(Shard, MutationsWithRightChecksumsAreRefusedOrLieInside) {
  const TempFolder folder;
  size_t accepted = 0;
  for (const uint64_t vocab_size : {uint64_t{300}, uint64_t{70000}}) {
    const std::string bytes = '\3' + bytes_of(write_small(folder, vocab_size));
    Random random(17);
    for (int i = 0; i < 5'000; ++i) {
      std::string file = bytes;
      for (uint32_t edits = 1 + random.below(3); edits-- > 0;)
        file[1 + random.below(uint32_t(file.size() - 1))] =
            char(random.below(2) ? random.below(8) : random.next());
      accepted += LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(file.data()), file.size()) == 0;
    }
  }
  EXPECT_GT(accepted, 500u);
  EXPECT_LT(accepted, 9'000u);
}

TEST(Shard, TokenizersDifferByTheirFingerprint) {
  const std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n";
  const Fingerprint print = fingerprint_of(Tokenizer::from_vocab_text(vocab));
  EXPECT_EQ(print, fingerprint_of(Tokenizer::from_vocab_text(vocab)));
  EXPECT_NE(print, fingerprint_of(Tokenizer::from_vocab_text(vocab, {.lowercase = false})));
  EXPECT_NE(print, fingerprint_of(Tokenizer::from_vocab_text(vocab + "c\n")));
  EXPECT_NE(print, fingerprint_of(Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nb\na\n")));
}

}  // namespace
}  // namespace bertie
