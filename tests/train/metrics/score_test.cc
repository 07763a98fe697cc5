// Intervals, comparisons, and what is refused.
#include <numeric>

#include "bertie/json.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "train/metrics/bootstrap.h"
#include "train/metrics/correlation.h"
#include "train/metrics/entities.h"
#include "train/metrics/golden_metrics.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::classes;
using test::Labelled;

// Two classes, of which this share is predicted rightly.
Labelled mostly_right(size_t rows, double share, uint64_t seed) {
  const std::vector<float> draws = test::random_floats(rows, seed, 0, 1);
  std::vector<int32_t> truth, predicted;
  for (size_t i = 0; i < rows; ++i) {
    truth.push_back(int32_t(i % 2));
    predicted.push_back(draws[i] < share ? truth[i] : 1 - truth[i]);
  }
  return classes(2, truth, predicted, std::vector<float>(rows, 0.9f));
}

TEST(Bootstrap, DrawsAsManyRowsAsThereAreAndTheSameAgain) {
  std::vector<uint32_t> weights(1000), again(1000);
  metrics::draw_resample(7, 3, weights);
  metrics::draw_resample(7, 3, again);
  EXPECT_EQ(weights, again);
  EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), 0u), 1000u);
  EXPECT_NEAR(double(std::count(weights.begin(), weights.end(), 0u)) / 1000, std::exp(-1), 0.05);
  metrics::draw_resample(7, 4, again);
  EXPECT_NE(weights, again);
}

TEST(Bootstrap, WeightsAreRowsThatStandThereSeveralTimes) {
  const std::vector<double> x{1, 5, 5, 2, 9}, y{2, 1, 7, 7, 3};
  const std::vector<uint32_t> weights{2, 0, 1, 3, 1};
  std::vector<double> many_x, many_y;
  for (size_t i = 0; i < x.size(); ++i) {
    many_x.insert(many_x.end(), weights[i], x[i]);
    many_y.insert(many_y.end(), weights[i], y[i]);
  }
  const std::vector<uint32_t> once(many_x.size(), 1);
  EXPECT_NEAR(metrics::pearson(x, y, weights), metrics::pearson(many_x, many_y, once), 1e-14);
  const auto spearman = [](const auto& a, const auto& b, const auto& w) {
    return metrics::pearson(metrics::ranks(a, metrics::ascending(a), w),
                            metrics::ranks(b, metrics::ascending(b), w), w);
  };
  EXPECT_NEAR(spearman(x, y, weights), spearman(many_x, many_y, once), 1e-14);
}

TEST(Score, IntervalsAreAsWideAsTheNormalApproximationSays) {
  const auto [data, predictions] = mostly_right(1000, 0.8, 1);
  const Evaluation e = score(data, predictions, {.resamples = 1000});
  const NamedScore& accuracy = e.scores[0];
  const double half = 1.96 * std::sqrt(accuracy.value * (1 - accuracy.value) / 1000);
  EXPECT_NEAR(accuracy.low, accuracy.value - half, 0.005);
  EXPECT_NEAR(accuracy.high, accuracy.value + half, 0.005);
  const Evaluation again = score(data, predictions, {.resamples = 1000});
  for (size_t i = 0; i < e.scores.size(); ++i) {
    EXPECT_LE(e.scores[i].low, e.scores[i].high);
    EXPECT_EQ(e.scores[i].low, again.scores[i].low) << "the same seed";
  }
  EXPECT_GT(score(data, predictions, {.resamples = 1000, .confidence = 0.5}).scores[0].low, accuracy.low);
  EXPECT_EQ(score(data, predictions).scores[0].low, accuracy.value) << "none was asked for";
}

TEST(Score, PutsTheMetricFirstThatIsAskedFor) {
  const auto [data, predictions] = mostly_right(50, 0.8, 1);
  const Evaluation e = score(data, predictions, {.metric = "matthews"});
  EXPECT_EQ(e.scores[0].name, "matthews");
  EXPECT_EQ(e.scores[1].name, "accuracy");
  test::expect_error("there is no `metric` \"bleu\" for this data: there are accuracy, f1, matthews",
                     [&] { score(data, predictions, {.metric = "bleu"}); });
}

TEST(Score, RefusesWhatDoesNotBelongTogether) {
  const auto [data, predictions] = mostly_right(10, 0.8, 1);
  Dataset other = data;
  other.texts.pop_back();
  test::expect_error("the predictions are of 10 rows, but the data has 9",
                     [&] { score(other, predictions); });
  other.labels.push_back("third");
  test::expect_error("2 numbers a row, but the data has 3 labels", [&] { score(other, predictions); });
  other = data, other.labeled = false;
  test::expect_error("the data has no labels", [&] { score(other, predictions); });
  other = data, other.texts[3].labels = {};
  test::expect_error("line 5 has not one label", [&] { score(other, predictions); });
  other.texts[3].labels = {2};
  test::expect_error("line 5 has a label that the data has not", [&] { score(other, predictions); });
  test::expect_error("no rows", [&] { score({.labels = {"a", "b"}}, {.columns = 2}); });
  test::expect_error("sentence 1 are of 1 words, but it has 2", [&] {
    score(test::sentences({"O", "B-X"}, {{0, 1}}, {{0}}).data, {.tags = {{0}}});
  });
  test::expect_error("`confidence`", [&] { score(data, predictions, {.confidence = 1}); });
}

TEST(Score, RefusesWhatIsNotANumberOrNoTag) {
  auto [data, predictions] = classes(2, {0, 1}, {0, 0}, {0.75f, 0.875f});
  predictions.scores[1] = NAN;
  test::expect_error("not finite", [&] { score(data, predictions); });
  Dataset numbers{
      .kind = TaskKind::kClassify, .problem = Problem::kRegression, .texts = {{.value = 1}, {.value = 2}}};
  test::expect_error("not finite", [&] { score(numbers, {.scores = {1, NAN}, .columns = 1}); });
  numbers.texts[0].value = NAN;
  test::expect_error("not finite", [&] { score(numbers, {.scores = {1, 2}, .columns = 1}); });
  auto [sentences, tags] = test::sentences({"O", "B-X"}, {{0, 1}}, {{1, 2}});
  test::expect_error("a tag that the data has not", [&] { score(sentences, tags); });
}

TEST(Score, KnowsItsMainScoreBeforeThereArePredictions) {
  const auto [data, predictions] = classes(2, {0, 1}, {0, 0}, {0.75f, 0.875f});
  EXPECT_EQ(main_score(data).name, "accuracy");
  EXPECT_EQ(main_score(data, {.metric = "f1"}).name, "f1");
  test::expect_error("no `metric`", [&] { main_score(data, {.metric = "f2"}); });
}

TEST(Score, TakesTheFirstOfEquallyLikelyClasses) {
  Dataset data{.labels = {"a", "b"}, .texts = {{.a = "x", .labels = {0}}, {.a = "y", .labels = {1}}}};
  EXPECT_EQ(score(data, {.scores = {0.5f, 0.5f, 0.5f, 0.5f}, .columns = 2}).row_scores,
            (std::vector<double>{1, 0}));
}

TEST(Score, ManyClassesHaveNoConfusionMatrix) {
  const auto confusion_of = [](size_t labels) {
    const auto [data, predictions] = classes(labels, {0, 1, 1}, {0, 1, 0}, {0.9f, 0.9f, 0.9f});
    const Evaluation e = score(data, predictions);
    EXPECT_EQ(json::parse(to_json(e, "a model")).contains("confusion"), !e.confusion.empty());
    return e.confusion.size();
  };
  EXPECT_EQ(confusion_of(200), 40'000u);
  EXPECT_EQ(confusion_of(201), 0u) << "its squares would be memory that nobody reads";
}

TEST(Entities, AreRecognizedByTheirTags) {
  const auto are = [](std::vector<std::string> labels) { return metrics::are_entity_tags(labels); };
  EXPECT_TRUE(are({"O", "B-PER", "I-PER"}));
  EXPECT_TRUE(are({"O", "S-PER", "E-PER"}));
  EXPECT_TRUE(are({"O", "B", "I"}));
  EXPECT_FALSE(are({"O"}));
  EXPECT_FALSE(are({"NOUN", "VERB", "O"}));
  EXPECT_FALSE(are({"IN", "SYM", "EX"}));
}

TEST(Score, PlainTagsAreCountedWordByWord) {
  const auto [data, predictions] = test::sentences({"DET", "NOUN"}, {{0, 1}, {1, 1}}, {{0, 0}, {1, -1}});
  const Evaluation e = score(data, predictions);
  EXPECT_EQ(e.scores[0].name, "accuracy");
  EXPECT_EQ(e.scores[0].value, 0.5);
  EXPECT_EQ(e.classes[1].support, 3u);
  EXPECT_EQ(e.classes[1].predicted, 1u);
  EXPECT_EQ(e.row_scores, (std::vector<double>{0.5, 0.5}));
}

TEST(Compare, FindsNoDifferenceBetweenAModelAndItself) {
  const auto [data, predictions] = mostly_right(200, 0.8, 1);
  const Comparison c = compare(data, predictions, predictions);
  EXPECT_EQ(c.difference, 0);
  EXPECT_EQ(c.p_value, 1);
  EXPECT_EQ(c.mcnemar_p, 1);
  EXPECT_EQ(c.only_a + c.only_b, 0u);
}

TEST(Compare, TellsAGoodModelFromABadOne) {
  const auto [data, worse] = mostly_right(500, 0.7, 1);
  const Predictions better = mostly_right(500, 0.9, 2).predictions;
  const Comparison c = compare(data, worse, better);
  EXPECT_EQ(c.metric, "accuracy");
  EXPECT_NEAR(c.difference, 0.2, 0.05);
  EXPECT_LT(c.low, c.difference);
  EXPECT_GT(c.low, 0.1);
  EXPECT_GT(c.high, c.difference);
  EXPECT_LT(c.p_value, 0.001);
  EXPECT_LT(c.mcnemar_p, 1e-6);
  EXPECT_EQ(double(c.only_b) - double(c.only_a), std::round(500 * c.difference));
  const Comparison swapped = compare(data, better, worse);
  EXPECT_EQ(swapped.difference, -c.difference);
  EXPECT_EQ(swapped.p_value, c.p_value);
  test::expect_error("`resamples`", [&, &d = data, &w = worse] { compare(d, w, better, {.resamples = 0}); });
}

TEST(Compare, OfEquallyGoodModelsIsSeldomSure) {
  size_t sure = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto [data, a] = mostly_right(200, 0.8, 2 * seed);
    const Predictions b = mostly_right(200, 0.8, 2 * seed + 1).predictions;
    sure += compare(data, a, b, {.resamples = 400}).p_value < 0.05;
  }
  EXPECT_LE(sure, 6u);
}

TEST(Compare, OfNumbersHasNoMcNemar) {
  Dataset data{.problem = Problem::kRegression};
  Predictions a{.columns = 1}, b{.columns = 1};
  for (int i = 0; i < 30; ++i) {
    data.texts.push_back({.a = "x", .value = i / 3.0});
    a.scores.push_back(float(i % 7)), b.scores.push_back(float(i));
  }
  const Comparison c = compare(data, a, b);
  EXPECT_EQ(c.metric, "pearson");
  EXPECT_NEAR(c.b, 1, 1e-12);
  EXPECT_LT(c.p_value, 0.05);
  EXPECT_TRUE(std::isnan(c.mcnemar_p));
  EXPECT_EQ(json::parse(to_json(c))["mcnemar_p"], nullptr);
}

TEST(EvaluationJson, SaysWhatTheEvaluationSays) {
  const auto [data, predictions] = mostly_right(40, 0.8, 1);
  const Evaluation e = score(data, predictions, {.resamples = 50});
  const json j = json::parse(to_json(e, "a model"));
  EXPECT_EQ(j["model"], "a model");
  EXPECT_EQ(j["task"], "classify");
  EXPECT_EQ(j["rows"], 40);
  EXPECT_EQ(j["metric"], "accuracy");
  for (const NamedScore& s : e.scores) {
    EXPECT_EQ(j["scores"][s.name].get<double>(), s.value);
    EXPECT_EQ(j["intervals"][s.name], (json{s.low, s.high}));
  }
  EXPECT_EQ(j["classes"][1]["label"], "class 1");
  EXPECT_EQ(j["classes"][1]["support"], e.classes[1].support);
  EXPECT_EQ(j["confusion"][1][0], e.confusion[2]);
  EXPECT_FALSE(json::parse(to_json(score(data, predictions))).contains("intervals"));
  EXPECT_FALSE(j.contains("best_threshold"));
}

TEST(EvaluationJson, OfPredictionsHasWhatIsRightBesideThem) {
  const auto [data, predictions] = classes(2, {0, 1}, {0, 0}, {0.75f, 0.875f});
  EXPECT_EQ(to_json(data, predictions, 1),
            R"({"index":1,"text":"text 1","label":"class 1","predicted":"class 0",)"
            R"("scores":{"class 0":0.875,"class 1":0.125}})");
  const auto [sentences, tags] = test::sentences({"O", "B-X"}, {{0, 1}}, {{1, -1}});
  EXPECT_EQ(to_json(sentences, tags, 0),
            R"({"index":0,"words":["word","word"],"tags":["O","B-X"],"predicted":["B-X",""]})");
  const Dataset questions{.kind = TaskKind::kAnswer,
                          .questions = {{"q1", "Who?", "Anna came.", {{"Anna", 0}}}}};
  EXPECT_EQ(to_json(questions, {.answers = {{"came", -1.5, 0.25}}}, 0),
            R"({"index":0,"id":"q1","question":"Who?","answers":["Anna"],"predicted":"came",)"
            R"("null_odds":-1.5,"probability":0.25})");
  Dataset second = questions;
  second.no_answers = true;
  EXPECT_NE(to_json(second, {.answers = {{"came", -1.5, 0.25}}}, 0, {.threshold = -2})
                .find(R"("predicted":"","span":"came")"),
            std::string::npos);
  Dataset numbers{.kind = TaskKind::kPair,
                  .problem = Problem::kRegression,
                  .texts = {{.a = "x", .b = "y", .value = 2.5}}};
  EXPECT_EQ(to_json(numbers, {.scores = {3}, .columns = 1}, 0),
            R"({"index":0,"a":"x","b":"y","value":2.5,"predicted":3})");
  numbers.labeled = false;
  EXPECT_EQ(to_json(numbers, {.scores = {3}, .columns = 1}, 0),
            R"({"index":0,"a":"x","b":"y","predicted":3})");
}

}  // namespace
}  // namespace bertie
