// Masks: how many, where, and what becomes of them, over a million draws.
#include "train/data/masking.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "made_up_shards.h"
#include "support/expect_error.h"

namespace bertie {
namespace {

using test::is_uniform;
using test::within_three_sigma;

// Five special tokens, 60 words, 40 continuations.
Tokenizer small_tokenizer() {
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < 60; ++i) vocab += fmt::format("w{}\n", i);
  for (int i = 0; i < 40; ++i) vocab += fmt::format("##c{}\n", i);
  return Tokenizer::from_vocab_text(vocab);
}
constexpr int32_t kCls = 2, kSep = 3, kMask = 4, kFirstWord = 5, kFirstContinuation = 65, kEnd = 105;

TEST(Masking, AsManyAsTheOriginalMasks) {
  const Tokenizer tokenizer = small_tokenizer();
  const Masking masking(tokenizer, {}), capped(tokenizer, {.max_predictions = 20});
  // Python: [max(1, int(round(n * 0.15))) for n in ...]; halves go to the even number.
  for (const auto& [n, count] : std::vector<std::pair<size_t, size_t>>{{2, 1},
                                                                       {3, 1},
                                                                       {9, 1},
                                                                       {10, 2},
                                                                       {11, 2},
                                                                       {16, 2},
                                                                       {17, 3},
                                                                       {30, 4},
                                                                       {50, 8},
                                                                       {64, 10},
                                                                       {70, 10},
                                                                       {128, 19},
                                                                       {512, 77}})
    EXPECT_EQ(masking.predictions(n), count) << n;
  EXPECT_EQ(capped.predictions(128), 19u);
  EXPECT_EQ(capped.predictions(512), 20u);
}

TEST(Masking, AMillionDrawsAreWhatTheyShouldBe) {
  const Tokenizer tokenizer = small_tokenizer();
  Masking masking(tokenizer, {});
  constexpr size_t kLength = 128, kSequences = 53'000;
  std::vector<int32_t> rows, targets;
  std::vector<size_t> places(kLength), random_tokens(size_t(kEnd - kFirstWord));
  size_t draws = 0, masked = 0, kept_or_same = 0, changed = 0;
  Random words(3);
  std::vector<int32_t> before(kLength);
  for (size_t s = 0; s < kSequences; ++s) {
    for (int32_t& id : before) id = kFirstWord + int32_t(words.below(uint32_t(kEnd - kFirstWord)));
    before.front() = kCls, before[50] = before.back() = kSep;
    std::vector<int32_t> ids = before;
    rows.clear(), targets.clear();
    Random random(1, s);
    masking.apply(ids, 1000, random, rows, targets);
    ASSERT_EQ(rows.size(), 19u);
    ASSERT_EQ(targets.size(), 19u);
    ASSERT_TRUE(std::is_sorted(rows.begin(), rows.end(), std::less_equal<>()));
    size_t differ = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto place = size_t(rows[i] - 1000);
      ASSERT_EQ(targets[i], before[place]);
      ASSERT_GE(targets[i], kFirstWord);  // no special token is ever to be told
      ++draws, ++places[place];
      differ += ids[place] != before[place];
      if (ids[place] == kMask) {
        ++masked;
      } else if (ids[place] == before[place]) {
        ++kept_or_same;
      } else {
        ASSERT_GE(ids[place], kFirstWord);  // nor does one come in
        ++changed;
        ++random_tokens[size_t(ids[place] - kFirstWord)];
      }
    }
    size_t all = 0;
    for (size_t i = 0; i < kLength; ++i) all += ids[i] != before[i];
    ASSERT_EQ(all, differ);  // nothing else was touched
  }
  ASSERT_GE(draws, 1'000'000u);
  const double n = double(draws), same = 0.1 / double(kEnd - kFirstWord);
  EXPECT_TRUE(within_three_sigma(double(masked), n, 0.8)) << double(masked) / n;
  EXPECT_TRUE(within_three_sigma(double(kept_or_same), n, 0.1 + same)) << double(kept_or_same) / n;
  EXPECT_TRUE(within_three_sigma(double(changed), n, 0.1 - same)) << double(changed) / n;
  EXPECT_TRUE(is_uniform(random_tokens));
  EXPECT_EQ(places[0] + places[50] + places[kLength - 1], 0u);
  places.erase(places.begin() + 50);
  EXPECT_TRUE(is_uniform({places.begin() + 1, places.end() - 1}));
}

TEST(Masking, WholeWordsOrNothingAndADrawForEachPiece) {
  const Tokenizer tokenizer = small_tokenizer();
  Masking masking(tokenizer, {.whole_words = true});
  std::vector<int32_t> rows, targets;
  size_t draws = 0, masked = 0, mixed = 0, short_of = 0;
  for (size_t s = 0; s < 20'000; ++s) {
    Random random(7, s);
    std::vector<int32_t> ids = {kCls}, word_of = {-1};
    while (ids.size() < 63) {
      const bool goes_on = ids.size() > 1 && random.below(3) == 0;
      ids.push_back(goes_on ? kFirstContinuation + int32_t(random.below(40))
                            : kFirstWord + int32_t(random.below(60)));
      word_of.push_back(goes_on ? word_of.back() : word_of.back() + 1);
    }
    ids.push_back(kSep), word_of.push_back(-1);
    rows.clear(), targets.clear();
    masking.apply(ids, 0, random, rows, targets);
    ASSERT_LE(rows.size(), 10u);
    short_of += rows.size() < 10;
    std::vector<bool> chosen(ids.size());
    for (int32_t row : rows) chosen[size_t(row)] = true;
    for (size_t i = 2; i + 1 < ids.size(); ++i)
      if (word_of[i] == word_of[i - 1]) {
        ASSERT_EQ(chosen[i], chosen[i - 1]) << "a word is cut";
        mixed += chosen[i] && (ids[i] == kMask) != (ids[i - 1] == kMask);
      }
    for (int32_t row : rows) ++draws, masked += ids[size_t(row)] == kMask;
  }
  EXPECT_TRUE(within_three_sigma(double(masked), double(draws), 0.8));
  EXPECT_GT(mixed, 1000u);
  EXPECT_LT(short_of, 20u);  // only where every word that is left is too long
}

TEST(Masking, AContinuationAfterASpecialTokenIsAWordOfItsOwn) {
  const Tokenizer tokenizer = small_tokenizer();
  Masking masking(tokenizer, {.rate = 0.2, .whole_words = true});
  std::vector<int32_t> rows, targets;
  for (uint64_t s = 0; s < 100; ++s) {
    std::vector<int32_t> ids = {kCls, 70, kSep, 71, kSep};
    rows.clear(), targets.clear();
    Random random(s);
    masking.apply(ids, 0, random, rows, targets);
    ASSERT_EQ(rows.size(), 1u);
  }
}

TEST(Masking, WhatIsAllSpecialHasNothingToTell) {
  const Tokenizer tokenizer = small_tokenizer();
  Masking masking(tokenizer, {});
  std::vector<int32_t> ids = {kCls, 1, kSep}, rows, targets;  // [UNK] is special too
  Random random(1);
  masking.apply(ids, 0, random, rows, targets);
  EXPECT_TRUE(rows.empty());
  EXPECT_EQ(ids, (std::vector<int32_t>{kCls, 1, kSep}));
}

TEST(Masking, NeedsAMaskToken) {
  const Tokenizer none = Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n");
  test::expect_error("mask token", [&] { Masking(none, {}); });
}

}  // namespace
}  // namespace bertie
