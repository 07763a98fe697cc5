// Labelled rows as batches: what is a target where, windows, and the stream's order.
#include "train/data/task_source.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "support/expect_error.h"

namespace bertie {
namespace {

// Words are single tokens, but "abcd" is ab ##cd.
Tokenizer tokenizer() {
  return Tokenizer::from_vocab_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\nab\n##cd\n.\n");
}
constexpr int32_t kCls = 2, kSep = 3;

BatchStorage all_of(TaskSource& source) {
  BatchStorage storage(source.terms());
  source.begin_step(source.sequences());
  source.make(0, source.sequences(), storage);
  return storage;
}

Dataset classes() {
  Dataset data{.kind = TaskKind::kClassify, .labels = {"no", "yes"}};
  data.texts = {{.a = "a b", .labels = {0}}, {.a = "c", .labels = {1}}, {.a = "d e f", .labels = {0}}};
  return data;
}

TEST(TaskSource, ARowIsASequenceWithItsClass) {
  const auto source = make_task_source(classes(), tokenizer(), {.seed = 1});
  const BatchStorage s = all_of(*source);
  ASSERT_EQ(s.sequences(), 3u);
  std::set<int32_t> firsts;
  for (size_t i = 0; i < 3; ++i) {
    const auto begin = size_t(s.offsets[i]), n = size_t(s.offsets[i + 1]) - begin;
    EXPECT_EQ(s.ids[begin], kCls);
    EXPECT_EQ(s.ids[begin + n - 1], kSep);
    EXPECT_EQ(s.terms[0].targets[i], n == 3);  // "c" alone is yes
    firsts.insert(s.ids[begin + 1]);
  }
  EXPECT_EQ(firsts.size(), 3u);  // each once
  EXPECT_EQ(source->longest(), 5u);
  EXPECT_EQ(source->tokens(), 4u + 3 + 5);
  EXPECT_EQ(source->truncated(), 0u);
}

TEST(TaskSource, PairsHaveTypesAndAreCutAtTheLongerText) {
  Dataset data{.kind = TaskKind::kPair, .labels = {"no", "yes"}};
  data.texts = {{.a = "a b c d e f", .b = "a", .labels = {1}}};
  const auto source = make_task_source(data, tokenizer(), {.encoding = {.max_length = 7}});
  const BatchStorage s = all_of(*source);
  EXPECT_EQ(s.ids.size(), 7u);
  EXPECT_EQ(s.types, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(source->truncated(), 1u);
}

TEST(TaskSource, SeveralLabelsAndNumbersAreValues) {
  Dataset several = classes();
  several.problem = Problem::kMultiLabel;
  several.texts[0].labels = {0, 1}, several.texts[1].labels = {}, several.texts[2].labels = {1};
  const BatchStorage s = all_of(*make_task_source(several, tokenizer(), {}));
  EXPECT_TRUE(s.terms[0].targets.empty());
  ASSERT_EQ(s.terms[0].values.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    const int32_t n = s.offsets[i + 1] - s.offsets[i];
    EXPECT_EQ(s.terms[0].values[2 * i], n == 4 ? 1 : 0);
    EXPECT_EQ(s.terms[0].values[2 * i + 1], n == 3 ? 0 : 1);
  }
  Dataset numbers = classes();
  numbers.problem = Problem::kRegression;
  for (size_t i = 0; i < 3; ++i) numbers.texts[i].value = double(i) + 0.5;
  const auto source = make_task_source(numbers, tokenizer(), {});
  const std::vector<float> values = all_of(*source).terms[0].values;
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0f), 4.5f);
  EXPECT_FALSE(source->terms()[0].has_accuracy);
}

TEST(TaskSource, TheFirstTokenOfAWordHasItsTag) {
  Dataset data{.kind = TaskKind::kTag, .labels = {"O", "B-X"}};
  data.sentences = {{.words = {"a", "abcd", "."}, .tags = {0, 1, 0}}};
  const BatchStorage s = all_of(*make_task_source(data, tokenizer(), {}));
  EXPECT_EQ(s.ids.size(), 6u);                                  // [CLS] a ab ##cd . [SEP]
  EXPECT_EQ(s.terms[0].rows, (std::vector<int32_t>{1, 2, 4}));  // not ##cd
  EXPECT_EQ(s.terms[0].targets, (std::vector<int32_t>{0, 1, 0}));
}

// A long sentence goes in windows, and each word is a target once, however they overlap.
TEST(TaskSource, InWindowsEachWordCountsOnce) {
  Dataset data{.kind = TaskKind::kTag, .labels = {"O", "B-X"}};
  TaggedSentence sentence;
  const std::string words[] = {"a", "abcd", "b", "c", "abcd", "d", "e", "abcd", "f"};
  for (size_t i = 0; i < 60; ++i) {
    sentence.words.push_back(words[i * 7 % std::size(words)]);
    sentence.tags.push_back(int32_t(sentence.words.back() == "abcd"));
  }
  data.sentences = {sentence};
  for (const size_t stride : {size_t{0}, size_t{3}, size_t{100}}) {
    const auto source =
        make_task_source(data, tokenizer(), {.encoding = {.max_length = 16, .stride = stride}});
    EXPECT_GT(source->sequences(), 3u);
    EXPECT_EQ(source->truncated(), 0u);
    const BatchStorage s = all_of(*source);
    EXPECT_EQ(s.terms[0].targets.size(), 60u) << stride;
    for (size_t i = 0; i < s.terms[0].rows.size(); ++i)
      EXPECT_EQ(s.terms[0].targets[i],
                s.ids[size_t(s.terms[0].rows[i])] == 11);  // "ab" begins what is tagged
  }
}

TEST(TaskSource, AnAnswerIsItsFirstAndLastToken) {
  Dataset data{.kind = TaskKind::kAnswer};
  data.questions = {{.id = "1", .question = "a b", .context = "c d abcd e f", .answers = {{"abcd e", 4}}}};
  const BatchStorage s = all_of(*make_task_source(data, tokenizer(), {}));
  // [CLS] a b [SEP] c d ab ##cd e f [SEP]
  EXPECT_EQ(s.terms[0].targets, (std::vector<int32_t>{6, 8}));
  EXPECT_EQ(s.types[5], 1);
}

TEST(TaskSource, AWindowWithoutTheWholeAnswerPointsToTheFirstToken) {
  Dataset data{.kind = TaskKind::kAnswer};
  std::string context;
  for (int i = 0; i < 40; ++i) context += i == 20 ? "abcd " : "c ";
  data.questions = {{.id = "1", .question = "a", .context = context, .answers = {{"abcd", 40}}},
                    {.id = "2", .question = "a", .context = "c d", .answers = {}}};
  const auto source = make_task_source(data, tokenizer(), {.encoding = {.max_length = 16, .stride = 4}});
  const BatchStorage s = all_of(*source);
  size_t with = 0;
  for (size_t i = 0; i < s.sequences(); ++i) {
    const int32_t first = s.terms[0].targets[2 * i], last = s.terms[0].targets[2 * i + 1];
    if (first == 0) {
      EXPECT_EQ(last, 0);
      continue;
    }
    ++with;
    EXPECT_EQ(s.ids[size_t(s.offsets[i] + first)], 11);
    EXPECT_EQ(s.ids[size_t(s.offsets[i] + last)], 12);
  }
  EXPECT_GE(with, 1u);
  EXPECT_LE(with, 2u);  // windows overlap
  EXPECT_GT(s.sequences(), 4u);
}

TEST(TaskSource, TheStreamIsTheSameHoweverItIsCutAndContinuesFromACursor) {
  Dataset data{.kind = TaskKind::kClassify, .labels = {"no", "yes"}};
  for (int i = 0; i < 17; ++i)
    data.texts.push_back({.a = std::string(1, char('a' + i % 6)), .labels = {i % 2}});
  const auto stream = [&](TaskSource& source, size_t step, size_t steps) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < steps; ++i) {
      BatchStorage storage(source.terms());
      source.begin_step(step);
      for (size_t first = 0; first < step; ++first) {
        source.make(first, 1, storage);
        ids.insert(ids.end(), storage.ids.begin(), storage.ids.end());
      }
    }
    return ids;
  };
  const auto one = make_task_source(data, tokenizer(), {.seed = 3});
  const auto other = make_task_source(data, tokenizer(), {.seed = 3});
  EXPECT_EQ(stream(*one, 5, 12), stream(*other, 10, 6));
  const std::string cursor = one->cursor();
  const std::vector<int32_t> next = stream(*one, 5, 4);
  const auto resumed = make_task_source(data, tokenizer(), {.seed = 3});
  resumed->seek(cursor);
  EXPECT_EQ(stream(*resumed, 5, 4), next);
  EXPECT_NEAR(resumed->epochs(), 80 / 17.0, 1e-9);

  const auto another = make_task_source(data, tokenizer(), {.seed = 4});
  EXPECT_NE(stream(*make_task_source(data, tokenizer(), {.seed = 3}), 17, 1), stream(*another, 17, 1));
  test::expect_error("had other rows, other labels or another tokenizer", [&] { another->seek(cursor); });
  data.texts[0].labels = {1};
  const auto relabelled = make_task_source(data, tokenizer(), {.seed = 3});
  test::expect_error("had other rows, other labels or another tokenizer", [&] { relabelled->seek(cursor); });
}

TEST(TaskSource, NoRowsAreAnError) {
  test::expect_error("nothing to learn from",
                     [] { make_task_source(Dataset{.file = "x.csv"}, tokenizer(), {}); });
}

TEST(JoinedWords, TokensBelongToTheWordTheyBeginIn) {
  const JoinedWords joined({"Ål", "x", "y"});
  EXPECT_EQ(joined.text, "Ål x y");
  EXPECT_EQ(joined.word_of({0, 1}), 0u);
  EXPECT_EQ(joined.word_of({2, 4}), 1u);  // with the space before it
  EXPECT_EQ(joined.word_of({5, 6}), 2u);
  EXPECT_FALSE(joined.word_of({2, 3}).has_value());
  EXPECT_FALSE(joined.word_of({6, 6}).has_value());
}

}  // namespace
}  // namespace bertie
