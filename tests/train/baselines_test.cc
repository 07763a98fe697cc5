// Baselines: TF-IDF and linear models against scikit-learn, most frequent tags by hand, and all of them on
// every kind of task and on odd rows.
#include "bertie/baselines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bertie/model.h"
#include "core/random.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/baselines/frequent_tag.h"
#include "train/baselines/lbfgs.h"
#include "train/baselines/linear_model.h"
#include "train/baselines/tfidf.h"
#include "train/baselines/word_vectors.h"
#include "train/baselines/words.h"

namespace bertie::baseline {
namespace {

using Strings = std::vector<std::string>;

nlohmann::json golden_linear() {
  std::ifstream in(test::source_dir() / "tests/golden/baselines/linear.json");
  return nlohmann::json::parse(in);
}

Dataset texts_from(const Strings& texts) {
  Dataset data;
  for (const std::string& text : texts) data.texts.push_back({.a = text, .labels = {0}});
  return data;
}

void expect_row(const FeatureRows& x, size_t row, const nlohmann::json& expected) {
  std::vector<std::pair<size_t, double>> mine;
  x.for_each(row, [&](size_t column, float value) { mine.emplace_back(column, value); });
  ASSERT_EQ(mine.size(), expected.size()) << "row " << row;
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(mine[i].first, expected[i][0].get<size_t>()) << "row " << row;
    EXPECT_NEAR(mine[i].second, expected[i][1].get<double>(), 1e-7) << "row " << row;
  }
}

TEST(Words, AreRunsOfLettersDigitsAndUnderscores) {
  EXPECT_EQ(long_words("I don't LIKE e-mail, x2 _a 🙂"), (Strings{"don", "like", "mail", "x2", "_a"}));
  EXPECT_EQ(words_and_signs("I don't. 🙂"), (Strings{"i", "don", "'", "t", ".", "🙂"}));
  for (const char* empty : {"", " ", "\t\n"}) {
    EXPECT_EQ(long_words(empty), Strings{});
    EXPECT_EQ(words_and_signs(empty), Strings{});
  }
}

TEST(Words, SeenOnceAreUnknownByWhatTheyBeginWith) {
  const Vocabulary vocabulary({{"b", "a", "once"}, {"a", "b", "b"}});
  EXPECT_EQ(vocabulary.size(), size_t(Vocabulary::kUnknown) + 2);
  EXPECT_EQ(vocabulary.numbers({"a", "b"}), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(vocabulary.numbers({"once", "Once", "1st", "🙂", "Émile", ""}),
            (std::vector<int32_t>{0, 1, 2, 3, 1, 0}));
}

TEST(Tfidf, IsScikitLearns) {
  const auto golden = golden_linear();
  const Strings train = golden["train"], dev = golden["dev"];
  const Tfidf tfidf(texts_from(train));
  EXPECT_EQ(tfidf.words(), golden["words"].get<Strings>());
  for (size_t i = 0; i < tfidf.idf().size(); ++i)
    EXPECT_NEAR(tfidf.idf()[i], golden["idf"][i].get<double>(), 1e-14) << tfidf.words()[i];
  const FeatureRows x = tfidf.features(texts_from(train)), dev_x = tfidf.features(texts_from(dev));
  for (size_t r = 0; r < train.size(); ++r) expect_row(x, r, golden["rows"][r]);
  for (size_t r = 0; r < dev.size(); ++r) expect_row(dev_x, r, golden["dev_rows"][r]);
}

TEST(Tfidf, APairHasBothItsTextsTheirDistanceAndTheirProduct) {
  Dataset data{.kind = TaskKind::kPair};
  data.texts = {{.a = "xx yy", .b = "yy zz"}, {.a = "", .b = "xx"}};
  const Tfidf tfidf(data);
  ASSERT_EQ(tfidf.words(), (Strings{"xx", "yy", "zz"}));
  const FeatureRows x = tfidf.features(data);
  ASSERT_EQ(x.columns, 12u);
  const auto u = tfidf.row("xx yy"), v = tfidf.row("yy zz");
  std::vector<float> row(12);
  x.for_each(0, [&](size_t c, float value) { row[c] = value; });
  const float product = u[1].second * v[0].second;
  const std::vector<float> expected{
      u[0].second, u[1].second, 0,           0,
      v[0].second, v[1].second, u[0].second, std::abs(u[1].second - v[0].second),
      v[1].second, 0,           product,     0};
  EXPECT_EQ(row, expected);
  size_t numbers = 0;
  x.for_each(1, [&](size_t, float) { ++numbers; });
  EXPECT_EQ(numbers, 2u);  // v and |u − v|
}

TEST(Minimize, FindsTheBottomOfANarrowValley) {
  // Rosenbrock's: not convex, and still found.
  std::vector<double> x{-1.2, 1};
  minimize(
      [](std::span<const double> at, std::span<double> g) {
        const double a = 1 - at[0], b = at[1] - at[0] * at[0];
        g[0] = -2 * a - 400 * at[0] * b, g[1] = 200 * b;
        return a * a + 100 * b * b;
      },
      x, {.tolerance = 1e-9});
  EXPECT_NEAR(x[0], 1, 1e-7);
  EXPECT_NEAR(x[1], 1, 1e-7);
}

TEST(LinearModel, IsScikitLearnsLogisticAndRidgeRegression) {
  const auto golden = golden_linear();
  const Tfidf tfidf(texts_from(golden["train"]));
  const FeatureRows x = tfidf.features(texts_from(golden["train"]));
  const FeatureRows dev_x = tfidf.features(texts_from(golden["dev"]));
  Team team(2);
  const auto check = [&](const char* name, LinearLoss loss, size_t outputs, Problem problem) {
    const auto& expected = golden[name];
    const LinearModel model =
        fit(x, expected["y"].get<std::vector<double>>(), loss, outputs, team, {.tolerance = 1e-10});
    for (size_t k = 0; k < outputs; ++k) {
      for (size_t c = 0; c < x.columns; ++c)
        EXPECT_NEAR(model.numbers[c * outputs + k], expected["weights"][k][c].get<double>(), 2e-6) << name;
      EXPECT_NEAR(model.numbers[x.columns * outputs + k], expected["bias"][k].get<double>(), 2e-6) << name;
    }
    // And as predictions of a data set.
    Dataset train = texts_from(golden["train"]);
    train.problem = problem;
    const bool number = problem == Problem::kRegression;
    if (!number) train.labels = outputs == 1 ? Strings{"0", "1"} : Strings{"0", "1", "2"};
    for (size_t r = 0; r < train.size(); ++r) {
      train.texts[r].value = expected["y"][r];
      if (!number) train.texts[r].labels = {expected["y"][r].get<int32_t>()};
    }
    const Predictions p = fit_and_predict(x, train, dev_x, team);
    ASSERT_EQ(p.scores.size(), dev_x.rows * p.columns);
    for (size_t r = 0; r < dev_x.rows; ++r)
      for (size_t k = 0; k < p.columns; ++k)
        EXPECT_NEAR(p.scores[r * p.columns + k],
                    (number ? expected["predictions"][r] : expected["probabilities"][r][k]).get<double>(),
                    1e-4)
            << name;
  };
  check("two", LinearLoss::kSigmoid, 1, Problem::kSingleLabel);
  check("three", LinearLoss::kSoftmax, 3, Problem::kSingleLabel);
  check("number", LinearLoss::kSquared, 1, Problem::kRegression);
}

TEST(LinearModel, IsTheSameBitsWithAnyTeam) {
  const auto golden = golden_linear();
  const Tfidf tfidf(texts_from(golden["train"]));
  const FeatureRows x = tfidf.features(texts_from(golden["train"]));
  const auto y = golden["three"]["y"].get<std::vector<double>>();
  Team one(1), three(3);
  EXPECT_EQ(fit(x, y, LinearLoss::kSoftmax, 3, one).numbers,
            fit(x, y, LinearLoss::kSoftmax, 3, three).numbers);
}

TEST(Standardize, TakesMeanAndDeviationOfTheTrainingRows) {
  FeatureRows train{.rows = 3, .columns = 2, .values = {1, 0.1f, 2, 0.1f, 3, 0.1f}};
  FeatureRows dev{.rows = 1, .columns = 2, .values = {4, 7}};
  standardize(train, dev);
  const auto s = float(std::sqrt(1.5 / 2));  // over √columns
  const std::vector<float> expected{-s, 0, 0, 0, s, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(train.values[i], expected[i], 1e-6);
  EXPECT_NEAR(dev.values[0], 2 * s, 1e-6);
  EXPECT_EQ(dev.values[1], 0);
}

TEST(FrequentTag, IsEachWordsOwnOrThatOfAll) {
  Dataset train{.kind = TaskKind::kTag, .labels = {"O", "B-LOC", "B-PER"}};
  train.sentences = {{{"Paris", "is", "Paris", "Paris"}, {1, 0, 2, 1}, 1},
                     {{"paris", "is", "is", "Ann", "Ann"}, {2, 0, 0, 2, 1}, 2}};
  Dataset dev = train;
  dev.sentences = {{{"Paris", "Ann", "🙂", "paris"}, {1, 2, 0, 2}, 1}, {{}, {}, 2}};
  const Predictions p = FrequentTag(train).predict(dev);
  EXPECT_EQ(p.tags, (std::vector<std::vector<int32_t>>{{1, 2, 1, 2}, {}}));
  EXPECT_FLOAT_EQ(p.tag_scores[0][0], 2.0f / 3);
  EXPECT_FLOAT_EQ(p.tag_scores[0][1], 0.5f);
}

class TrainBaselines : public testing::Test {
 public:
  TrainBaselines() {
    Config c;
    c.model_type = "bert";
    c.layers = 1, c.hidden = 32, c.heads = 2, c.intermediate = 32, c.vocabulary = 15, c.positions = 20;
    Model::random(c, 1).save(folder_.path());
    std::ofstream(folder_.path() / "vocab.txt")
        << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nfine\npoor\nthe\nfilm\nwas\nbook\nann\nrome\n";
  }

  std::vector<BaselineResult> run(const Dataset& train, const Dataset& dev, int threads = 1) const {
    return train_baselines(train, dev, {.model = folder_.path().string(), .threads = threads});
  }

  // Films and books, good and bad.
  static Dataset reviews(size_t rows, Problem problem, TaskKind kind = TaskKind::kClassify) {
    Random random(rows);
    Dataset data{.kind = kind, .problem = problem};
    if (problem == Problem::kSingleLabel) data.labels = {"bad", "good"};
    if (problem == Problem::kMultiLabel) data.labels = {"book", "good"};
    for (size_t i = 0; i < rows; ++i) {
      const bool good = random.below(2) == 0, book = random.below(2) == 0;
      TextExample row{.a = fmt::format("the {} was {}", book ? "book" : "film", good ? "good" : "bad"),
                      .value = good ? 2.5 : -1.5};
      if (kind == TaskKind::kPair) row.b = good ? "fine" : "poor";
      if (problem == Problem::kSingleLabel) row.labels = {good ? 1 : 0};
      if (problem == Problem::kMultiLabel && book) row.labels.push_back(0);
      if (problem == Problem::kMultiLabel && good) row.labels.push_back(1);
      data.texts.push_back(row);
    }
    return data;
  }

  static Dataset sentences(size_t rows) {
    Random random(rows);
    Dataset data{.kind = TaskKind::kTag, .labels = {"O", "B-LOC", "I-LOC", "B-PER", "I-PER"}};
    for (size_t i = 0; i < rows; ++i) {
      // What "ann" is, the word before it says.
      const bool place = random.below(2) == 0;
      data.sentences.push_back({{place ? "in" : "saw", "ann"}, {0, place ? 1 : 3}, i});
    }
    return data;
  }

  test::TempFolder folder_;
};

TEST_F(TrainBaselines, EveryKindLearnsWhatIsEasy) {
  for (const Problem problem : {Problem::kSingleLabel, Problem::kMultiLabel, Problem::kRegression})
    for (const TaskKind kind : {TaskKind::kClassify, TaskKind::kPair}) {
      const auto results = run(reviews(150, problem, kind), reviews(40, problem, kind), 2);
      ASSERT_EQ(results.size(), 3u);
      for (const BaselineResult& r : results) {
        EXPECT_GE(r.evaluation.scores[0].value, 0.97) << r.name << ", " << int(problem) << int(kind);
        EXPECT_EQ(r.evaluation.rows, 40u);
        EXPECT_GT(r.seconds, 0);
      }
      EXPECT_EQ(results[0].name, problem == Problem::kRegression ? "TF-IDF + ridge regression"
                                                                 : "TF-IDF + logistic regression");
    }
  const auto tags = run(sentences(150), sentences(40));
  ASSERT_EQ(tags.size(), 2u);
  EXPECT_LE(tags[0].evaluation.scores[0].value, 0.9) << tags[0].name;
  EXPECT_EQ(tags[1].evaluation.scores[0].value, 1) << tags[1].name;
}

TEST_F(TrainBaselines, TheSameSeedGivesTheSameNumbersWithAnyThreads) {
  for (const Problem problem : {Problem::kSingleLabel, Problem::kRegression}) {
    // Labels without a reason, so that scores are no round numbers.
    Dataset train = reviews(60, problem), dev = reviews(31, problem);
    Random random(4);
    for (Dataset* data : {&train, &dev})
      for (TextExample& row : data->texts) {
        row.value = random.normal();
        if (problem == Problem::kSingleLabel) row.labels = {int32_t(random.below(2))};
      }
    const auto one = run(train, dev, 1), three = run(train, dev, 3);
    for (size_t i = 0; i < one.size(); ++i)
      for (size_t s = 0; s < one[i].evaluation.scores.size(); ++s)
        EXPECT_EQ(one[i].evaluation.scores[s].value, three[i].evaluation.scores[s].value) << one[i].name;
  }
}

TEST_F(TrainBaselines, OddRowsDoNoHarm) {
  for (const TaskKind kind : {TaskKind::kClassify, TaskKind::kPair}) {
    Dataset train = reviews(20, Problem::kSingleLabel, kind), dev = reviews(1, Problem::kSingleLabel, kind);
    std::string very_long;
    for (int i = 0; i < 3000; ++i) very_long += "good film ";
    for (const std::string& odd : {std::string(), std::string(" "), std::string("🙂"),
                                   std::string("unseen"), std::string("\xff\xfe"), very_long})
      train.texts.push_back({.a = odd, .b = odd, .labels = {1}});
    EXPECT_EQ(run(train, dev).size(), 3u);  // one row to measure with
    for (const BaselineResult& r : run(reviews(20, Problem::kSingleLabel, kind), train))
      EXPECT_EQ(r.evaluation.rows, 26u);
    // Nothing but empty texts.
    for (TextExample& row : train.texts) row.a = row.b = "";
    EXPECT_EQ(run(train, dev).size(), 3u);
  }
  Dataset train = sentences(20), dev = sentences(1);
  train.sentences.push_back({{}, {}, 1});
  train.sentences.push_back({{"🙂"}, {0}, 1});
  train.sentences.push_back({Strings(1500, "ann"), std::vector<int32_t>(1500, 3), 1});
  EXPECT_EQ(run(train, dev).size(), 2u);
  EXPECT_EQ(run(dev, train).size(), 2u);
}

TEST_F(TrainBaselines, ManyClassesOfWhichSomeAreNeverSeen) {
  Dataset train = reviews(30, Problem::kSingleLabel), dev = reviews(10, Problem::kSingleLabel);
  train.labels = dev.labels = {"bad", "good", "neither", "unknown"};
  for (const BaselineResult& r : run(train, dev)) EXPECT_GE(r.evaluation.scores[0].value, 0.9) << r.name;
}

TEST_F(TrainBaselines, WhatCannotBeDoneIsSaid) {
  Dataset answers{.kind = TaskKind::kAnswer};
  answers.questions.resize(1);
  test::expect_error("no baseline for answers", [&] { run(answers, answers); });
  const Dataset train = reviews(10, Problem::kSingleLabel);
  Dataset other = train;
  other.labels = {"x", "y"};
  test::expect_error("different labels", [&] { run(train, other); });
  test::expect_error("rows to measure with", [&] { run(train, Dataset{}); });
}

TEST_F(TrainBaselines, TellsHowFarItIsAndEndsWhenTheCallerThrows) {
  struct Enough {};
  std::vector<std::string> names, done;
  double last = 0;
  BaselineOptions options{.model = folder_.path().string(), .threads = 1};
  options.progress = [&](std::string_view name, double fraction) {
    if (names.empty() || names.back() != name) names.emplace_back(name), last = 0;
    EXPECT_GE(fraction, last);
    EXPECT_LE(fraction, 1);
    last = fraction;
    if (name.starts_with("BiLSTM") && fraction > 0.5) throw Enough{};
  };
  options.done = [&](const BaselineResult& r) { done.push_back(r.name); };
  const Dataset rows = reviews(50, Problem::kSingleLabel);
  EXPECT_THROW(train_baselines(rows, rows, options), Enough);
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(done.size(), 2u);
}

}  // namespace
}  // namespace bertie::baseline
