// Mistakes: the surest first, as data and as a page that is safe to open.
#include "bertie/json.h"
#include "train/metrics/golden_metrics.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::classes;

TEST(Mistakes, AreTheWrongRowsTheSurestFirst) {
  const auto [data, predictions] =
      classes(3, {0, 1, 2, 0, 1}, {0, 2, 1, 1, 0}, {0.99f, 0.6f, 0.9f, 0.5f, 0.9f});
  const std::vector<Mistake> all = mistakes(data, predictions);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].row, 2u);
  EXPECT_EQ(all[1].row, 4u) << "equally sure ones in the order of the rows";
  EXPECT_EQ(all[0].line, 4u);
  EXPECT_EQ(all[0].right, "class 2");
  EXPECT_EQ(all[0].predicted, "class 1");
  EXPECT_FLOAT_EQ(float(all[0].confidence), 0.9f);
  EXPECT_EQ(mistakes(data, predictions, 2).size(), 2u);
  const json j = json::parse(to_json(all));
  EXPECT_EQ(j.size(), 4u);
  EXPECT_EQ(j[0]["a"], "text 2");
  EXPECT_EQ(j[0]["row"], 2);
}

TEST(Mistakes, OfSeveralLabelsAreAsSureAsTheSurestWrongOne) {
  const Dataset data{.problem = Problem::kMultiLabel,
                     .labels = {"x", "y", "z"},
                     .texts = {{.a = "right", .labels = {0}}, {.a = "wrong", .labels = {0, 2}}}};
  const auto all = mistakes(data, {.scores = {0.9f, 0.1f, 0.2f, 0.75f, 0.625f, 0.125f}, .columns = 3});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].right, "x, z");
  EXPECT_EQ(all[0].predicted, "x, y");
  EXPECT_EQ(all[0].confidence, 0.875) << "that it is not z";
}

TEST(Mistakes, OfNumbersAreTheFarthest) {
  const Dataset data{
      .problem = Problem::kRegression,
      .texts = {{.a = "near", .value = 1}, {.a = "far", .value = 5}, {.a = "there", .value = 2}}};
  const auto all = mistakes(data, {.scores = {1.5f, 2, 2}, .columns = 1});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].a, "far");
  EXPECT_EQ(all[0].confidence, 3);
  EXPECT_EQ(all[0].right, "5");
}

TEST(Mistakes, OfTagsNameTheWords) {
  auto [data, predictions] = test::sentences({"O", "B-PER"}, {{0, 1, 0}, {1}}, {{0, 0, 1}, {1}});
  data.sentences[0].words = {"so", "Anna", "came"};
  predictions.tag_scores = {{0.9f, 0.5f, 0.75f}, {1}};
  const auto all = mistakes(data, predictions);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].a, "so Anna came");
  EXPECT_EQ(all[0].right, "Anna/B-PER came/O");
  EXPECT_EQ(all[0].predicted, "Anna/O came/B-PER");
  EXPECT_EQ(all[0].confidence, 0.75);
}

Dataset questions() {
  return {.kind = TaskKind::kAnswer,
          .questions = {{"1", "Who?", "Anna came.", {{"Anna", 0}, {"Anna", 0}, {"she", 3}}},
                        {"2", "When?", "Anna came.", {}},
                        {"3", "Who?", "Anna came.", {{"Anna", 0}}}},
          .no_answers = true};
}

TEST(Mistakes, OfAnswersKnowTheThreshold) {
  const Predictions p{.answers = {{"came", -2, 0.75}, {"Anna", -3, 0.5}, {"Anna", 4, 0.125}}};
  const auto all = mistakes(questions(), p);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].a, "Who?");
  EXPECT_EQ(all[0].predicted, "") << "the threshold is 0, so that there is no answer";
  EXPECT_EQ(all[0].confidence, 0.875);
  EXPECT_EQ(all[1].right, "Anna | she") << "each once";
  EXPECT_EQ(all[1].predicted, "came");
  EXPECT_EQ(mistakes(questions(), p, 10, {.threshold = 5}).size(), 2u);
}

TEST(MistakesPage, IsWholeAndHarmless) {
  auto [data, predictions] = classes(2, {0, 1}, {1, 0}, {0.75f, 0.9f});
  data.file = "a<b>.tsv";
  data.labels[1] = "\"class\" & 'more'";
  data.texts[0].a = "<script>alert(1)</script>\n\u202Eevil\x01 \xFF 日本";
  const Evaluation e = score(data, predictions);
  const std::string page = mistakes_page(data, e, mistakes(data, predictions));
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_EQ(page.find("<script"), page.npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;\n<i>U+202E</i>evil<i>U+0001</i> \uFFFD 日本"),
            page.npos)
      << page;
  EXPECT_NE(page.find("&quot;class&quot; &amp; &#39;more&#39;"), page.npos);
  EXPECT_NE(page.find("a&lt;b&gt;.tsv"), page.npos);
  EXPECT_NE(page.find("Content-Security-Policy"), page.npos);
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url("})
    EXPECT_EQ(page.find(outside), page.npos) << outside;
  EXPECT_NE(page.find("line 3, 90.0% sure"), page.npos);
  EXPECT_LT(page.find("line 3"), page.find("line 2")) << "the surest first";
}

TEST(MistakesPage, ShowsContextsAndMissingAnswers) {
  const Predictions p{.answers = {{"came", -2, 0.75}, {"Anna", -3, 0.5}, {"Anna", 4, 0.125}}};
  const std::string page = mistakes_page(questions(), score(questions(), p), mistakes(questions(), p));
  EXPECT_NE(page.find("<details><summary>context</summary><div>Anna came.</div></details>"), page.npos);
  EXPECT_NE(page.find("<i>no answer</i>"), page.npos);
  EXPECT_NE(page.find("row 1,"), page.npos) << "the format has no lines";
}

}  // namespace
}  // namespace bertie
