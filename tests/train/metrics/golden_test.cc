// Scores equal to scikit-learn's, SciPy's, seqeval's, conlleval's and those of SQuAD's scripts, case by case.
#include "train/metrics/bootstrap.h"
#include "train/metrics/entities.h"
#include "train/metrics/golden_metrics.h"
#include "train/metrics/squad.h"
#include "train/metrics/squad_text.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::expect_number;
using test::golden_metrics;

std::string case_number(const json& cases, const json& one) {
  return "case " + std::to_string(&one - &cases[0]);
}

void expect_table(const std::vector<ClassScore>& table, const json& one, const std::string& what) {
  ASSERT_EQ(table.size(), one["classes"].size()) << what;
  for (size_t k = 0; k < table.size(); ++k) {
    expect_number(table[k].precision, one["classes"][k][0], what + ": precision");
    expect_number(table[k].recall, one["classes"][k][1], what + ": recall");
    expect_number(table[k].f1, one["classes"][k][2], what + ": f1");
    EXPECT_EQ(table[k].support, one["support"][k]) << what;
  }
}

TEST(GoldenMetrics, OfOneClassAreScikitLearns) {
  const json cases = golden_metrics("classes");
  EXPECT_GE(cases.size(), 200u);
  for (const json& one : cases) {
    const auto [data, predictions] = test::classes(one["k"], one["t"], one["p"], one["c"]);
    const Evaluation e = score(data, predictions);
    const std::string what = case_number(cases, one);
    EXPECT_EQ(e.scores[0].name, "accuracy");
    test::expect_scores(e, one["scores"], what);
    expect_table(e.classes, one, what);
    const size_t k = one["k"];
    for (size_t r = 0; r < k; ++r)
      for (size_t c = 0; c < k; ++c) EXPECT_EQ(e.confusion[r * k + c], one["confusion"][r][c]) << what;
  }
}

TEST(GoldenMetrics, OfSeveralLabelsAreScikitLearns) {
  const json cases = golden_metrics("label_sets");
  for (const json& one : cases) {
    Dataset data{.problem = Problem::kMultiLabel};
    Predictions predictions{.columns = one["t"][0].size()};
    for (size_t k = 0; k < predictions.columns; ++k) data.labels.push_back(std::to_string(k));
    for (size_t i = 0; i < one["t"].size(); ++i) {
      TextExample& example = data.texts.emplace_back();
      for (size_t k = 0; k < predictions.columns; ++k) {
        if (one["t"][i][k] == 1) example.labels.push_back(int32_t(k));
        predictions.scores.push_back(one["p"][i][k] == 1 ? 0.75f : 0.5f);
      }
    }
    const Evaluation e = score(data, predictions);
    EXPECT_EQ(e.scores[0].name, "f1_micro");
    test::expect_scores(e, one["scores"], case_number(cases, one));
    expect_table(e.classes, one, case_number(cases, one));
  }
}

TEST(GoldenMetrics, OfNumbersAreSciPys) {
  const json cases = golden_metrics("numbers");
  for (const json& one : cases) {
    Dataset data{.problem = Problem::kRegression};
    for (const double value : one["t"]) data.texts.push_back({.a = "text", .value = value});
    const Evaluation e = score(data, {.scores = one["p"], .columns = 1});
    EXPECT_EQ(e.scores[0].name, "pearson");
    test::expect_scores(e, one["scores"], case_number(cases, one));
    EXPECT_TRUE(e.row_scores.empty());
  }
}

// What conlleval would print, in counts: for each kind right, guessed and in the corpus.
json conlleval_counts(const metrics::EntityTags& tags, const json& one, metrics::BorderRule rule) {
  std::vector<metrics::Counts> counts(tags.kinds.size());
  for (size_t i = 0; i < one["t"].size(); ++i) {
    const auto more = count_entities(tags, one["t"][i].get<std::vector<int32_t>>(),
                                     one["p"][i].get<std::vector<int32_t>>(), rule);
    for (size_t k = 0; k < counts.size(); ++k) counts[k] += more[k];
  }
  json types = json::object();
  for (size_t k = 0; k < counts.size(); ++k)
    if (counts[k].seen()) types[tags.kinds[k]] = {counts[k].right, counts[k].predicted, counts[k].support};
  return types;
}

TEST(GoldenMetrics, OfEntitiesAreSeqevalsAndConllevals) {
  const json cases = golden_metrics("tags");
  size_t differ = 0;
  for (const json& one : cases) {
    const auto [data, predictions] = test::sentences(one["labels"], one["t"], one["p"]);
    const std::string what = case_number(cases, one);
    const Evaluation e = score(data, predictions);
    EXPECT_EQ(e.scores[0].name, "f1");
    for (const char* name : {"f1", "precision", "recall", "accuracy"})
      expect_number(test::score_named(e, name), one["seqeval"][name], what + ": " + name);
    for (const ClassScore& kind : e.classes) {
      const json& expected = one["seqeval"]["types"][kind.label.empty() ? "_" : kind.label];
      ASSERT_TRUE(expected.is_array()) << what << ": " << kind.label;
      expect_number(kind.precision, expected[0], what);
      expect_number(kind.recall, expected[1], what);
      expect_number(kind.f1, expected[2], what);
      EXPECT_EQ(kind.support, expected[3]) << what;
    }
    const metrics::EntityTags tags = metrics::entity_tags(data.labels);
    const json conlleval = conlleval_counts(tags, one, metrics::conlleval_border);
    EXPECT_EQ(conlleval, one["conlleval"]["types"]) << what;
    const bool same = conlleval == conlleval_counts(tags, one, metrics::seqeval_border);
    if (tags.ends_or_singles)
      differ += !same;
    else
      EXPECT_TRUE(same) << what << ": with B, I and O they agree";
    expect_number(test::score_named(e, "accuracy"),
                  one["conlleval"]["tags"][0].get<double>() / one["conlleval"]["tags"][1].get<double>(),
                  what);
  }
  EXPECT_GT(differ, 20u) << "the goldens have sequences with E and S that are counted differently";
}

TEST(GoldenMetrics, OfAnswersAreThoseOfSquadsScripts) {
  const json cases = golden_metrics("squad");
  for (const json& one : cases) {
    const std::string what = case_number(cases, one);
    const auto version = one["v"] == 1 ? metrics::SquadVersion::k1 : metrics::SquadVersion::k2;
    Dataset data{.kind = TaskKind::kAnswer, .no_answers = one["v"] == 2};
    Predictions predictions;
    for (size_t i = 0; i < one["questions"].size(); ++i) {
      const json& question = one["questions"][i];
      SquadQuestion& q = data.questions.emplace_back();
      for (const std::string& answer : question["answers"].get<std::vector<std::string>>())
        q.answers.push_back({answer, 0});
      predictions.answers.push_back({question["text"], question["odds"]});
      const metrics::AnswerScore row = score_answer(predictions.answers.back().text, q, version);
      EXPECT_EQ(row.exact, one["exact"][i].get<double>()) << what << " " << question.dump();
      expect_number(row.f1, one["f1"][i], what + " " + question.dump());
    }
    const Evaluation e = score(data, predictions, {.threshold = one["threshold"]});
    EXPECT_EQ(e.scores[0].name, "f1");
    EXPECT_EQ(e.scores.size(), one["scores"].size());
    test::expect_scores(e, one["scores"], what);
    if (one["v"] == 1) continue;
    EXPECT_EQ(e.best_threshold, one["best_threshold"].get<double>()) << what;
    EXPECT_EQ(e.best_exact_threshold, one["best_exact_threshold"].get<double>()) << what;
  }
}

// Whether a code point is in the ranges [first, last, first, last …].
class Ranges {
 public:
  explicit Ranges(const json& ranges) {
    bits_.resize(0x110000);
    for (size_t i = 0; i < ranges.size(); i += 2)
      for (size_t c = ranges[i]; c <= ranges[i + 1].get<size_t>(); ++c) bits_[c] = true;
  }
  bool has(uint32_t point) const { return bits_[point]; }

 private:
  std::vector<bool> bits_;
};

TEST(GoldenMetrics, WordsAndSpacesArePythons) {
  const json table = golden_metrics("unicode");
  const Ranges word(table["word"]), space(table["space"]), assigned(table["assigned"]);
  size_t newer = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    EXPECT_EQ(metrics::is_python_space(c), space.has(c)) << c;
    if (assigned.has(c))
      EXPECT_EQ(metrics::is_python_word(c), word.has(c)) << c;
    else
      newer += metrics::is_python_word(c);
  }
  EXPECT_GT(newer, 0u) << "our tables know letters that this Python does not: the comparison leaves them out";
}

TEST(GoldenMetrics, PercentilesAndMcNemarAreNumPysAndSciPys) {
  const json table = golden_metrics("statistics");
  for (const json& one : table["percentiles"]) {
    std::vector<double> values = one["values"];
    expect_number(metrics::percentile(values, one["share"]), one["expected"], one.dump());
  }
  for (const json& one : table["mcnemar"])
    expect_number(metrics::mcnemar(one["a"], one["b"]), one["p"], one.dump());
}

TEST(AnswerWords, AreInSmallLettersWithoutPunctuationAndArticles) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(metrics::answer_words("The U.S. \"Navy\", a_b"), (Words{"us", "navy", "ab"}));
  EXPECT_EQ(metrics::answer_words("an A the THE"), Words{});
  EXPECT_EQ(metrics::answer_words("theatre another"), (Words{"theatre", "another"}));
  EXPECT_EQ(metrics::answer_words("ΟΔΟΣ ΑΣ'Α Σ"), (Words{"οδος", "ασα", "σ"}));
  EXPECT_EQ(metrics::answer_words("the–bridge"), Words{"–bridge"}) << "a dash is no letter, and stays";
  EXPECT_EQ(metrics::answer_words("file\x1Cseparator"), (Words{"file", "separator"}));
}

}  // namespace
}  // namespace bertie
