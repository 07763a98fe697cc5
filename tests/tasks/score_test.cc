// How likely texts are: transformers' numbers, token by token.
#include <cmath>

#include "support/expect_error.h"
#include "tasks/golden_tasks.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::expect_error;
using test::golden_task;

class Scores : public testing::TestWithParam<std::string> {};

TEST_P(Scores, AreThoseOfTransformers) {
  const TextModel model = load(golden_task(GetParam()), {.threads = 2});
  std::ifstream in(golden_task(GetParam()) / "scores.json");
  const json rows = json::parse(in);
  std::vector<std::string> texts;
  for (const json& row : rows) texts.push_back(row["text"]);
  const std::vector<TextScore> all = model.score(texts);
  ASSERT_EQ(all.size(), rows.size());
  size_t tokens = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(texts[i]);
    const json& expected = rows[i]["scores"];
    ASSERT_EQ(all[i].scores.size(), expected.size());
    double sum = 0;
    for (size_t t = 0; t < expected.size(); ++t, ++tokens) {
      const TokenScore& token = all[i].scores[t];
      EXPECT_EQ(token.id, expected[t]["id"]);
      EXPECT_NEAR(token.log_probability, expected[t]["log_probability"].get<double>(), 2e-5);
      EXPECT_EQ(token.likeliest_id, expected[t]["likeliest"]);
      EXPECT_NEAR(token.likeliest_log_probability, expected[t]["likeliest_log_probability"].get<double>(),
                  2e-5);
      sum += token.log_probability;
    }
    EXPECT_DOUBLE_EQ(all[i].log_probability(), sum);
    if (expected.empty()) continue;
    EXPECT_DOUBLE_EQ(all[i].perplexity(), std::exp(-sum / double(expected.size())));
  }
  EXPECT_GT(tokens, 50u);
}

INSTANTIATE_TEST_SUITE_P(Golden, Scores,
                         testing::Values("fill-mask-bert", "fill-mask-distilbert", "fill-mask-roberta",
                                         "fill-mask-albert", "text-generation-gpt2"),
                         [](const auto& name) {
                           std::string out = name.param;
                           std::replace(out.begin(), out.end(), '-', '_');
                           return out;
                         });

TEST(Score, OfATextIsTheSameAloneAndAmongOthers) {
  for (const char* name : {"fill-mask-bert", "text-generation-gpt2"}) {
    const TextModel model = load(golden_task(name));
    const std::vector<std::string> texts{"The museum is closed.", "", "It was raining in the harbour again"};
    const std::vector<TextScore> together = model.score(texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      const TextScore alone = model.score(texts[i]);
      ASSERT_EQ(alone.scores.size(), together[i].scores.size());
      for (size_t t = 0; t < alone.scores.size(); ++t)
        EXPECT_EQ(alone.scores[t].log_probability, together[i].scores[t].log_probability) << name;
    }
  }
}

TEST(Score, KnowsPlacesAndWords) {
  const TextScore score = load(golden_task("fill-mask-bert")).score("Zoë unforgettably!");
  ASSERT_GT(score.scores.size(), 3u);
  EXPECT_EQ(score.scores[0].offset.begin, 0u);
  EXPECT_EQ(score.scores.back().offset.end, 18u);
  EXPECT_EQ(score.scores[0].word, 0);
  EXPECT_EQ(score.scores.back().word, 2);
}

TEST(Score, OfALongTextIsThatOfItsBeginning) {
  for (const char* name : {"fill-mask-bert", "text-generation-gpt2"}) {
    const TextModel model = load(golden_task(name));
    std::string text;
    for (size_t i = 0; i < 200; ++i) text += "bank ";
    const TextScore score = model.score(text);
    EXPECT_TRUE(score.truncated) << name;
    EXPECT_GT(score.scores.size(), 30u) << name;
    EXPECT_LT(score.scores.size(), 80u) << name;
  }
}

TEST(Score, NeedsAHeadForTokens) {
  const TextModel model = load(golden_task("next-sentence-bert"));
  expect_error("cannot", [&] { model.score("a"); });
}

TEST(Score, OfNothingIsNothing) {
  const TextScore none = load(golden_task("fill-mask-bert")).score("");
  EXPECT_TRUE(none.scores.empty());
  EXPECT_EQ(none.log_probability(), 0);
  EXPECT_TRUE(std::isnan(none.perplexity()));
}

}  // namespace
}  // namespace bertie
