// Learning a WordPiece vocabulary: by hand, and as Hugging Face's trainer does (tools/make_vocab_goldens.py).
#include "text/models/word_piece_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "bertie/tokenizer.h"
#include "generated_text.h"
#include "support/data.h"

namespace bertie::text {
namespace {

using Tokens = std::vector<std::string>;

WordCounts counts_of(std::string_view text, bool lowercase = true) {
  WordCounts counts;
  BertNormalized scratch;
  count_words(text, {.strip_accents = lowercase, .lowercase = lowercase}, scratch, counts);
  return counts;
}
uint64_t count(const WordCounts& counts, std::string_view word) {
  uint64_t found = 0;
  counts.for_each([&](std::string_view text, uint64_t n) { found += text == word ? n : 0; });
  return found;
}
std::string read_file(const std::string& name) {
  std::ifstream in(test::source_dir() / "tests/golden/vocab" / name, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
Tokens lines_of(const std::string& text) {
  Tokens lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(WordCounts, WordsAreThoseOfBertsTokenizer) {
  const WordCounts counts = counts_of("The cat, the Café; THE\tcat's 你好\x01x\n");
  EXPECT_EQ(count(counts, "the"), 3u);
  EXPECT_EQ(count(counts, "cat"), 2u);
  EXPECT_EQ(count(counts, "cafe"), 1u);
  EXPECT_EQ(count(counts, "'"), 1u);
  EXPECT_EQ(count(counts, "你"), 1u);
  EXPECT_EQ(count(counts, "x"), 1u);
  EXPECT_EQ(counts.size(), 10u);
  EXPECT_EQ(count(counts_of("Café CAFE", false), "Café"), 1u);
}

TEST(WordCounts, TheTokenizerFindsAsManyWordsInAnything) {
  const Tokenizer lower = Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  const Tokenizer cased =
      Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", {.lowercase = false});
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = test::generated_text(seed);
    for (const Tokenizer* tokenizer : {&lower, &cased}) {
      uint64_t words = 0;
      counts_of(text, tokenizer == &lower).for_each([&](std::string_view, uint64_t n) { words += n; });
      // Every word is one unknown token.
      const Encoding e =
          tokenizer->encode(text, {.add_special_tokens = false, .special_tokens_in_text = false});
      ASSERT_EQ(words, e.size()) << seed;
    }
  }
}

TEST(WordCounts, AddsUpAndForgetsTheRare) {
  WordCounts all = counts_of("a a a b b c"), more = counts_of("b c d");
  all.add(more);
  EXPECT_EQ(count(all, "b"), 3u);
  EXPECT_EQ(all.size(), 4u);
  all.drop_below(2);
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(count(all, "d"), 0u);
  EXPECT_EQ(count(all, "c"), 2u);
  all.clear();
  EXPECT_EQ(all.size(), 0u);
}

TEST(WordPieceTrainer, JoinsTheMostFrequentNeighborsFirst) {
  const WordCounts counts = counts_of(
      "hug hug hug hug hug hug hug hug hug hug pug pug pug pug pug "
      "pun pun pun pun pun pun pun pun pun pun pun pun bun bun bun bun hugs hugs hugs hugs hugs");
  // ##u ##g 20 times, ##u ##n 16, h ##ug 15, p ##un 12; p ##ug and hug ##s 5 each, p being the older; b
  // ##un 4.
  EXPECT_EQ(
      train_word_pieces(counts, {.vocab_size = 100, .min_frequency = 5}),
      (Tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b",    "g",    "h",   "n",   "p",   "s",
              "u",     "##u",   "##g",   "##n",   "##s",    "##ug", "##un", "hug", "pun", "pug", "hugs"}));
  EXPECT_EQ(train_word_pieces(counts, {.vocab_size = 18}).back(), "##un");
  EXPECT_EQ(train_word_pieces(counts, {.vocab_size = 100, .min_frequency = 4}).back(), "bun");
  EXPECT_EQ(train_word_pieces(counts, {.vocab_size = 1}).size(), 16u);  // the characters come all the same
}

TEST(WordPieceTrainer, OverlappingPairsAreCountedAsTheyAreJoined) {
  // a ##a ##a ##a ##a: ##a ##a stands there three times, and is joined twice.
  EXPECT_EQ(train_word_pieces(counts_of("aaaaa aaaaa"), {.vocab_size = 100, .special_tokens = {}}),
            (Tokens{"a", "##a", "##aa", "aaa", "aaaaa"}));
}

TEST(WordPieceTrainer, OnlyTheMostFrequentCharactersAreKept) {
  const WordCounts counts = counts_of("ab ab ab abz xb");
  const Tokens tokens =
      train_word_pieces(counts, {.vocab_size = 100, .limit_alphabet = 2, .special_tokens = {}});
  EXPECT_EQ(tokens, (Tokens{"a", "b", "##b", "ab"}));  // z and x are left out: abz counts as ab, xb as ##b
}

class Golden : public testing::TestWithParam<std::pair<const char*, WordPieceTrainerOptions>> {};

TEST_P(Golden, SamePiecesAsHuggingFace) {
  const auto& [name, given] = GetParam();
  const Tokens expected = lines_of(read_file(std::string(name) + ".txt"));
  ASSERT_GT(expected.size(), 100u);
  WordPieceTrainerOptions options = given;
  options.vocab_size = expected.size();
  const Tokens tokens =
      train_word_pieces(counts_of(read_file("corpus.txt"), std::string_view(name) != "cased"), options);
  ASSERT_EQ(tokens.size(), expected.size());
  const auto first =
      std::find_if(expected.begin(), expected.end(), [](const auto& t) { return t.starts_with("##"); });
  EXPECT_TRUE(std::equal(expected.begin(), first, tokens.begin()));  // special tokens and characters in order
  EXPECT_EQ(std::set(tokens.begin(), tokens.end()), std::set(expected.begin(), expected.end()));
  // And it reads back as a vocabulary.
  std::string lines;
  for (const std::string& token : tokens) lines += token, lines += '\n';
  EXPECT_EQ(Tokenizer::from_vocab_text(lines).vocab_size(), tokens.size());
}

INSTANTIATE_TEST_SUITE_P(WordPieceTrainer, Golden,
                         testing::Values(std::pair("uncased", WordPieceTrainerOptions{}),
                                         std::pair("cased", WordPieceTrainerOptions{}),
                                         std::pair("small_alphabet",
                                                   WordPieceTrainerOptions{.min_frequency = 3,
                                                                           .limit_alphabet = 40})),
                         [](const auto& which) { return std::string(which.param.first); });

}  // namespace
}  // namespace bertie::text
