// Questions: SQuAD's JSON and JSON lines, answers and their places; and real sets, where they are.
#include <gtest/gtest.h>

#include <map>

#include "bertie/dataset.h"
#include "bertie/utf8.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::expect_error;
using test::TempFolder;
using Strings = std::vector<std::string>;

Dataset questions(const std::string& name, std::string_view text, const DatasetOptions& options = {}) {
  const TempFolder folder;
  return read_dataset(TaskKind::kAnswer, folder.write(name, text).string(), options);
}
std::string squad(const std::string& context, const std::string& qas) {
  return "{\"version\": \"v2.0\", \"data\": [{\"title\": \"t\", \"paragraphs\": [{\"qas\": [" + qas +
         "], \"context\": \"" + context + "\"}]}]}";
}
std::string question(const std::string& answers, const std::string& more = "") {
  return "{\"id\": \"i7\", \"question\": \"Who?\", \"answers\": " + answers + more + "}";
}

TEST(Squad, QuestionsHaveTheirContextWhicheverComesFirst) {
  const Dataset data = questions(
      "a.json",
      squad("Ännä came.",
            question(
                "[{\"text\": \"came\", \"answer_start\": 5}, {\"answer_start\": 0, \"text\": \"Ännä\"}]")));
  ASSERT_EQ(data.size(), 1u);
  const SquadQuestion& q = data.questions[0];
  EXPECT_EQ(q.id, "i7");
  EXPECT_EQ(q.question, "Who?");
  EXPECT_EQ(q.context, "Ännä came.");
  ASSERT_EQ(q.answers.size(), 2u);
  EXPECT_EQ(q.answers[0].text, "came");
  EXPECT_EQ(q.answers[0].start, 5u) << "in code points";
  EXPECT_EQ(q.line, 0u);
  EXPECT_FALSE(data.no_answers);
  EXPECT_EQ(data.found, "SQuAD's JSON, version v2.0");
}

TEST(Squad, QuestionsMayHaveNoAnswer) {
  const Dataset data =
      questions("a.json", squad("c", question("[]",
                                              ", \"is_impossible\": true, \"plausible_answers\": [{\"text\": "
                                              "\"zz\", \"answer_start\": 9}]")));
  EXPECT_TRUE(data.questions[0].answers.empty());
  EXPECT_TRUE(data.no_answers);
  EXPECT_TRUE(data.labeled);
  const Dataset impossible = questions(
      "a.json",
      squad("c", question("[{\"text\": \"zz\", \"answer_start\": 0}]", ", \"is_impossible\": true")));
  EXPECT_TRUE(impossible.questions[0].answers.empty());
}

TEST(Squad, AnswersThatAreNotWhereTheySayAreBad) {
  const auto refused = [](const std::string& answer, const std::string& part) {
    expect_error(part, [&] { questions("a.json", squad("Anna came home.", question(answer))); });
  };
  refused("[{\"text\": \"came\", \"answer_start\": 4}]",
          "a.json: question \"i7\": the answer \"came\" is not at 4 of its context, which says \" came ho\" "
          "there");
  refused("[{\"text\": \"came\", \"answer_start\": 99}]", "past the end");
  refused("[{\"text\": \"home.x\", \"answer_start\": 10}]", "is not at 10");
  refused("[{\"text\": \"\", \"answer_start\": 4}]", "an answer is empty");
  refused("[{\"text\": \"came\", \"answer_start\": -1}]", "no answer_start");
  refused("[{\"text\": \"came\"}]", "no answer_start");
  refused("[{\"text\": [\"came\"], \"answer_start\": 5}]", "no text");
  refused("\"came\"", "there are no \"answers\"");
  expect_error("no \"question\"",
               [] { questions("a.json", squad("c", "{\"id\": \"1\", \"answers\": []}")); });
  expect_error("no \"context\"", [] {
    questions("a.json", "{\"data\": [{\"paragraphs\": [{\"qas\": [" + question("[]") + "]}]}]}");
  });
  std::vector<std::string> told;
  const Dataset data = questions(
      "a.json", squad("Anna", question("[{\"text\": \"x\", \"answer_start\": 0}]") + "," + question("[]")),
      {.skip_bad = true, .bad_row = [&](const Error& e) { told.push_back(e.what()); }});
  EXPECT_EQ(data.size(), 1u);
  EXPECT_EQ(data.bad_rows, 1u);
  EXPECT_EQ(told.size(), 1u);
}

// SQuAD's scripts score by the text alone.
TEST(Squad, AnswersMayStandElsewhereWhereOnlyTheirTextsCount) {
  const DatasetOptions scoring{.places_needed = false};
  const Dataset squad = questions(
      "a.json", R"({"data": [{"paragraphs": [{"context": "Ann came.", "qas": [{"id": "1", "question": "Who?",
      "answers": [{"text": "Ann", "answer_start": 3}]}]}]}]})",
      scoring);
  EXPECT_EQ(squad.questions.at(0).answers.at(0).text, "Ann");
  const Dataset lines = questions(
      "a.jsonl",
      R"({"question": "Who?", "context": "Ann came.", "answers": {"text": ["Ann"], "answer_start": [77]}})",
      scoring);
  EXPECT_EQ(lines.questions.at(0).answers.at(0).text, "Ann");
}

TEST(Squad, AnAnswerThatDiffersInWhiteSpaceIsWhatTheContextSays) {
  const auto text = [](const std::string& answer) {
    return questions("a.json", squad("in  New\\u00a0York City.",
                                     question("[{\"text\": \"" + answer + "\", \"answer_start\": 4}]")))
        .questions[0]
        .answers[0]
        .text;
  };
  EXPECT_EQ(text("New York"), "New\u00a0York");
  EXPECT_EQ(text("New  York  City. "), "New\u00a0York City.");
  EXPECT_EQ(text(" New"), "New");
  expect_error("is not at 4", [&] { text("NewYork"); });
  expect_error("is not at 4", [&] { text("Ne w"); });
}

TEST(Squad, BrokenJsonIsAnErrorOfTheFile) {
  expect_error("a.json: not valid JSON", [] { questions("a.json", "{\"data\": [{\"paragraphs\": ["); });
  expect_error("no list \"data\"", [] { questions("a.json", "{\"data\": 7}"); });
  expect_error("nested deeper", [] { questions("a.json", "{\"data\": " + std::string(500, '[')); });
  EXPECT_THROW(questions("a.json", "{\"version\": \"1.1\""), Error);
}

TEST(JsonQuestions, HaveAnswersInEitherForm) {
  const Dataset data = questions(
      "a.jsonl",
      "{\"id\": \"x\", \"question\": \"q\", \"context\": \"é came\", \"answers\": {\"text\": [\"came\"], "
      "\"answer_start\": [2]}}\n"
      "{\"question\": \"r\", \"context\": \"c\", \"answers\": {\"text\": [], \"answer_start\": []}}\n"
      "{\"question\": \"s\", \"context\": \"c\", \"answers\": [{\"text\": \"c\", \"answer_start\": 0}]}\n");
  ASSERT_EQ(data.size(), 3u);
  EXPECT_EQ(data.questions[0].id, "x");
  EXPECT_EQ(data.questions[1].id, "2");
  EXPECT_EQ(data.questions[0].answers[0].start, 2u);
  EXPECT_EQ(data.questions[2].line, 3u);
  EXPECT_TRUE(data.no_answers);
  const auto refused = [](const std::string& answers, const std::string& part) {
    expect_error(part, [&] {
      questions("a.jsonl", "{\"question\": \"q\", \"context\": \"c\", \"answers\": " + answers + "}\n");
    });
  };
  refused("null", ":1: there are no answers");
  refused("{\"text\": [\"c\"], \"answer_start\": []}", ":1: \"answers\" are not");
  refused("{\"text\": [7], \"answer_start\": [0]}", ":1: an answer's \"text\" is not a string");
  refused("[{\"text\": \"c\"}]", ":1: an answer has no \"text\"");
  refused("{\"text\": [\"d\"], \"answer_start\": [0]}", ":1: the answer \"d\" is not at 0");
  expect_error("has no form for answers", [] { questions("a.csv", "question,context,answers\nq,c,a\n"); });
  expect_error("usual name for the context", [] {
    questions("a.jsonl", "{\"question\": \"q\", \"ctx\": \"c\", \"more\": 1, \"answers\": []}\n");
  });
}

struct Counts {
  const char* file;
  TaskKind kind;
  size_t rows, labels;
};

TEST(RealSets, AreReadWholeAndWithoutABadRow) {
  const Counts all[] = {{"glue/SST-2/train.tsv", TaskKind::kClassify, 67349, 2},
                        {"glue/SST-2/dev.tsv", TaskKind::kClassify, 872, 2},
                        {"glue/CoLA/train.tsv", TaskKind::kClassify, 8551, 2},
                        {"glue/CoLA/dev.tsv", TaskKind::kClassify, 1043, 2},
                        {"glue/MRPC/train.tsv", TaskKind::kPair, 3668, 2},
                        {"glue/MRPC/dev.tsv", TaskKind::kPair, 408, 2},
                        {"glue/RTE/train.tsv", TaskKind::kPair, 2490, 2},
                        {"glue/RTE/dev.tsv", TaskKind::kPair, 277, 2},
                        {"glue/STS-B/train.tsv", TaskKind::kPair, 5749, 0},
                        {"glue/STS-B/dev.tsv", TaskKind::kPair, 1500, 0},
                        {"conll2003/eng.train", TaskKind::kTag, 14041, 9},
                        {"conll2003/eng.testa", TaskKind::kTag, 3250, 9},
                        {"conll2003/eng.testb", TaskKind::kTag, 3453, 9},
                        {"squad/dev-v1.1.json", TaskKind::kAnswer, 10570, 0},
                        {"squad/v2-part.json", TaskKind::kAnswer, 6078, 0},
                        {"wic/train.jsonl", TaskKind::kClassify, 5228, 2},
                        {"ud-english-ewt/en_ewt-ud-dev.conllu", TaskKind::kTag, 2001, 17}};
  BERTIE_NEEDS(test::data("tasks/glue"));
  for (const Counts& set : all) {
    const auto file = test::data("tasks") / set.file;
    ASSERT_TRUE(std::filesystem::exists(file)) << file;
    const Dataset data = read_dataset(set.kind, file.string());
    EXPECT_EQ(data.size(), set.rows) << set.file;
    EXPECT_EQ(data.labels.size(), set.labels) << set.file;
    EXPECT_EQ(data.bad_rows + data.invalid_rows, 0u) << set.file;
    check_learnable(data);
  }
}

TEST(RealSets, HaveTheEntitiesAndAnswersThatOthersCount) {
  BERTIE_NEEDS(test::data("tasks/conll2003"));
  const Dataset train = read_dataset(TaskKind::kTag, test::data("tasks/conll2003/eng.train").string());
  EXPECT_EQ(train.found, "CoNLL, columns 1 and 4, IOB1");
  std::map<std::string, size_t> entities;
  size_t words = 0;
  for (const TaggedSentence& sentence : train.sentences) {
    words += sentence.words.size();
    for (const int32_t tag : sentence.tags)
      if (train.labels[size_t(tag)].starts_with("B-")) ++entities[train.labels[size_t(tag)].substr(2)];
  }
  EXPECT_EQ(words, 203621u);
  // As the shared task's page has them.
  EXPECT_EQ(entities,
            (std::map<std::string, size_t>{{"LOC", 7140}, {"MISC", 3438}, {"ORG", 6321}, {"PER", 6600}}));
  const Dataset squad = read_dataset(TaskKind::kAnswer, test::data("tasks/squad/v2-part.json").string());
  size_t impossible = 0, answers = 0;
  for (const SquadQuestion& q : squad.questions) {
    impossible += q.answers.empty();
    answers += q.answers.size();
    const CodePoints context(q.context);
    for (const SquadQuestion::Answer& a : q.answers) {
      const auto end = uint32_t(a.start + CodePoints(a.text).size());
      EXPECT_EQ(context.at({uint32_t(a.start), end}), a.text);
    }
  }
  EXPECT_EQ(impossible, 3168u);
  EXPECT_EQ(answers, 10052u);
  EXPECT_TRUE(squad.no_answers);
}

}  // namespace
}  // namespace bertie
