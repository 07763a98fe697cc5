#include "train/data/pair_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bertie/error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::expect_error;
using Ints = std::vector<int32_t>;

// Ids 0..4 are special, then 5 one, 6 two, 7 three …
const char* const kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\ntwo\nthree\nfour\nfive\n##1\n";
const TransformerConfig kConfig{.vocabulary = 11, .positions = 6, .pad_id = 0, .eos_id = 3, .start_id = 2};

const std::vector<TermSpec> kTerms = {{"token", Head::kCausalLm}};

struct Source {
  test::TempFolder folder;
  Tokenizer tokenizer = Tokenizer::from_vocab_text(kWords);

  std::unique_ptr<PairSource> of(const std::string& text, const PairOptions& options = {.shuffle = false}) {
    return make_pair_source(folder.write("pairs.tsv", text), tokenizer, kConfig, options);
  }
};

// Pairs that can be told apart: "one one two TAB …".
std::string numbered(size_t count) {
  std::string text;
  const char* digits[] = {"one", "two", "three", "four", "five"};
  for (size_t i = 0; i < count; ++i) {
    std::string word;
    for (size_t n = i, k = 0; k < 4; ++k, n /= 5) word += std::string(k ? " " : "") + digits[n % 5];
    text += word + "\t" + word + "\n";
  }
  return text;
}

std::vector<Ints> sources_of(const BatchStorage& store) {
  std::vector<Ints> all;
  for (size_t s = 0; s < store.sequences(); ++s)
    all.emplace_back(store.ids.begin() + store.offsets[s], store.ids.begin() + store.offsets[s + 1]);
  return all;
}

TEST(PairSource, GivesWhatTheDecoderReadsAndWhatItIsToSay) {
  Source source;
  const auto pairs =
      source.of("one\ttwo three\r\n\nfour one\tfive");  // an empty line, and no end to the last
  EXPECT_EQ(pairs->sequences(), 2u);
  pairs->begin_step(2);
  BatchStorage store(kTerms);
  pairs->make(0, 2, store);
  EXPECT_EQ(store.ids, (Ints{5, 3, 8, 5, 3}));
  EXPECT_EQ(store.offsets, (Ints{0, 2, 5}));
  EXPECT_EQ(store.target_ids, (Ints{2, 6, 7, 2, 9}));
  EXPECT_EQ(store.target_offsets, (Ints{0, 3, 5}));
  EXPECT_EQ(store.terms[0].targets, (Ints{6, 7, 3, 9, 3}));
  EXPECT_TRUE(store.terms[0].rows.empty());
  EXPECT_EQ(pairs->truncated(), 0u);
}

TEST(PairSource, CutsLongTextsBeforeTheirEnd) {
  Source source;
  const auto pairs = source.of("one one one one one one\ttwo two two two two two two\none\ttwo\n");
  EXPECT_EQ(pairs->truncated(), 1u);
  BatchStorage store(kTerms);
  pairs->begin_step(1);
  pairs->make(0, 1, store);
  EXPECT_EQ(store.ids, (Ints{5, 5, 5, 5, 5, 3}));
  EXPECT_EQ(store.target_ids, (Ints{2, 6, 6, 6, 6, 6}));
  EXPECT_EQ(store.terms[0].targets, (Ints{6, 6, 6, 6, 6, 3}));
}

TEST(PairSource, ShowsEveryPairOnceInAnEpochInAnotherOrderEachTime) {
  Source source;
  for (const size_t count : {1, 2, 3, 7, 100}) {
    const auto pairs = source.of(numbered(count), {.seed = 9});
    std::vector<std::vector<Ints>> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      BatchStorage store(kTerms);
      pairs->begin_step(count);
      pairs->make(0, count, store);
      epochs.push_back(sources_of(store));
      EXPECT_EQ(std::set<Ints>(epochs.back().begin(), epochs.back().end()).size(), count);
      EXPECT_DOUBLE_EQ(pairs->epochs(), epoch + 1);
    }
    if (count == 100) {
      EXPECT_NE(epochs[0], epochs[1]);
      EXPECT_NE(epochs[1], epochs[2]);
      const auto other = source.of(numbered(count), {.seed = 10});
      BatchStorage store(kTerms);
      other->begin_step(count);
      other->make(0, count, store);
      EXPECT_NE(sources_of(store), epochs[0]) << "the seed makes no difference";
    }
  }
}

TEST(PairSource, IsTheSameStreamHoweverItIsCut) {
  Source source;
  const std::string text = numbered(37);
  const auto whole = source.of(text, {.seed = 4}), cut = source.of(text, {.seed = 4});
  BatchStorage store(kTerms), part(kTerms);
  whole->begin_step(100);
  whole->make(0, 100, store);
  std::vector<Ints> pieces;
  for (size_t step = 0; step < 5; ++step) {
    cut->begin_step(20);
    std::vector<Ints> back_to_front;
    for (size_t first : {15u, 10u, 5u, 0u}) {
      cut->make(first, 5, part);
      const auto some = sources_of(part);
      back_to_front.insert(back_to_front.begin(), some.begin(), some.end());
    }
    pieces.insert(pieces.end(), back_to_front.begin(), back_to_front.end());
  }
  EXPECT_EQ(pieces, sources_of(store));
}

TEST(PairSource, GoesOnFromACursor) {
  Source source;
  const std::string text = numbered(37);
  const auto a = source.of(text, {.seed = 4}), b = source.of(text, {.seed = 4});
  const std::string start = a->cursor();
  a->begin_step(50);
  b->seek(a->cursor());
  EXPECT_EQ(b->cursor(), a->cursor());
  BatchStorage x(kTerms), y(kTerms);
  a->begin_step(10), a->make(0, 10, x);
  b->begin_step(10), b->make(0, 10, y);
  EXPECT_EQ(x.ids, y.ids);
  EXPECT_EQ(x.terms[0].targets, y.terms[0].targets);
  b->seek(start);
  EXPECT_EQ(b->epochs(), 0);
  EXPECT_EQ(b->cursor(), start);
  for (const std::string& bad :
       {std::string(), std::string("x"), start.substr(0, start.size() - 1), start + "x",
        source.of(text)->cursor(), source.of(text, {.seed = 5})->cursor(),
        source.of(numbered(36), {.seed = 4})->cursor()})
    expect_error("is not a position in these pairs", [&] { a->seek(bad); });
}

TEST(PairSource, NamesTheLineThatIsNoPair) {
  Source source;
  for (const char* line : {"one two", "\ttwo", "one\t", "one\ttwo\tthree"})
    expect_error("line 2 is not a pair", [&] { source.of("one\ttwo\n" + std::string(line) + "\n"); });
  expect_error("there are no pairs", [&] { source.of("\n\n"); });
  expect_error("no room for a text", [&] { source.of("one\tfive1\n", {.max_length = 1}); });
  TransformerConfig few = kConfig;
  few.vocabulary = 10;
  expect_error("gives id 10, but the model knows 10 tokens",
               [&] { make_pair_source(source.folder.write("p", "one\tfive1"), source.tokenizer, few, {}); });
}

}  // namespace
}  // namespace bertie
