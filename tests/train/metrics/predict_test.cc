// What models say of labelled rows: labels in any order, tags of words, answers out of windows.
#include "bertie/evaluate.h"
#include "bertie/utf8.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "tasks/golden_tasks.h"

namespace bertie {
namespace {

using Labels = std::vector<std::string>;

TextModel golden(const char* name) { return load(test::golden_task(name), {.threads = 1}); }

// A golden model whose labels have other names.
class RenamedModel {
 public:
  RenamedModel(const char* name, const Labels& labels) {
    for (const auto& entry : std::filesystem::directory_iterator(test::golden_task(name)))
      std::filesystem::copy_file(entry.path(), folder_.path() / entry.path().filename());
    std::ifstream in(folder_.path() / "config.json");
    nlohmann::json config = nlohmann::json::parse(in);
    config["id2label"] = nlohmann::json::object(), config["label2id"] = nlohmann::json::object();
    for (size_t i = 0; i < labels.size(); ++i)
      config["id2label"][std::to_string(i)] = labels[i], config["label2id"][labels[i]] = i;
    folder_.write("config.json", config.dump());
  }
  TextModel load() const { return bertie::load(folder_.path(), {.threads = 1}); }

 private:
  test::TempFolder folder_;
};

Dataset texts(const Labels& labels, TaskKind kind = TaskKind::kClassify) {
  Dataset data{.kind = kind, .labels = labels};
  for (const char* text :
       {"A fine film.", "The harbour is old.", "Nobody came.", "", "Anna opened a bakery."})
    data.texts.push_back({.a = text, .b = kind == TaskKind::kPair ? "It rained." : "", .labels = {0}});
  return data;
}

void expect_scores_of(const TextModel& model, const Dataset& data, Apply apply) {
  const Predictions p = predict(model, data);
  ASSERT_EQ(p.columns, data.labels.size());
  ASSERT_EQ(p.scores.size(), data.size() * p.columns);
  for (size_t i = 0; i < data.size(); ++i) {
    const TextExample& row = data.texts[i];
    const Classification one = data.kind == TaskKind::kPair ? model.classify(row.a, row.b, {.apply = apply})
                                                            : model.classify(row.a, {.apply = apply});
    for (const Scored& scored : one.labels) {
      const auto place = std::find(data.labels.begin(), data.labels.end(), scored.label);
      EXPECT_EQ(p.scores[i * p.columns + size_t(place - data.labels.begin())], scored.score);
    }
  }
}

TEST(Predict, GivesProbabilitiesInTheOrderOfTheDatasLabels) {
  const TextModel model = golden("text-classification-bert");
  expect_scores_of(model, texts({"negative", "neutral", "positive"}), Apply::kSoftmax);
  expect_scores_of(model, texts({"positive", "negative", "neutral"}), Apply::kSoftmax);
  expect_scores_of(model, texts({"positive", "negative", "neutral"}, TaskKind::kPair), Apply::kSoftmax);
}

TEST(Predict, SeveralLabelsAreProbableEachByItself) {
  const TextModel model = golden("text-classification-distilbert");
  Dataset data = texts(model.model().config().labels);
  data.problem = Problem::kMultiLabel;
  std::reverse(data.labels.begin(), data.labels.end());
  expect_scores_of(model, data, Apply::kSigmoid);
}

TEST(Predict, NumbersAreTheModelsOwn) {
  const TextModel model = golden("text-classification-albert");
  Dataset data = texts({});
  data.problem = Problem::kRegression;
  const Predictions p = predict(model, data);
  ASSERT_EQ(p.columns, 1u);
  for (size_t i = 0; i < data.size(); ++i)
    EXPECT_EQ(p.scores[i], model.classify(data.texts[i].a).labels[0].score);
  test::expect_error("the data has numbers, but this model has 3 labels",
                     [&] { predict(golden("text-classification-bert"), data); });
}

TEST(Predict, NumberedLabelsAreTakenByTheirPlaces) {
  const RenamedModel numbered("text-classification-bert", {"LABEL_0", "LABEL_1", "LABEL_2"});
  const Predictions named =
      predict(golden("text-classification-bert"), texts({"negative", "neutral", "positive"}));
  EXPECT_EQ(predict(numbered.load(), texts({"bad", "good", "so so"})).scores, named.scores);
  test::expect_error("the labels of the model are not those of the data", [&] {
    predict(numbered.load(), texts({"bad", "good"}));
  });
}

TEST(Predict, OtherLabelsAreNamed) {
  const TextModel model = golden("text-classification-bert");
  test::expect_error(R"(the model has no "good", and the data has no "negative", "neutral")", [&] {
    predict(model, texts({"good", "positive"}));
  });
  test::expect_error("cannot classify texts", [&] {
    predict(golden("token-classification-bert"), texts({"a", "b"}));
  });
}

TEST(WithLabelsOf, AddsLabelsThatASmallFileLacks) {
  const TextModel model = golden("text-classification-bert");
  const Dataset few = with_labels_of(model, texts({"positive"}));
  EXPECT_EQ(few.labels, (Labels{"negative", "neutral", "positive"}));
  EXPECT_EQ(few.texts[0].labels, std::vector<int32_t>{2});
  EXPECT_EQ(predict(model, few).columns, 3u);
  EXPECT_EQ(with_labels_of(model, texts({"positive", "neutral", "negative"})).labels,
            (Labels{"positive", "neutral", "negative"}))
      << "the same labels stay in the data's order";
  Dataset unlabeled = texts({});
  unlabeled.labeled = false;
  EXPECT_EQ(with_labels_of(model, unlabeled).labels, (Labels{"negative", "neutral", "positive"}));
  EXPECT_THROW(with_labels_of(model, texts({"good", "bad"})), Error);
}

TEST(Predict, CountsRowsThatWereCut) {
  Dataset data = texts({"negative", "neutral", "positive"});
  for (int i = 0; i < 300; ++i) data.texts[1].a += " harbour";
  EXPECT_EQ(predict(golden("text-classification-bert"), data).truncated, 1u);
}

Dataset sentences(const std::vector<std::vector<std::string>>& words, const Labels& labels) {
  Dataset data{.kind = TaskKind::kTag, .labels = labels};
  for (const auto& one : words) data.sentences.push_back({one, std::vector<int32_t>(one.size()), 1});
  return data;
}

TEST(Predict, AWordHasTheTagOfItsFirstToken) {
  const Labels reversed{"I-LOC", "B-LOC", "I-PER", "B-PER", "O"};
  for (const char* name : {"token-classification-bert", "token-classification-roberta",
                           "token-classification-albert", "token-classification-distilbert"}) {
    const TextModel model = golden(name);
    const Dataset data =
        sentences({{"Anna", "Lindqvist", "opened", "unbelievable", "bakeries", "."}}, reversed);
    const Predictions p = predict(model, data);
    const auto tokens = model.tag("Anna Lindqvist opened unbelievable bakeries .",
                                  {.aggregation = Aggregation::kNone, .keep_outside = true});
    EXPECT_GT(tokens.entities.size(), 6u) << "words are several tokens";
    uint32_t begin = 0;
    for (size_t w = 0; w < data.sentences[0].words.size(); ++w) {
      const auto end = begin + uint32_t(data.sentences[0].words[w].size());
      const auto first = std::find_if(tokens.entities.begin(), tokens.entities.end(),
                                      [&](const Entity& e) { return e.offset.end > begin; });
      ASSERT_LT(first->offset.begin, end);
      EXPECT_EQ(reversed[size_t(p.tags[0][w])], first->label) << name << " word " << w;
      EXPECT_EQ(p.tag_scores[0][w], first->score);
      begin = end + 1;
    }
  }
}

TEST(Predict, AWordWithoutTokensIsOutside) {
  const TextModel model = golden("token-classification-bert");
  const Labels& labels = model.model().config().labels;
  const Predictions p = predict(model, sentences({{"Anna", "\u200b", "came"}, {}, {"\u00ad"}}, labels));
  ASSERT_EQ(p.tags.size(), 3u);
  EXPECT_EQ(p.tags[0][1], 0);
  EXPECT_TRUE(p.tags[1].empty());
  EXPECT_EQ(p.tags[2], std::vector<int32_t>{0});
  const Predictions alone = predict(model, sentences({{"Anna", "came"}}, labels));
  EXPECT_EQ(alone.tags[0].size(), 2u);
}

TEST(Predict, WithoutOAWordWithoutTokensHasNoTag) {
  const RenamedModel tagger("token-classification-bert", {"ADJ", "DET", "NOUN", "PUNCT", "VERB"});
  const Dataset data = sentences({{"Anna", "\u200b"}}, {"ADJ", "DET", "NOUN", "PUNCT", "VERB"});
  const Predictions p = predict(tagger.load(), data);
  EXPECT_EQ(p.tags[0][1], -1);
  const Evaluation e = score(data, p);
  EXPECT_EQ(e.scores[0].name, "accuracy");
  EXPECT_LE(e.scores[0].value, 0.5);
}

TEST(Predict, LongSentencesAreTaggedToTheEnd) {
  const TextModel model = golden("token-classification-bert");
  std::vector<std::string> words;
  for (int i = 0; i < 200; ++i) words.push_back(i % 3 ? "Gothenburg" : "harbour");
  const Predictions p = predict(model, sentences({words}, model.model().config().labels));
  EXPECT_EQ(p.tags[0].size(), 200u);
  for (const float s : p.tag_scores[0]) EXPECT_GT(s, 0) << "every word was seen";
}

Dataset questions() {
  Dataset data{.kind = TaskKind::kAnswer};
  data.questions.push_back({"1", "Who came?", "Anna Lindqvist came to Gothenburg in 1912.", {{"Anna", 0}}});
  std::string context;
  for (int i = 0; i < 60; ++i) context += "The old harbour är närmast bageriet. ";
  data.questions.push_back({"2", "Where is the bakery?", context, {{"harbour", 8}}});
  data.questions.push_back({"3", "What is here?", "", {}});
  return data;
}

TEST(Predict, AnswersAreCutFromTheContext) {
  for (const char* name : {"question-answering-bert", "question-answering-roberta"}) {
    Dataset data = questions();
    size_t calls = 0;
    const auto count = [&](size_t, size_t of) { calls += of == 3; };
    const Predictions p = predict(golden(name), data, {.progress = count});
    ASSERT_EQ(p.answers.size(), 3u);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_FALSE(p.answers[i].text.empty());
      EXPECT_NE(data.questions[i].context.find(p.answers[i].text), std::string::npos);
      EXPECT_TRUE(is_valid_utf8(p.answers[i].text));
      EXPECT_GT(p.answers[i].probability, 0);
      EXPECT_LE(p.answers[i].probability, 1);
    }
    EXPECT_EQ(p.answers[2].text, "") << "there is nothing to cut from";
    EXPECT_GT(calls, 0u);
    EXPECT_NO_THROW(predict(golden(name), data, {.max_length = 40, .stride = 128})) << "at most half";
    for (int i = 0; i < 100; ++i) data.questions[0].question += " harbour";
    EXPECT_FALSE(predict(golden(name), data).answers[0].text.empty()) << "there is room for the context";
  }
}

TEST(Evaluate, IsPredictAndScore) {
  const TextModel model = golden("text-classification-bert");
  const Dataset few = texts({"negative"});
  const Evaluation e = evaluate(model, few, {}, {.resamples = 20});
  const Dataset all = with_labels_of(model, few);
  const Evaluation same = score(all, predict(model, all), {.resamples = 20});
  ASSERT_EQ(e.scores.size(), same.scores.size());
  for (size_t i = 0; i < e.scores.size(); ++i) {
    EXPECT_EQ(e.scores[i].value, same.scores[i].value);
    EXPECT_EQ(e.scores[i].low, same.scores[i].low);
  }
  EXPECT_EQ(e.rows, 5u);
  EXPECT_EQ(e.labels.size(), 3u);
}

}  // namespace
}  // namespace bertie
