// Files that nobody vouches for: each is refused with an Error that says what was found, or loads and works.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>

#include "../../fuzz/tokenizer_fuzz.cc"
#define LLVMFuzzerTestOneInput tokenizer_json_fuzz
#include "../../fuzz/tokenizer_json_fuzz.cc"
#undef LLVMFuzzerTestOneInput
#include "bertie/error.h"
#include "bertie/tokenizer.h"
#include "support/expect_error.h"
#include "text/generated_text.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::expect_error;

void bad_vocab(const std::string& text, const std::string& part) {
  expect_error(part, [&] { Tokenizer::from_vocab_text(text); });
}

const std::string kHead = "[UNK]\n[CLS]\n[SEP]\n";

TEST(HostileVocab, MissingSpecialTokensAreNamed) {
  bad_vocab("", "\"[UNK]\" is missing");
  bad_vocab("[CLS]\n[SEP]\n", "\"[UNK]\" is missing");
  bad_vocab("[UNK]\n[SEP]\n", "\"[CLS]\" is missing");
  bad_vocab("[UNK]\n[CLS]\n", "\"[SEP]\" is missing");
}

TEST(HostileVocab, RepeatedTokensAreNamedWithBothIds) {
  bad_vocab(kHead + "a\nb\na\n", "\"a\" is there twice, as id 3 and 5");
  bad_vocab(kHead + "##a\n##a\n", "\"##a\" is there twice");
  std::string twenty(20, 'x');
  bad_vocab(kHead + twenty + "\n" + twenty + "\n", "is there twice");
}

TEST(HostileVocab, OverlongTokensAndOtherFilesAreRefused) {
  bad_vocab(kHead + std::string(5000, 'x') + "\n", "5000 bytes");
  bad_vocab(kHead + "\xFF\xFE\n", "not UTF-8");
  bad_vocab(std::string("\x80\x04\x95", 3), "not UTF-8");
  bad_vocab(kHead + "\xED\xA0\x80\n", "not UTF-8");
}

TEST(HostileVocab, TooManyTokensAreRefused) {
  std::string text = kHead;
  for (uint32_t i = 0; i < (1u << 22); ++i) text += std::to_string(i) += '\n';
  bad_vocab(text, "the largest allowed");
}

TEST(HostileVocab, OddLinesLoad) {
  std::string odd = kHead + "\n\n##\n \n" + std::string("a\0b", 3) + "\n" + std::string(4096, 'y') + "\n" +
                    std::string(17, 'z');
  Tokenizer t = Tokenizer::from_vocab_text(odd);
  EXPECT_EQ(t.encode(std::string(17, 'z'), {.add_special_tokens = false}).ids, std::vector<int32_t>{9});
  EXPECT_EQ(t.encode("## # a").size(), 6u);
}

json good() {
  return json::parse(R"({
    "version": "1.0", "truncation": {"max_length": 3}, "padding": {"strategy": {"Fixed": 9}},
    "added_tokens": [{"id": 2, "content": "[SEP]", "special": true, "normalized": false}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
      "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}}})");
}

json good_bpe() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": true},
                     {"id": 7, "content": "<mask>", "special": true, "normalized": false, "lstrip": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
      {"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]},
    "post_processor": {"type": "RobertaProcessing", "sep": ["<s>", 0], "cls": ["<s>", 0], "trim_offsets": true, "add_prefix_space": true},
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Replace", "pattern": {"String": "b"}, "content": "c"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<s>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "\u0120": 4, "\u0120ab": 5, "<0x63>": 6},
      "merges": ["a b", "\u0120 ab"]}})");
}

// The good file with one value changed; `value` is discarded to remove the key.
void bad_json(const std::string& pointer, const json& value, const std::string& part, json file = good()) {
  file[json::json_pointer(pointer)] = value;
  expect_error(part, [&] { Tokenizer::from_json_text(file.dump()); });
}

TEST(HostileTokenizerJson, TheGoodFileLoadsAndItsTruncationAndPaddingAreNotObeyed) {
  Tokenizer t = Tokenizer::from_json_text(good().dump());
  EXPECT_EQ(t.encode("ab a a a a").ids, (std::vector<int32_t>{1, 3, 4, 3, 3, 3, 3, 2}));
  EXPECT_EQ(t.cls_id(), 1);
}

TEST(HostileTokenizerJson, FilesOf2020WithoutAModelTypeLoad) {
  json file = good();
  file["model"].erase("type");
  EXPECT_EQ(Tokenizer::from_json_text(file.dump()).encode("a").ids, (std::vector<int32_t>{1, 3, 2}));
}

TEST(HostileTokenizerJson, AnotherKindOfTokenizerIsNamedWithItsKey) {
  bad_json("/model/type", "WordLevel", "found \"WordLevel\"");
  bad_json("/model/type", nullptr, "model.type");
  bad_json("/model/vocab", json::array({"a"}), "expected [token, score], found \"a\"");
  bad_json("/model", nullptr, "model.type: expected");
  bad_json("/model/continuing_subword_prefix", "", "model.continuing_subword_prefix");
  bad_json("/model/max_input_chars_per_word", 1e9, "max_input_chars_per_word");
  bad_json("/model/max_input_chars_per_word", -1, "max_input_chars_per_word");
  bad_json("/model/unk_token", "<unk>", "\"<unk>\" is missing");
  bad_json("/normalizer/type", "Odd", "normalizer.type: expected");
  bad_json("/normalizer/lowercase", "yes", "lowercase");
  bad_json("/normalizer", 5, "normalizer: expected an object, found 5");
  bad_json("/pre_tokenizer/type", "Odd", "pre_tokenizer.type: expected");
  bad_json("/post_processor/type", "Odd", "post_processor.type");
  bad_json("/decoder/type", "Odd", "decoder.type");
}

void bad_bpe(const std::string& pointer, const json& value, const std::string& part) {
  bad_json(pointer, value, part, good_bpe());
}

TEST(HostileBpe, TheGoodFileLoads) {
  Tokenizer t = Tokenizer::from_json_text(good_bpe().dump());
  EXPECT_EQ(t.encode("ab <mask>c", {.add_special_tokens = false}).ids, (std::vector<int32_t>{5, 7, 4, 6}));
  EXPECT_EQ(t.bos_id(), -1);
}

TEST(HostileBpe, MergesMustBePairsOfKnownTokens) {
  bad_bpe("/model/merges/0", "ab", "merge 0: expected two tokens");
  bad_bpe("/model/merges/0", "a b c", "merge 0: expected two tokens");
  bad_bpe("/model/merges/0", json::array({"a", "b", "c"}), "expected [left, right]");
  bad_bpe("/model/merges/0", json::array({"a"}), "expected [left, right]");
  bad_bpe("/model/merges/0", 5, "expected two tokens, found 5");
  bad_bpe("/model/merges/0", json::array({"a", 5}), "found 5");
  bad_bpe("/model/merges/0", "a x", "needs the token \"x\"");
  bad_bpe("/model/merges/0", "b a", "needs the token \"ba\"");
  bad_bpe("/model/merges/0", "a " + std::string(5000, 'b'), "longer than");
  bad_bpe("/model/continuing_subword_prefix", "##", "shorter than continuing_subword_prefix");
}

TEST(HostileBpe, OfAMergeThatIsThereTwiceTheLaterPlaceCounts) {
  json file = good_bpe();
  file["model"]["merges"] = {json::array({"a", "b"}), "\u0120 ab", "a b"};
  Tokenizer t = Tokenizer::from_json_text(file.dump());
  EXPECT_EQ(t.encode("ab", {.add_special_tokens = false}).ids, (std::vector<int32_t>{5}));
}

TEST(HostileBpe, UnknownPartsAreNamedWithTheirKeys) {
  bad_bpe("/model/dropout", 0.1, "model.dropout: expected null, found 0.1");
  bad_bpe("/model/unk_token", "<unk>", "unk_token: the token \"<unk>\" is missing");
  bad_bpe("/model/vocab", json::array({json::array({"a", -1.5})}), "stands for both");
  bad_bpe("/normalizer", {{"type", "Odd"}}, "normalizer.type");
  bad_bpe("/pre_tokenizer/pretokenizers/0/type", "Odd", "pre_tokenizer.pretokenizers[0].type");
  bad_bpe("/pre_tokenizer/pretokenizers/1/pattern", {{"Regex", ".*"}}, "pretokenizers[1].pattern");
  bad_bpe("/pre_tokenizer/pretokenizers/1/behavior", "Odd", "pretokenizers[1].behavior");
  bad_bpe("/pre_tokenizer/pretokenizers", 5, "pre_tokenizer.pretokenizers: expected a short array");
  bad_bpe("/post_processor/sep", json::array({"<s>", 99}), "99 is not the id of a token");
  bad_bpe("/decoder/decoders/1/pattern", {{"Regex", "x"}}, "decoder.decoders[1].pattern");
  bad_bpe("/decoder/decoders/1/type", "Odd", "decoder.decoders[1].type");
}

TEST(HostileTokenizerJson, TemplatesMustNameTheTextsAndKnownTokens) {
  bad_json("/post_processor/single", json::array(), "A once");
  bad_json("/post_processor/pair/1/Sequence/id", "A", "A and B once each");
  bad_json("/post_processor/pair/1/Sequence/id", "C", "not supported");
  bad_json("/post_processor/single/0", "[CLS]", "post_processor.single");
  bad_json("/post_processor/single/0/SpecialToken/id", "[X]", "\"[X]\" is missing");
  bad_json("/post_processor/special_tokens/[CLS]/ids/0", 99, "99 is not the id of a token");
  bad_json("/post_processor/special_tokens/[CLS]/ids/0", -1, "is not the id of a token");
}

TEST(HostileTokenizerJson, IdsMustBeWholeUniqueAndNotFarApart) {
  bad_json("/model/vocab/a", 2, "id 2 stands for both");
  bad_json("/model/vocab/a", -3, "not a whole number");
  bad_json("/model/vocab/a", 1.5, "not a whole number");
  bad_json("/model/vocab/a", "3", "not a whole number");
  bad_json("/model/vocab/a", json::array(), "not a whole number");
  bad_json("/model/vocab/a", json::object(), "not a whole number");
  bad_json("/model/vocab/a", 4'000'000, "id 4000000");
  bad_json("/model/vocab/a", 18446744073709551615u, "id 18446744073709551615");
  bad_json("/added_tokens/0/id", 1, "has id 2 in model.vocab, and 1 here");
  bad_json("/added_tokens/0/content", "", "empty");
  bad_json("/added_tokens/0/content", "new", "id 2 stands for both");
  bad_json("/added_tokens/0", "x", "expected an object");
  bad_json("/added_tokens", 1, "expected an array");
  json file = good();
  file["added_tokens"].push_back(file["added_tokens"][0]);
  expect_error("is there twice", [&] { Tokenizer::from_json_text(file.dump()); });
  file = good();
  file["added_tokens"][0] = {{"id", 5}, {"content", "\u0301"}, {"normalized", true}};
  expect_error("nothing is left", [&] { Tokenizer::from_json_text(file.dump()); });
}

TEST(HostileTokenizerJson, BrokenTextIsRefused) {
  std::string text = good().dump();
  for (size_t n = 0; n < text.size(); n += 7)
    EXPECT_THROW(Tokenizer::from_json_text(text.substr(0, n)), Error) << n;
  expect_error("expected an object, found an array", [] { Tokenizer::from_json_text("[]"); });
  expect_error("expected an object", [] { Tokenizer::from_json_text("7"); });
  EXPECT_THROW(Tokenizer::from_json_text(std::string(100'000, '[')), Error);
  EXPECT_THROW(Tokenizer::from_json_text("{\"a\":" + text + ",\"a\":1}"), Error);
  std::string twice = text;
  twice.insert(twice.find("\"a\":3"), "\"a\":5,");
  expect_error("\"a\" is there twice", [&] { Tokenizer::from_json_text(twice); });
}

// The fuzzers' own checks, on damaged files and texts: whether they were accepted.
enum class Kind : uint8_t { kVocab, kText, kJson };
bool fuzz(Kind kind, const std::string& text) {
  const std::string input = kind == Kind::kJson ? text : char(kind) + text;
  const auto* data = reinterpret_cast<const uint8_t*>(input.data());
  return (kind == Kind::kJson ? tokenizer_json_fuzz : LLVMFuzzerTestOneInput)(data, input.size()) == 0;
}

TEST(HostileFuzz, DamagedFilesAreRefusedOrWork) {
  const std::string json_files[] = {good().dump(), good_bpe().dump()},
                    vocab = kHead + "a\n##b\n\u00e9\n##\u00e9\n[MASK]\n";
  size_t accepted[3] = {};
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    test::SplitMix r(seed);
    const Kind kind{uint8_t(r.below(3))};
    std::string text = kind == Kind::kVocab  ? vocab
                       : kind == Kind::kJson ? json_files[seed % 2]
                                             : test::generated_text(seed);
    for (uint32_t i = 1 + r.below(4); i > 0; --i) {
      size_t at = r.below(uint32_t(text.size()));
      if (r.below(4) == 0)
        text.erase(at, 1 + r.below(8));
      else
        text[at] = "\"{}[],:0x\xFF\\-\n\xE4"[r.below(14)];
      if (text.empty()) text.push_back('a');
    }
    accepted[size_t(kind)] += fuzz(kind, text);
  }
  EXPECT_GT(accepted[size_t(Kind::kVocab)], 100u);
  EXPECT_GT(accepted[size_t(Kind::kText)], 6'000u);
  EXPECT_GT(accepted[size_t(Kind::kJson)], 100u);
}

RC_GTEST_PROP(HostileFuzz, AnyBytesAreRefusedOrWork, (uint8_t kind, const std::string& bytes)) {
  fuzz(Kind{uint8_t(kind % 3)}, bytes);
  fuzz(Kind::kVocab, kHead + bytes);
}

}  // namespace
}  // namespace bertie
