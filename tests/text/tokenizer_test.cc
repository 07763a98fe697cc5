// The tokenizer's behavior in small: what a reader of the header would want to know.
#include "bertie/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bertie/error.h"
#include "support/data.h"
#include "text/steps/byte_level.h"
#include "text/unicode/unicode.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
using Offsets = std::vector<Offset>;

constexpr const char* kVocab =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nyou\nfound\nme\n.\nun\n##aff\n##able\ne\n##e\ncafe\n中\n文\n["
    "\nmask\n]\n,\na\n##b\n";
enum : int32_t {
  kPad,
  kUnk,
  kCls,
  kSep,
  kMask,
  kYou,
  kFound,
  kMe,
  kDot,
  kUn,
  kAff,
  kAble,
  kE,
  kEe,
  kCafe,
  kZhong,
  kWen,
  kOpen,
  kMaskWord,
  kClose,
  kComma,
  kA,
  kB
};

const Tokenizer& uncased() {
  static const Tokenizer tokenizer = Tokenizer::from_vocab_text(kVocab);
  return tokenizer;
}

TEST(Tokenizer, WordsBecomeIdsBetweenClsAndSep) {
  Encoding e = uncased().encode("You found me.");
  EXPECT_EQ(e.ids, (Ids{kCls, kYou, kFound, kMe, kDot, kSep}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 0}, {0, 3}, {4, 9}, {10, 12}, {12, 13}, {0, 0}}));
  EXPECT_EQ(e.types, Ids(6, 0));
  EXPECT_EQ(e.words, (Ids{-1, 0, 1, 2, 3, -1}));
  EXPECT_TRUE(e.special(0) && e.special(5));
  EXPECT_FALSE(e.special(1));
}

TEST(Tokenizer, LongestPieceFirstAndAllOrNothing) {
  EXPECT_EQ(uncased().encode("unaffable", {.add_special_tokens = false}).ids, (Ids{kUn, kAff, kAble}));
  Encoding e = uncased().encode("unaffablez me", {.add_special_tokens = false});
  EXPECT_EQ(e.ids, (Ids{kUnk, kMe}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 10}, {11, 13}}));
}

TEST(Tokenizer, OffsetsCountCodePointsOfTheOriginal) {
  Encoding e = uncased().encode("中文 Cafe\u0301, CAF\u00c9!", {.add_special_tokens = false});
  EXPECT_EQ(e.ids, (Ids{kZhong, kWen, kCafe, kComma, kCafe, kUnk}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 1}, {1, 2}, {3, 7}, {8, 9}, {10, 14}, {14, 15}}));
  EXPECT_EQ(text_at("中文 Cafe\u0301, CAF\u00c9!", e.offsets[4]), "CAF\u00c9");
}

TEST(Tokenizer, AWordOfOneHundredAndOneCodePointsIsUnknown) {
  const Tokenizer t =
      Tokenizer::from_vocab_text("[UNK]\n[CLS]\n[SEP]\na\n##a\n\u00e9\n##\u00e9\n", {.lowercase = false});
  EncodeOptions bare{.add_special_tokens = false};
  for (std::string letter : {"a", "\u00e9"}) {
    std::string word;
    for (int i = 0; i < 100; ++i) word += letter;
    EXPECT_EQ(t.encode(word, bare).size(), 100u);
    Encoding e = t.encode(word + letter, bare);
    EXPECT_EQ(e.ids, Ids{0});
    EXPECT_EQ(e.offsets, (Offsets{{0, 101}}));
    for (int i = 0; i < 2000; ++i) word += letter;
    EXPECT_EQ(t.encode(word, bare).offsets, (Offsets{{0, 2100}}));
  }
}

TEST(Tokenizer, SpecialTokensInTheTextCountUnlessSwitchedOff) {
  EncodeOptions bare{.add_special_tokens = false};
  EXPECT_EQ(uncased().encode("You [MASK].", bare).ids, (Ids{kYou, kMask, kDot}));
  EXPECT_EQ(uncased().encode("You [mask].", bare).ids, (Ids{kYou, kOpen, kMaskWord, kClose, kDot}));
  bare.special_tokens_in_text = false;
  Encoding e = uncased().encode("You [MASK].", bare);
  EXPECT_EQ(e.ids, (Ids{kYou, kOpen, kMaskWord, kClose, kDot}));
  EXPECT_FALSE(e.special(1));
}

TEST(Tokenizer, PairsHaveTwoTypesAndTheLastSepIsOfTheSecond) {
  Encoding e = uncased().encode("You", "found me");
  EXPECT_EQ(e.ids, (Ids{kCls, kYou, kSep, kFound, kMe, kSep}));
  EXPECT_EQ(e.types, (Ids{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(e.sequences, (std::vector<int8_t>{-1, 0, -1, 1, 1, -1}));
  EXPECT_EQ(e.offsets[3], (Offset{0, 5}));
}

TEST(Tokenizer, ThePairsLongerTextGivesWayFirst) {
  EXPECT_EQ(uncased().encode("me me me me", "you", {.max_length = 6}).ids,
            (Ids{kCls, kMe, kMe, kSep, kYou, kSep}));
  EXPECT_EQ(uncased().encode("me me me me", "you you you", {.max_length = 6}).ids,
            (Ids{kCls, kMe, kMe, kSep, kYou, kSep}));
  EXPECT_EQ(uncased().encode("me me me", "you you you you", {.max_length = 6}).ids,
            (Ids{kCls, kMe, kSep, kYou, kYou, kSep}));
}

TEST(Tokenizer, WindowsShareTheirStrideAndCoverTheText) {
  auto w = uncased().encode_windows("you found me .", {.max_length = 5, .stride = 1});
  ASSERT_EQ(w.size(), 2u);
  EXPECT_EQ(w[0].ids, (Ids{kCls, kYou, kFound, kMe, kSep}));
  EXPECT_EQ(w[1].ids, (Ids{kCls, kMe, kDot, kSep}));
  EXPECT_EQ(w[1].offsets[1], (Offset{10, 12}));
}

TEST(Tokenizer, WhatCannotFitIsAnError) {
  EXPECT_THROW(uncased().encode("me", {.max_length = 1}), Error);
  EXPECT_THROW(uncased().encode_windows("me me me me", {.max_length = 4, .stride = 2}), Error);
  EXPECT_THROW(uncased().encode("me me", {.max_length = 3, .truncate = Truncate::kOnlySecond}), Error);
  EXPECT_THROW(uncased().encode("me me me", "me", {.max_length = 5, .truncate = Truncate::kOnlySecond}),
               Error);
  EXPECT_EQ(uncased().encode("me", {.max_length = 2}).ids, (Ids{kCls, kSep}));
}

TEST(Tokenizer, BadBytesAreReplacedAndCountedAsPythonDoes) {
  // One U+FFFD each: a stray continuation; E4 B8 cut short; F0 9F cut short by 'a'; FF. All are then dropped.
  std::string text = std::string("me\x80 ") + "\xE4\xB8" + " me\xF0\x9F" + "a \xFF.";
  Encoding e = uncased().encode(text, {.add_special_tokens = false});
  EXPECT_EQ(e.ids, (Ids{kMe, kUnk, kDot}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 2}, {6, 10}, {12, 13}}));
  EXPECT_EQ(text_at(text, e.offsets[1]),
            "me\xF0\x9F"
            "a");
}

TEST(Tokenizer, CasedKeepsCaseAndAccents) {
  const Tokenizer t =
      Tokenizer::from_vocab_text("[UNK]\n[CLS]\n[SEP]\nCaf\u00e9\ncafe\n", {.lowercase = false});
  EXPECT_EQ(t.encode("Caf\u00e9 cafe CAFE", {.add_special_tokens = false}).ids, (Ids{3, 4, 0}));
}

TEST(Tokenizer, MarksThatStayChangePlacesAsInTheReference) {
  // U+1D165 is kept and of a lower class than U+0301, so it moves before it, and takes its place's offset.
  const Tokenizer t = Tokenizer::from_vocab_text("[UNK]\n[CLS]\n[SEP]\na\nb\n\U0001D165\n");
  Encoding e = t.encode("b \u0301\U0001D165 a", {.add_special_tokens = false});
  EXPECT_EQ(e.ids, (Ids{4, 5, 3}));
  EXPECT_EQ(e.offsets, (Offsets{{0, 1}, {2, 3}, {5, 6}}));
}

TEST(Tokenizer, TokensAndIdsAnswerEachOther) {
  const Tokenizer& t = uncased();
  EXPECT_EQ(t.vocab_size(), 23u);
  for (int32_t id = 0; id < 23; ++id) EXPECT_EQ(t.id(t.token(id)), id);
  EXPECT_EQ(t.id("nothing"), std::nullopt);
  EXPECT_EQ(t.token(23), "");
  EXPECT_EQ(t.token(-1), "");
  EXPECT_EQ((Ids{t.pad_id(), t.unk_id(), t.cls_id(), t.sep_id(), t.mask_id()}), (Ids{0, 1, 2, 3, 4}));
  EXPECT_TRUE(t.is_special(kMask));
  EXPECT_FALSE(t.is_special(kMe));
  EXPECT_FALSE(t.is_special(1000));
}

TEST(Tokenizer, DecodeJoinsPiecesAndTakesOutSpaces) {
  EXPECT_EQ(uncased().decode(uncased().encode("You found unaffable me.").ids), "you found unaffable me.");
  EXPECT_EQ(uncased().decode(Ids{kCls, kMe, kSep}, false), "[CLS] me [SEP]");
  EXPECT_EQ(uncased().decode(Ids{}), "");
}

TEST(Tokenizer, ThreadsShareOneTokenizer) {
  const Encoding want = uncased().encode("You found un\u00e1ffable \u0301\U0001D165 me.");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] {
      Encoding e;
      for (int k = 0; k < 500; ++k) {
        uncased().encode_into("You found un\u00e1ffable \u0301\U0001D165 me.", {}, e);
        wrong[i] += e.ids != want.ids || e.offsets != want.offsets;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

class TokenizerFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("tokenizer-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  fs::path folder_;
};

TEST_F(TokenizerFolder, TheConfigBesideVocabTxtIsObeyed) {
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nCaf\u00e9\ncaf\u00e9\ncafe\n\u4e2d\u6587\n");
  auto ids = [&](const std::string& config) {
    write("tokenizer_config.json", config);
    return Tokenizer::load(folder_).encode("Caf\u00e9 \u4e2d\u6587", {.add_special_tokens = false}).ids;
  };
  EXPECT_EQ(ids("{}"), (Ids{5, 0, 0}));
  EXPECT_EQ(ids(R"({"do_lower_case": false})"), (Ids{3, 0, 0}));
  EXPECT_EQ(ids(R"({"do_lower_case": true, "strip_accents": false})"), (Ids{4, 0, 0}));
  EXPECT_EQ(ids(R"({"strip_accents": null, "tokenize_chinese_chars": false})"), (Ids{5, 6}));
  write("tokenizer_config.json", R"({"model_max_length": 512})");
  EXPECT_EQ(Tokenizer::load(folder_).model_max_length(), 512u);
  write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(Tokenizer::load(folder_ / "vocab.txt").model_max_length(), kNoLimit);
}

// As transformers 5 does: what the config says replaces what tokenizer.json says.
TEST_F(TokenizerFolder, TheConfigBesideTokenizerJsonIsObeyed) {
  write("tokenizer.json", R"({
    "normalizer": {"type": "BertNormalizer", "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "Caf\u00e9": 1, "caf\u00e9": 2, "cafe": 3}}})");
  auto id = [&](const std::string& config) {
    write("tokenizer_config.json", config);
    return Tokenizer::load(folder_).encode("Caf\u00e9").ids.at(0);
  };
  EXPECT_EQ(id("{}"), 3);
  EXPECT_EQ(id(R"({"do_lower_case": false})"), 1);
  EXPECT_EQ(id(R"({"do_lower_case": true, "strip_accents": false})"), 2);
  EXPECT_EQ(id(R"({"do_lower_case": false, "tokenizer_class": "PreTrainedTokenizerFast"})"), 3);
}

class BpeFolder : public TokenizerFolder {
 protected:
  // Every byte, "Ġ" + "a" merged, and RoBERTa's special tokens or GPT-2's.
  void write_files(bool roberta) {
    nlohmann::json vocab;
    if (roberta)
      for (const char* token : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) vocab[token] = vocab.size();
    else
      vocab["<|endoftext|>"] = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      char utf8[4];
      vocab[std::string(utf8, text::encode_utf8(text::byte_level_point(uint8_t(byte)), utf8))] = vocab.size();
    }
    vocab["\u0120a"] = vocab.size();
    write("vocab.json", vocab.dump());
    write("merges.txt", "#version: 0.2\n\u0120 a\n");
    size_ = int32_t(vocab.size());
  }
  int32_t size_ = 0;
};

TEST_F(BpeFolder, VocabJsonAndMergesTxtHaveTheFrameOfTheirFamily) {
  write_files(true);
  Tokenizer t = Tokenizer::load(folder_);
  EXPECT_EQ(t.encode(" a", " a").ids, (Ids{0, size_ - 1, 2, 2, size_ - 1, 2}));
  EXPECT_EQ(t.encode(" a", " a").types, (Ids{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(t.encode(" a").offsets[1], (Offset{1, 2}));
  EXPECT_EQ((Ids{t.cls_id(), t.pad_id(), t.sep_id(), t.unk_id(), t.mask_id(), t.bos_id(), t.eos_id()}),
            (Ids{0, 1, 2, 3, 4, 0, 2}));
  EXPECT_EQ(t.decode(t.encode(" a \u00e9").ids), " a \u00e9");
  write("config.json", R"({"model_type": "gpt2"})");
  EXPECT_EQ(Tokenizer::load(folder_ / "vocab.json").encode(" a").ids, (Ids{size_ - 1}));
  fs::remove(folder_ / "config.json");
  write_files(false);
  t = Tokenizer::load(folder_);
  EXPECT_EQ(t.encode(" a<|endoftext|>").ids, (Ids{size_ - 1, 0}));
  EXPECT_EQ(t.encode(" a").offsets[0], (Offset{0, 2}));
  EXPECT_EQ((Ids{t.cls_id(), t.bos_id(), t.eos_id()}), (Ids{-1, 0, 0}));
}

TEST_F(BpeFolder, TheConfigAndTheMapOfSpecialTokensAreObeyed) {
  write_files(true);
  write("tokenizer_config.json",
        R"({"add_prefix_space": true, "mask_token": "<m1>", "model_max_length": 512})");
  write("special_tokens_map.json", R"({"mask_token": {"content": "<m2>", "lstrip": true}})");
  Tokenizer t = Tokenizer::load(folder_);
  EXPECT_EQ(t.mask_id(), size_);
  EXPECT_EQ(t.encode("a <m2>").ids, (Ids{0, size_ - 1, size_, 2}));
  EXPECT_EQ(t.encode("a <m2>").offsets[1], (Offset{0, 1}));
  EXPECT_EQ(t.model_max_length(), 512u);
  fs::remove(folder_ / "merges.txt");
  EXPECT_THROW(Tokenizer::load(folder_), Error);
}

TEST_F(TokenizerFolder, SpecialTokensMayHaveOtherNames) {
  write("vocab.txt", "<unk>\n<s>\n</s>\nme\n");
  write("tokenizer_config.json",
        R"({"unk_token": "<unk>", "cls_token": {"content": "<s>"}, "sep_token": "</s>"})");
  Tokenizer t = Tokenizer::load(folder_);
  EXPECT_EQ(t.encode("me you").ids, (Ids{1, 3, 0, 2}));
  EXPECT_EQ(t.mask_id(), -1);
}

TEST_F(TokenizerFolder, LineEndsOfWindowsAreNoPartOfTokens) {
  write("vocab.txt", "[UNK]\r\n[CLS]\r\n[SEP]\r\nme\r\n\r\n");
  Tokenizer t = Tokenizer::load(folder_);
  EXPECT_EQ(t.encode("me").ids, (Ids{1, 3, 2}));
  EXPECT_EQ(t.vocab_size(), 5u);  // an empty line has an id, and nothing matches it
}

TEST_F(TokenizerFolder, AFolderWithoutATokenizerSaysWhatIsMissing) {
  try {
    Tokenizer::load(folder_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("neither tokenizer.json nor"), std::string::npos);
    EXPECT_FALSE(e.hint().empty());
  }
  EXPECT_THROW(Tokenizer::load(folder_ / "nowhere.txt"), Error);
}

TEST(Tokenizer, TokenizerJsonAndVocabTxtOfOneModelAgree) {
  fs::path folder = test::data("models/all-MiniLM-L6-v2");
  BERTIE_NEEDS(folder / "tokenizer.json");
  BERTIE_NEEDS(folder / "vocab.txt");
  Tokenizer json = Tokenizer::load(folder), vocab = Tokenizer::load(folder / "vocab.txt");
  EXPECT_EQ(json.model_max_length(), 512u);
  EXPECT_EQ(json.vocab_size(), vocab.vocab_size());
  for (int32_t id = 0; id < int32_t(json.vocab_size()); ++id) ASSERT_EQ(json.token(id), vocab.token(id));
  const char* text = "The bank deposited the money near the river bank. [MASK] Ünïcödé 中文";
  EXPECT_EQ(json.encode(text, text).ids, vocab.encode(text, text).ids);
  EXPECT_EQ(json.mask_id(), vocab.mask_id());
}

}  // namespace
}  // namespace bertie
