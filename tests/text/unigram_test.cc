// Unigram and SentencePiece models: what the reference said (tests/golden/tokenizer/unigram.json, made by
// tools/make_unigram_golden.py), the parts alone, and files that nobody vouches for.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#define LLVMFuzzerTestOneInput sentence_piece_fuzz
#include "../../fuzz/sentence_piece_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#include "support/data.h"
#include "support/expect_error.h"
#include "text/generated_text.h"
#include "text/models/piece_trie.h"
#include "text/steps/charsmap.h"
#include "text/unicode/forms.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::expect_error;

std::filesystem::path golden(const std::string& file) {
  return test::source_dir() / "tests/golden/tokenizer" / file;
}
std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
const json& answers() {
  static const json all = json::parse(read(golden("unigram.json")));
  return all;
}
const std::map<std::string, std::string> kModels = {{"albert", "spiece.model"},
                                                    {"xlm-roberta", "sentencepiece.bpe.model"}};

void expect_same(const Encoding& e, const json& want) {
  EXPECT_EQ(e.ids, want.at("ids").get<std::vector<int32_t>>());
  std::vector<uint32_t> offsets;
  for (Offset o : e.offsets) offsets.push_back(o.begin), offsets.push_back(o.end);
  EXPECT_EQ(offsets, want.at("offsets").get<std::vector<uint32_t>>());
  if (!want.contains("types")) return;
  EXPECT_EQ(e.types, want["types"].get<std::vector<int32_t>>());
  EXPECT_EQ(e.words, want["words"].get<std::vector<int32_t>>());
}

void expect_case(const Tokenizer& tokenizer, const json& want) {
  const std::string text = want.at("text");
  SCOPED_TRACE(text);
  Encoding e = want.contains("pair") ? tokenizer.encode(text, want["pair"].get<std::string>())
                                     : tokenizer.encode(text);
  expect_same(e, want);
  EXPECT_EQ(tokenizer.decode(e.ids), want.at("decoded").get<std::string>());
  EXPECT_EQ(tokenizer.decode(e.ids, false), want.at("decoded_all").get<std::string>());
}

TEST(UnigramGolden, EveryChainOfSteps) {
  ASSERT_GE(answers().at("chains").size(), 20u);
  for (const json& chain : answers().at("chains")) {
    SCOPED_TRACE(chain.at("tokenizer").at("normalizer").dump().substr(0, 300));
    Tokenizer tokenizer = Tokenizer::from_json_text(chain.at("tokenizer").dump());
    for (const json& want : chain.at("cases")) expect_case(tokenizer, want);
  }
}

TEST(UnigramGolden, SentencePieceFilesAsAutoTokenizerReadsThem) {
  for (auto& [name, file] : kModels) {
    SCOPED_TRACE(name);
    const json& model = answers().at("models").at(name);
    Tokenizer tokenizer = Tokenizer::load(golden(name));
    for (const json& want : model.at("cases")) expect_case(tokenizer, want);
    for (const json& call : model.at("windows")) {
      auto windows = tokenizer.encode_windows(
          call.at("a").get<std::string>(), call.at("b").get<std::string>(),
          {.max_length = call.at("max"), .stride = call.at("stride"), .truncate = Truncate::kOnlySecond});
      ASSERT_EQ(windows.size(), call.at("windows").size());
      for (size_t i = 0; i < windows.size(); ++i) expect_same(windows[i], call["windows"][i]);
    }
  }
}

TEST(UnigramGolden, GeneratedTexts) {
  constexpr uint64_t kBlock = 500;
  for (auto& [name, file] : kModels) {
    Tokenizer tokenizer = Tokenizer::load(golden(name) / file);
    const json& digests = answers().at("models").at(name).at("digests");
    ASSERT_FALSE(digests.empty());
    Encoding e;
    for (size_t block = 0; block < digests.size(); ++block) {
      test::Digest digest;
      for (uint64_t i = 0; i < kBlock; ++i)
        tokenizer.encode_into(test::generated_text(block * kBlock + i), {}, e), digest.add(e);
      EXPECT_EQ(digest.value(), std::stoull(digests[block].get<std::string>(), nullptr, 16))
          << name << " block " << block;
    }
  }
}

TEST(SentencePiece, SpecialIdsAreTheFamilys) {
  Tokenizer albert = Tokenizer::load(golden("albert"));
  EXPECT_EQ(albert.pad_id(), 0);
  EXPECT_EQ(albert.unk_id(), 1);
  EXPECT_EQ(albert.cls_id(), 2);
  EXPECT_EQ(albert.sep_id(), 3);
  EXPECT_EQ(albert.mask_id(), 4);
  Tokenizer xlm = Tokenizer::load(golden("xlm-roberta"));
  EXPECT_EQ(xlm.cls_id(), 0);
  EXPECT_EQ(xlm.pad_id(), 1);
  EXPECT_EQ(xlm.sep_id(), 2);
  EXPECT_EQ(xlm.unk_id(), 3);
  EXPECT_EQ(size_t(xlm.mask_id()), xlm.vocab_size() - 1);
}

TEST(HostileSentencePiece, WhatIsNoModelIsRefused) {
  auto load = [](std::string_view bytes, const char* family = "albert") {
    return [bytes, family] { Tokenizer::from_sentence_piece(bytes, family); };
  };
  const std::string model = read(golden("albert/spiece.model"));
  expect_error("holds no pieces", load(""));
  expect_error("not a SentencePiece model", load("version https://git-lfs.github.com/spec/v1"));
  expect_error("leads out of the file", load(std::string_view(model).substr(0, model.size() / 2)));
  expect_error("does not end", load(std::string(11, '\xFF')));
  expect_error("not UTF-8", load(std::string_view("\x0A\x03\x0A\x01\xFF", 5)));
  expect_error("unk_id is 1", load(std::string_view("\x0A\x03\x0A\x01"
                                                    "a",
                                                    5)));
  expect_error("a number of another size", load(std::string_view("\x0A\x05\x0A\x01"
                                                                 "a\x10\x01",
                                                                 7)));
  expect_error("\"t5\" is not supported", load(model, "t5"));
}

TEST(HostileSentencePiece, ScoresAreFinite) {
  std::string model = read(golden("albert/spiece.model"));
  // The second field of the first piece: key 0x15, then a float.
  const size_t at = model.find('\x15');
  ASSERT_LT(at, 20u);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(model.data() + at + 1, &nan, 4);
  expect_error("not a log probability", [&] { Tokenizer::from_sentence_piece(model, "albert"); });
}

RC_GTEST_PROP(HostileSentencePiece, MutationsGiveErrorsOrWork, ()) {
  static const std::string albert = read(golden("albert/spiece.model"));
  static const std::string xlm = read(golden("xlm-roberta/sentencepiece.bpe.model"));
  const int family = *rc::gen::inRange(0, 3);
  std::string bytes = std::string(1, char(family)) + (family == 0 ? albert : xlm);
  for (int i = *rc::gen::inRange(1, 12); i > 0; --i) {
    // Half of them near the end, where the trainer's settings and the map are.
    const size_t n = bytes.size();
    const size_t at = *rc::gen::inRange<size_t>(*rc::gen::arbitrary<bool>() ? 1 : n - n / 8, n);
    bytes[at] = char(*rc::gen::inRange(0, 256));
  }
  if (*rc::gen::inRange(0, 4) == 0) bytes.resize(*rc::gen::inRange<size_t>(1, bytes.size()));
  sentence_piece_fuzz(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

TEST(Charsmap, SizesAreChecked) {
  using text::Charsmap;
  auto map = [](std::string_view bytes) { return [bytes] { Charsmap(bytes, "map"); }; };
  expect_error("a trie of 0 bytes", map(""));
  expect_error("a trie of 4 bytes", map(std::string_view("\x04\0\0\0\0\0\0", 7)));
  expect_error("a trie of 3 bytes", map(std::string_view("\x03\0\0\0\0\0\0\0", 8)));
  expect_error("cannot be in 8 bytes", map(std::string_view("\xFF\xFF\xFF\xFF\0\0\0\0", 8)));
  expect_error("not UTF-8", map(std::string_view("\x04\0\0\0\0\0\0\0\xFF", 9)));
  expect_error("no multiple of four", [] { text::decode_base64("abc", "map"); });
  expect_error("not Base64", [] { text::decode_base64("ab=c", "map"); });
  EXPECT_EQ(text::decode_base64("Zm9vYg==", "map"), "foob");
  EXPECT_EQ(text::decode_base64("Zm9vYmE=", "map"), "fooba");
}

RC_GTEST_PROP(Charsmap, AnyUnitsAreSafeToAsk, (std::vector<uint32_t> units, std::string text)) {
  units.push_back(0);
  std::string bytes(4 + 4 * units.size(), '\0');
  const uint32_t size = uint32_t(4 * units.size());
  std::memcpy(bytes.data(), &size, 4);
  std::memcpy(bytes.data() + 4, units.data(), size);
  bytes += std::string("a\0\xC3\xA9\0", 5);
  const text::Charsmap map(bytes, "map");
  if (auto found = map.find(text)) RC_ASSERT(found->size() <= 2u);
}

RC_GTEST_PROP(PieceTrie, FindsWhatWasPutInAndNothingElse,
              (const std::vector<std::string>& words, const std::vector<std::string>& others)) {
  std::map<std::string, int32_t> expected;
  std::vector<text::ScoredPiece> pieces;
  for (size_t i = 0; i < words.size(); ++i) {
    pieces.push_back({words[i], -double(i), int32_t(i)});
    if (!words[i].empty()) expected[words[i]] = int32_t(i);
  }
  const text::PieceTrie trie(pieces);
  for (auto& [word, id] : expected) RC_ASSERT(trie.find(word) == id);
  for (const std::string& other : others) RC_ASSERT((trie.find(other) >= 0) == (expected.count(other) > 0));
}

TEST(UnicodeForms, SmallClustersEndWhereTheReferenceEndsThem) {
  EXPECT_EQ(text::cluster_length("ab"), 1u);
  EXPECT_EQ(text::cluster_length("\r\n\n"), 2u);
  EXPECT_EQ(text::cluster_length("e\u0301\u0301x"), 5u);
  EXPECT_EQ(text::cluster_length("\u0600ax"), 3u);
  EXPECT_EQ(text::cluster_length("\u00A9\u200Dx"), 5u);
  EXPECT_GE(text::cluster_length("\u00A9\u200D\u00AE"), text::kSmallCluster);
  EXPECT_GE(text::cluster_length("\u1100\u1161\u11A8"), text::kSmallCluster);
}

TEST(UnicodeForms, CompositionUndoesDecomposition) {
  size_t composed = 0;
  for (uint32_t c = 0xC0; c < 0x30000; ++c) {
    uint32_t parts[text::kMaxParts];
    const size_t count = text::decompose_into(c, false, parts);
    if (count != 2) continue;
    const uint32_t again = text::compose(parts[0], parts[1]);
    if (again == 0) continue;               // excluded from composition
    uint32_t parts_again[text::kMaxParts];  // of c, or of the one that c is only another name of
    ASSERT_EQ(text::decompose_into(again, false, parts_again), 2u);
    EXPECT_TRUE(std::equal(parts, parts + 2, parts_again)) << std::hex << c;
    composed += again == c;
  }
  EXPECT_GT(composed, 600u);
}

}  // namespace
}  // namespace bertie
