// Labelled data as people have it: formats, columns, labels, bad rows; splits.
#include "bertie/dataset.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "../io/packed.h"
#include "bertie/table.h"
#include "support/data.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using test::expect_error;
using test::TempFolder;
using Strings = std::vector<std::string>;

Dataset read_as(TaskKind kind, const std::string& name, std::string_view text,
                const DatasetOptions& options = {}) {
  const TempFolder folder;
  Dataset data = read_dataset(kind, folder.write(name, text).string(), options);
  data.file = name;
  return data;
}
Dataset classify(const std::string& name, std::string_view text, const DatasetOptions& options = {}) {
  return read_as(TaskKind::kClassify, name, text, options);
}
Dataset pairs(const std::string& name, std::string_view text, const DatasetOptions& options = {}) {
  return read_as(TaskKind::kPair, name, text, options);
}

// The Error that reading gives.
Error error_of(TaskKind kind, const std::string& name, std::string_view text,
               const DatasetOptions& options = {}) {
  try {
    read_as(kind, name, text, options);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown for " << text;
  return Error("nothing");
}
void expect_refused(TaskKind kind, const std::string& name, std::string_view text, const std::string& part,
                    const DatasetOptions& options = {}) {
  const std::string what = error_of(kind, name, text, options).what();
  EXPECT_NE(what.find(part), what.npos) << what << "\nexpected in it: " << part;
}

Strings label_names(const Dataset& data) {
  Strings names;
  for (const TextExample& row : data.texts) {
    std::string all;
    for (const int32_t label : row.labels) all += (all.empty() ? "" : "+") + data.labels.at(size_t(label));
    names.push_back(all);
  }
  return names;
}

TEST(DatasetTexts, GluesTablesAreReadAsTheyCome) {
  const Dataset sst = classify("dev.tsv", "sentence\tlabel\na fine film \t1\nbleak \t0\n");
  EXPECT_EQ(sst.labels, (Strings{"0", "1"}));
  EXPECT_EQ(sst.texts[0].a, "a fine film ");
  EXPECT_EQ(sst.texts[0].labels, std::vector<int32_t>{1});
  EXPECT_EQ(sst.texts[1].line, 3u);
  EXPECT_EQ(sst.problem, Problem::kSingleLabel);
  EXPECT_EQ(sst.found, "TSV without quotes, columns sentence and label");

  const Dataset cola = classify("train.tsv", "gj04\t1\t\tThey, drank.\nbc01\t0\t*\tThey drank the.\n");
  EXPECT_EQ(cola.labels, (Strings{"0", "1"}));
  EXPECT_EQ(cola.texts[1].a, "They drank the.");
  EXPECT_EQ(label_names(cola), (Strings{"1", "0"}));
  EXPECT_EQ(cola.found, "TSV without quotes, no header, columns 4 and 2");

  const Dataset mrpc =
      pairs("dev.tsv",
            "\xEF\xBB\xBFQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tHe said .\t\" No .\n"
            "0\t3\t4\t\" It\" is .\tSo .\n");
  EXPECT_EQ(mrpc.texts[0].b, "\" No .");
  EXPECT_EQ(mrpc.texts[1].a, "\" It\" is .");
  EXPECT_EQ(label_names(mrpc), (Strings{"1", "0"}));

  const Dataset rte = pairs(
      "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n1\tC.\tD.\tentailment\n");
  EXPECT_EQ(rte.labels, (Strings{"entailment", "not_entailment"}));

  const Dataset sts = pairs(
      "dev.tsv",
      "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
      "0\tm\tf\t2012\t0\tnone\tnone\tA man.\tA woman.\t5.000\n1\tm\tf\t2012\t1\tnone\tnone\tA.\tB.\t2.750\n");
  EXPECT_EQ(sts.problem, Problem::kRegression);
  EXPECT_TRUE(sts.labels.empty());
  EXPECT_EQ(sts.texts[0].value, 5.0);
  EXPECT_EQ(sts.texts[1].value, 2.75);
}

TEST(DatasetTexts, ColumnsAreFoundByUsualNamesInAnyLetters) {
  EXPECT_EQ(classify("a.csv", "id,Review,Sentiment\n1,x,good\n2,y,bad\n").texts[1].a, "y");
  EXPECT_EQ(classify("a.csv", ",text,class\n0,x,a\n1,y,b\n").texts[1].a, "y") << "pandas' index";
  EXPECT_EQ(pairs("a.csv", "premise,hypothesis,gold_label\nx,y,a\n").texts[0].b, "y");
  EXPECT_EQ(pairs("a.csv", "Question 1,question_2,is_duplicate\nx,y,0\n").texts[0].b, "y");
  EXPECT_EQ(pairs("a.jsonl", "{\"text\": \"x\", \"text_pair\": \"y\", \"label\": 0}\n").texts[0].b, "y");
  EXPECT_EQ(classify("a.csv", "what they wrote,label\nx,a\n").texts[0].a, "x") << "what is left over";
  EXPECT_EQ(pairs("a.csv", "one,label,two\nx,a,y\n").texts[0].b, "y");
}

TEST(DatasetTexts, ColumnsAreFoundByAWordOfTheirNames) {
  const Dataset data = classify("a.csv", "id,Review Text,Stars Given\n1,x,five\n2,y,two\n");
  EXPECT_EQ(data.texts[1].a, "y");
  EXPECT_EQ(data.labels, (Strings{"five", "two"}));
  EXPECT_EQ(classify("a.csv", "text_id,reviewText,starRating\n1,x,5\n2,y,2\n").texts[0].a, "x")
      << "an id is no text";
  EXPECT_EQ(classify("a.csv", "Clothing ID,Title,Review Text,Rating\n1,t,x,5\n2,t,y,2\n").texts[0].a, "x")
      << "a title is often beside the text";
  expect_refused(TaskKind::kClassify, "a.csv", "text,pos_x,pos_y\nx,1,a\n", "no column has a usual name");
  EXPECT_EQ(classify("a.csv", "my_text,text,label\nx,y,a\n").texts[0].a, "y") << "a whole name before a word";
  expect_refused(TaskKind::kClassify, "a.csv", "id,context,label\n1,x,a\n", "no column has a usual name");
  expect_refused(TaskKind::kClassify, "a.csv", "id,old text,new text,label\n1,x,y,a\n",
                 "no column has a usual name");
}

TEST(DatasetTexts, ColumnsMayBeNamedOrNumbered) {
  const char* text = "text,other,label,note\nx,y,a,1\nz,w,b,2\n";
  EXPECT_EQ(classify("a.csv", text, {.text = "other"}).texts[0].a, "y");
  EXPECT_EQ(classify("a.csv", text, {.text = "OTHER", .label = "note"}).labels, (Strings{"1", "2"}));
  EXPECT_EQ(classify("a.csv", text, {.text = "2", .label = "4"}).texts[1].a, "w");
  EXPECT_EQ(classify("a.csv", "fine,good\nso so,bad\nok,good\n", {.text = "1", .label = "2"}).size(), 3u);
  EXPECT_EQ(pairs("a.csv", text, {.text = "other", .text_pair = "text"}).texts[0].b, "x");
  EXPECT_EQ(classify("a.csv", "2,text,label\nx,y,a\n", {.text = "2"}).texts[0].a, "x")
      << "a name before a number";
}

TEST(DatasetTexts, AWrongColumnIsAnErrorWithTheColumnsAndTheNearest) {
  const Error wrong = error_of(TaskKind::kClassify, "a.csv", "text,sentiment\nx,a\n", {.label = "sentimant"});
  EXPECT_NE(
      std::string(wrong.what()).find("has no column \"sentimant\": its columns are \"text\", \"sentiment\""),
      std::string::npos)
      << wrong.what();
  EXPECT_EQ(wrong.hint(), "did you mean \"sentiment\"?");
  EXPECT_EQ(wrong.field(), "label");
  EXPECT_EQ(error_of(TaskKind::kClassify, "a.csv", "text,label\nx,a\n", {.text = "3"}).field(), "text");
  EXPECT_EQ(error_of(TaskKind::kPair, "a.csv", "text,label\nx,a\n", {.text_pair = "b"}).field(), "text_pair");
  EXPECT_EQ(error_of(TaskKind::kPair, "a.csv", "text,label\nx,a\n").field(), "text");
  EXPECT_EQ(error_of(TaskKind::kPair, "a.csv", "text,label,x,y\nx,a,b,c\n", {.text = "text"}).field(),
            "text_pair");
  const Error none = error_of(TaskKind::kClassify, "a.csv", "id,what,why\n1,x,a\n");
  EXPECT_EQ(none.field(), "text");
  EXPECT_NE(std::string(none.what()).find("its columns are \"id\", \"what\", \"why\""), std::string::npos)
      << none.what();
  EXPECT_NE(error_of(TaskKind::kClassify, "a.tsv", "index\tsentence1\tsentence2\tlabel\n0\tx\ty\ta\n")
                .hint()
                .find("pairs"),
            std::string::npos);
  const Error headless = error_of(TaskKind::kClassify, "a.csv", "fine,good\nso so,bad\nok,good\n");
  EXPECT_NE(std::string(headless.what()).find("no header, and its first row is 1 \"fine\", 2 \"good\""),
            std::string::npos)
      << headless.what();
  const Error twice = error_of(TaskKind::kClassify, "a.csv", "text,label,text\nx,a,y\n");
  EXPECT_NE(std::string(twice.what()).find("two columns \"text\""), std::string::npos) << twice.what();
  EXPECT_EQ(classify("a.csv", "text,label,text\nx,a,y\n", {.text = "3"}).texts[0].a, "y");
  EXPECT_NE(std::string(error_of(TaskKind::kClassify, "a.jsonl", "{\"text\": \"x\"}\n").what())
                .find("its keys are \"text\""),
            std::string::npos);
}

TEST(DatasetTexts, AColumnIsNotTextAndLabelAtOnce) {
  expect_error("the column \"text\" cannot be `text` and `label` at once",
               [] { classify("a.csv", "text,label\na,x\n", {.text = "text", .label = "text"}); });
  expect_error("cannot be `text` and `label` at once",
               [] { classify("a.csv", "text,x,y\na,1,0\n", {.text = "x", .label = "x,y"}); });
  expect_error("cannot be `text` and `text_pair` at once",
               [] { pairs("a.csv", "a,b,label\na,b,x\n", {.text = "a", .text_pair = "a"}); });
  expect_error("cannot be `text_pair` and `label` at once",
               [] { pairs("a.csv", "a,b,label\na,b,x\n", {.text_pair = "label", .label = "label"}); });
  // A name that is usual for labels is a text where somebody says so.
  const Dataset kinds = classify("a.csv", "topic,kind\nrain,x\nsun,y\n", {.text = "topic"});
  EXPECT_EQ(kinds.texts.at(0).a, "rain");
  EXPECT_EQ(kinds.labels, (Strings{"x", "y"}));
  EXPECT_EQ(classify("a.csv", "text,label\na,x\n", {.label = "text"}).texts.at(0).a, "x")
      << "what is left over";
  EXPECT_EQ(pairs("a.csv", "a,b,label\nu,v,x\n", {.text = "a", .text_pair = "label"}).labels, (Strings{"v"}));
}

TEST(DatasetTexts, AWordOfAColumnsNameSuggestsIt) {
  try {
    classify("a.csv", "Review Text,Stars Given\na,x\n", {.text = "text"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("did you mean \"Review Text\"?"), std::string::npos) << error.hint();
  }
}

TEST(DatasetTexts, ALabelMayBeWhatIsLeftOver) {
  EXPECT_EQ(classify("a.csv", "txt,lbl\na,x\nb,y\n", {.text = "txt"}).labels, (Strings{"x", "y"}));
  try {
    classify("a.csv", "txt,lbl,other\na,x,1\nb,y,2\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("`label` which one has the label"), std::string::npos) << error.hint();
  }
}

TEST(DatasetLabels, AListAmongLabelsIsABadRow) {
  const std::string rows =
      "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": [\"x\", \"y\"]}\n"
      "{\"text\": \"c\", \"label\": \"y\"}\n";
  expect_error("a.jsonl:2: 2 labels where there should be one", [&] { classify("a.jsonl", rows); });
  EXPECT_EQ(classify("a.jsonl", rows, {.problem = Problem::kMultiLabel}).texts.at(1).labels.size(), 2u);
}

TEST(DatasetLabels, ANumberIsCalledAsItsColumn) {
  EXPECT_EQ(classify("a.csv", "text,stars\na,1.5\nb,2\n").number_name, "stars");
  EXPECT_EQ(classify("a.csv", "text,stars\na,1\nb,2\n").number_name, "") << "classes";
}

TEST(DatasetTexts, LineEndsOfOldMacsAreAnErrorThatSaysSo) {
  for (const char* name : {"a.csv", "a.conll"})
    expect_error("end with CR alone", [&] {
      read_as(name == std::string("a.csv") ? TaskKind::kClassify : TaskKind::kTag, name,
              "text,label\ra,x\rb,y\r");
    });
  EXPECT_EQ(classify("a.csv", "text,label\r\na,x\r\n").size(), 1u);
  EXPECT_EQ(classify("a.csv", "text,label\n\"a\rb\",x\n").texts.at(0).a, "a\rb");
  EXPECT_EQ(classify("a.jsonl", "{\"text\": \"a\",\r\"label\": \"x\"}").size(), 1u) << "white space in JSON";
}

TEST(DatasetLabels, AreInTheOrderOfNamesAndNumbersByValue) {
  EXPECT_EQ(classify("a.csv", "text,label\na,b\nb,a\nc,Ü b 😀\n").labels, (Strings{"a", "b", "Ü b 😀"}));
  EXPECT_EQ(classify("a.csv", "text,label\na,10\nb,9\nc,-1\n").labels, (Strings{"-1", "9", "10"}));
  EXPECT_EQ(classify("a.csv", "text,label\na,10\nb,9\nc,x\n").labels, (Strings{"10", "9", "x"}));
  EXPECT_EQ(classify("a.csv", "text,label\na, very good \nb,bad\n").labels, (Strings{"bad", "very good"}));
  EXPECT_EQ(classify("a.csv", "text,label\na,1.0\nb,0.0\n").labels, (Strings{"0", "1"}))
      << "a column with gaps";
  EXPECT_EQ(
      classify("a.jsonl", "{\"text\": \"a\", \"label\": true}\n{\"text\": \"b\", \"label\": false}\n").labels,
      (Strings{"false", "true"}));
}

TEST(DatasetLabels, WithFractionsAreNumbers) {
  const Dataset numbers = classify("a.csv", "text,score\na,1\nb,2.5\nc,-3e-1\n");
  EXPECT_EQ(numbers.problem, Problem::kRegression);
  EXPECT_EQ(numbers.texts[2].value, -0.3);
  EXPECT_EQ(classify("a.jsonl", "{\"text\": \"a\", \"label\": 0.5}\n").problem, Problem::kRegression);
  EXPECT_EQ(classify("a.csv", "text,label\na,1.5\nb,x\n").problem, Problem::kSingleLabel);
  EXPECT_EQ(classify("a.csv", "text,label\na,1\nb,2\n", {.problem = Problem::kRegression}).texts[1].value,
            2.0);
  EXPECT_EQ(classify("a.csv", "text,label\na,1.5\nb,2\n", {.problem = Problem::kSingleLabel}).labels,
            (Strings{"1.5", "2"}));
  EXPECT_EQ(classify("a.csv", "text,label\na,nan\nb,inf\n").problem, Problem::kSingleLabel) << "not finite";
  expect_refused(TaskKind::kClassify, "a.csv", "text,label\na,1.5\nb,x\n",
                 "a.csv:3: the label \"x\" is not a number", {.problem = Problem::kRegression});
}

TEST(DatasetLabels, AreNamesEvenWhereTheyLookLikeNumbers) {
  const Dataset codes = classify("a.csv", "text,label\na,01\nb,02\nc,7\nd,07\n");
  EXPECT_EQ(std::set<std::string>(codes.labels.begin(), codes.labels.end()),
            (std::set<std::string>{"01", "02", "07", "7"}));
  EXPECT_EQ(label_names(codes), (Strings{"01", "02", "7", "07"}));
  EXPECT_EQ(label_names(classify("a.csv", "text,label\na,1.00\nb,-2.\nc,3\n")), (Strings{"1", "-2", "3"}));
  // 0 and 1 are the places of labels with other names; 1 and 2 may count from 1.
  const Strings names{"bad", "good", "fine"};
  EXPECT_EQ(label_names(with_labels(classify("a.csv", "text,label\na,1\nb,0\n"), names)),
            (Strings{"good", "bad"}));
  for (const char* text : {"text,label\na,1\nb,2\n", "text,label\na,00\nb,01\n", "text,label\na,0\nb,3\n"})
    expect_error("is not one of", [&] { with_labels(classify("a.csv", text), names); });
}

TEST(DatasetLabels, InListsAreSeveral) {
  const Dataset json =
      classify("a.jsonl",
               "{\"text\": \"a\", \"labels\": [\"x\", \"y\", \"x\"]}\n{\"text\": \"b\", \"labels\": []}\n"
               "{\"text\": \"c\", \"labels\": [\"a\"]}\n");
  EXPECT_EQ(json.problem, Problem::kMultiLabel);
  EXPECT_EQ(json.labels, (Strings{"a", "x", "y"}));
  EXPECT_EQ(label_names(json), (Strings{"x+y", "", "a"}));
  EXPECT_TRUE(json.labeled);
  const Dataset python =
      classify("a.csv", "text,labels\na,\"['it\\'s', \"\"b, c\"\"]\"\nb,[]\nc,\"[1, 2]\"\n");
  EXPECT_EQ(python.problem, Problem::kMultiLabel);
  EXPECT_EQ(label_names(python), (Strings{"b, c+it's", "", "1+2"}));
  const Dataset parts =
      classify("a.csv", "text,labels\na,x|y z\nb,\nc,x\n", {.problem = Problem::kMultiLabel});
  EXPECT_EQ(label_names(parts), (Strings{"x+y z", "", "x"}));
  EXPECT_EQ(classify("a.csv", "text,labels\na,x|y\nb,x\n").labels, (Strings{"x", "x|y"}))
      << "nobody said lists";
  EXPECT_EQ(
      label_names(classify(
          "a.jsonl", "{\"text\": \"a\", \"label\": \"x, y\"}\n{\"text\": \"b\", \"label\": [\"z\"]}\n")),
      (Strings{"x, y", "z"}));
  expect_refused(TaskKind::kClassify, "a.jsonl", "{\"text\": \"a\", \"label\": [1, 2]}\n",
                 ":1: 2 labels where", {.problem = Problem::kSingleLabel});
}

TEST(DatasetLabels, InColumnsOfTheirOwnAreSeveral) {
  const std::string_view table = "id,comment,toxic,insult,threat\n1,a,1,0,0\n2,b,0,0,0\n3,c,1.0,TRUE,no\n";
  const Dataset data = classify("a.csv", table, {.label = "toxic, insult,Threat"});
  EXPECT_EQ(data.problem, Problem::kMultiLabel);
  EXPECT_EQ(data.labels, (Strings{"toxic", "insult", "threat"}))
      << "in their order, though no row has a threat";
  EXPECT_EQ(label_names(data), (Strings{"toxic", "", "toxic+insult"}));
  EXPECT_EQ(data.found, "CSV, columns comment, toxic, insult and threat");
  EXPECT_EQ(label_names(classify("a.csv", table, {.text = "2", .label = "4,3"})),
            (Strings{"toxic", "", "insult+toxic"}));
  EXPECT_EQ(label_names(classify("a.jsonl", "{\"text\": \"a\", \"x\": true, \"y\": 0}\n", {.label = "x,y"})),
            (Strings{"x"}));
  EXPECT_EQ(classify("a.csv", "text,\"x,y\"\na,1\nb,2\n", {.label = "x,y"}).labels, (Strings{"1", "2"}))
      << "a column of this name";
  const auto refused = [](std::string_view text, const std::string& label, const std::string& part) {
    expect_refused(TaskKind::kClassify, "a.csv", text, part, {.label = label});
  };
  refused("text,x,y\na,1,0\nb,-1,-1\n", "x,y", "a.csv:3: column \"x\" has \"-1\" where 0 or 1");
  refused("text,x,y\na,1,\n", "x,y", "a.csv:2: some of the labels are empty, others not");
  refused("text,x,y\na,,\n", "x,y", "a.csv:2: there is no label");
  refused("text,x,y\na,1,0\n", "x,z", "a.csv has no column \"z\"");
  refused("text,x,y\na,1,0\n", "x,x", "\"x,x\" names the column \"x\" twice");
  EXPECT_EQ(label_names(classify("a.csv", "text,\xff,y\na,1,1\n", {.label = "2,3"})), (Strings{"\uFFFD+y"}));
  const Dataset unlabeled = classify("a.csv", "text,x,y\na,,\n", {.label = "x,y", .labels_needed = false});
  EXPECT_FALSE(unlabeled.labeled);
}

TEST(DatasetRows, ThatAreBadAreErrorsWithFileLineAndReason) {
  const auto refused = [](std::string_view rows, const std::string& part) {
    expect_refused(TaskKind::kClassify, "a.csv", "text,label\nfine,a\n" + std::string(rows), part);
  };
  refused("x\n", "a.csv:3: 1 field where the header has 2");
  refused("x,\n", "a.csv:3: there is no label");
  refused(",a\n", "a.csv:3: the text is empty");
  refused("\" \t\",a\n", "a.csv:3: the text is empty");
  refused("x,a\n\"y,b\n", "a.csv:4: a quote is not closed");
  expect_refused(TaskKind::kPair, "a.csv", "sentence1,sentence2,label\nx,,a\n",
                 "a.csv:2: the second text is empty");
  expect_refused(TaskKind::kClassify, "a.jsonl", "{\"text\": 7, \"label\": 1}\n",
                 "a.jsonl:1: \"text\" is a number, not a string");
  expect_refused(TaskKind::kClassify, "a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"label\": 1}\n",
                 "a.jsonl:2: there is no \"text\"");
  expect_refused(TaskKind::kClassify, "a.jsonl", "{\"text\": \"a\", \"label\": {}}\n",
                 "a.jsonl:1: the label is an object");
  expect_refused(TaskKind::kClassify, "a.jsonl", "{\"text\": \"a\", \"label\": null}\n",
                 "a.jsonl:1: there is no label");
  expect_refused(TaskKind::kClassify, "a.jsonl", "{\"text\": \n", "a.jsonl:1: ");
  EXPECT_NE(error_of(TaskKind::kClassify, "a.csv", "text,label\nx\n").hint().find("`skip_bad`"),
            std::string::npos);
}

TEST(DatasetRows, ThatAreBadMayBeLeftOutAndAreCounted) {
  Strings told;
  const DatasetOptions options{.skip_bad = true,
                               .bad_row = [&](const Error& e) { told.push_back(e.what()); }};
  const Dataset data = classify("a.csv", "text,label\na,x\nb\n,y\nc,\nd,y\n\n\"e\nf\",x\n", options);
  EXPECT_EQ(label_names(data), (Strings{"x", "y", "x"}));
  EXPECT_EQ(data.bad_rows, 3u);
  ASSERT_EQ(told.size(), 3u);
  for (const char* line : {":3: ", ":4: ", ":5: "})
    EXPECT_TRUE(std::ranges::any_of(told, [&](const std::string& t) { return t.find(line) != t.npos; }))
        << line;
  EXPECT_EQ(data.texts[2].line, 8u);
  expect_refused(TaskKind::kClassify, "a.csv", "text,label\nb\n", "none of the 1 rows", options);
  expect_refused(TaskKind::kClassify, "a.jsonl", "x\ny\n", "none of the 2 rows", options);
}

TEST(DatasetRows, ThatAreNotThereAreAnError) {
  for (const char* text : {"", "text,label\n", "\n"})
    expect_refused(TaskKind::kClassify, "a.csv", text, "a.csv has no rows");
  expect_refused(TaskKind::kTag, "a.conll", "\n\n", "a.conll has no rows");
  expect_refused(TaskKind::kAnswer, "a.json", "{\"data\": []}", "a.json has no rows");
  expect_refused(TaskKind::kAnswer, "a.jsonl", "", "a.jsonl has no rows");
  expect_error("cannot read", [] { read_dataset(TaskKind::kClassify, "/no/such/file.csv"); });
}

TEST(DatasetRows, ThatAreNotUtf8AreMendedAndCounted) {
  const char* text = "text,label\ncaf\xe9,b\xe9\nb,a\nna\xefve,a\n";
  const Dataset data = classify("a.csv", text);
  EXPECT_EQ(data.texts[0].a, "caf\uFFFD");
  EXPECT_EQ(data.labels, (Strings{"a", "b\uFFFD"}));
  EXPECT_EQ(data.invalid_rows, 2u) << "a row is counted once";
  EXPECT_TRUE(data.first_invalid.ends_with("a.csv:2")) << data.first_invalid;
  expect_refused(TaskKind::kClassify, "a.csv", text, "a.csv:2: not valid UTF-8", {.strict = true});
  EXPECT_EQ(classify("a.csv", text, {.skip_bad = true, .strict = true}).bad_rows, 2u);
  EXPECT_EQ(read_as(TaskKind::kTag, "a.conll", "caf\xe9 O\nx B-X\n").sentences[0].words[0], "caf\uFFFD");
}

TEST(DatasetRows, WithoutLabelsAreGoodWhereNoneAreNeeded) {
  const Dataset none = classify("a.csv", "text,other\na,x\n", {.labels_needed = false});
  EXPECT_FALSE(none.labeled);
  EXPECT_EQ(none.size(), 1u);
  const Dataset some = classify("a.csv", "text,label\na,x\n,\n", {.labels_needed = false});
  EXPECT_FALSE(some.labeled);
  EXPECT_EQ(label_names(some), (Strings{"x", ""}));
  EXPECT_TRUE(classify("a.csv", "text,label\na,x\n", {.labels_needed = false}).labeled);
  EXPECT_FALSE(read_as(TaskKind::kTag, "a.conll", "One\nword\n\nEach\n", {.labels_needed = false}).labeled);
  EXPECT_FALSE(
      read_as(TaskKind::kAnswer, "a.csv", "question,context\nq,c\n", {.labels_needed = false}).labeled);
  EXPECT_FALSE(read_as(TaskKind::kAnswer, "a.json",
                       "{\"data\": [{\"paragraphs\": [{\"context\": \"c\", \"qas\": [{\"id\": \"1\", "
                       "\"question\": \"q\"}]}]}]}",
                       {.labels_needed = false})
                   .labeled);
}

TEST(Dataset, PackedFilesAreReadAsTheyAre) {
  const TempFolder folder;
  const std::string text = "text,label\na,x\nb,y\n", columns = "A B-X\n\nB O\n";
  for (const auto& [name, packed, tags] : {std::tuple(".gz", test::gzip(text), test::gzip(columns)),
                                           {".xz", test::xz(text), test::xz(columns)},
                                           {".zst", test::zstd(text), test::zstd(columns)}}) {
    const std::string table = folder.write(std::string("a.csv") + name, packed);
    EXPECT_EQ(read_dataset(TaskKind::kClassify, table).size(), 2u);
    EXPECT_EQ(read_dataset(TaskKind::kTag, folder.write(std::string("a.conll") + name, tags)).size(), 2u);
  }
}

TEST(Dataset, WithNothingToLearnFromIsRefusedByCheckLearnable) {
  const auto check = [](const Dataset& data, const std::string& part) {
    expect_error(part, [&] { check_learnable(data); });
  };
  check(classify("a.csv", "text,label\na,x\nb,x\n"), "the label of every row is \"x\"");
  check(classify("a.csv", "text,label\na,1.5\nb,1.5\n"), "every row is 1.5");
  check(classify("a.csv", "text,label\na,p\nb,q\nc,r\nd,s\ne,t\n"), "all 5 rows have different labels");
  const Dataset few = classify("a.csv", "text,label\na,p\nb,q\nc,r\nd,s\ne,s\n");
  check_learnable(few);
  EXPECT_EQ(lone_rows(few), 3u);
  check(read_as(TaskKind::kTag, "a.conll", "A O\nB O\n"), "every row is \"O\"");
  check(classify("a.csv", "text,label\na,x\nb,\n", {.labels_needed = false}), "have no labels");
  check_learnable(classify("a.csv", "text,label\na,x\nb,y\n"));
  check_learnable(
      classify("a.jsonl", "{\"text\": \"a\", \"labels\": [\"x\"]}\n{\"text\": \"b\", \"labels\": []}\n"));
  check_learnable(read_as(TaskKind::kTag, "a.conll", "A B-X\nB O\n"));
}

TEST(WithLabels, ARowWithAnotherLabelMayBeLeftOut) {
  const Dataset data = classify("a.csv", "text,label\na,x\nb,new\nc,y\n");
  std::vector<std::string> told;
  const Dataset known = with_labels(
      data, {"x", "y"}, {.skip_bad = true, .bad_row = [&](const Error& e) { told.push_back(e.what()); }});
  EXPECT_EQ(known.size(), 2u);
  EXPECT_EQ(known.texts[1].a, "c");
  EXPECT_EQ(known.bad_rows, 1u);
  EXPECT_EQ(told, (Strings{"a.csv:3: the label \"new\" is not one of \"x\", \"y\""}));
  expect_error("none of the 3 rows of a.csv has a label that the model knows", [&] {
    with_labels(data, {"p", "q"}, {.skip_bad = true});
  });
}

TEST(WithLabels, PutsLabelsWhereTheModelHasThem) {
  const Dataset data = classify("a.csv", "text,label\na,x\nb,z\n");
  const Dataset other = with_labels(data, {"z", "y", "x"});
  EXPECT_EQ(other.labels, (Strings{"z", "y", "x"}));
  EXPECT_EQ(label_names(other), (Strings{"x", "z"}));
  expect_error("a.csv:3: the label \"z\" is not one of \"x\", \"y\"", [&] { with_labels(data, {"x", "y"}); });
  const Dataset numbers = classify("a.csv", "text,label\na,1\nb,0\n");
  EXPECT_EQ(label_names(with_labels(numbers, {"NEGATIVE", "POSITIVE"})), (Strings{"POSITIVE", "NEGATIVE"}));
  EXPECT_EQ(label_names(with_labels(numbers, {"1", "0"})), (Strings{"1", "0"}));
  expect_error("a.csv:2: the label \"1\" is not one of", [&] { with_labels(numbers, {"only"}); });
  const Dataset tags = read_as(TaskKind::kTag, "a.conll", "A B-X\nB O\n");
  EXPECT_EQ(with_labels(tags, {"B-X", "I-X", "O"}).sentences[0].tags, (std::vector<int32_t>{0, 2}));
  expect_error("a.conll:1: the label \"B-X\"", [&] { with_labels(tags, {"O", "B-Y"}); });
}

Dataset made(size_t rows, size_t classes) {
  std::string text = "text,label\n";
  for (size_t i = 0; i < rows; ++i)
    text += "t" + std::to_string(i) + ",c" + std::to_string(i * i % classes) + "\n";
  return classify("a.csv", text);
}
std::map<int32_t, size_t> counts(const Dataset& data) {
  std::map<int32_t, size_t> all;
  for (const TextExample& row : data.texts) ++all[row.labels[0]];
  return all;
}
Strings first_texts(const Dataset& data) {
  Strings texts;
  for (const TextExample& row : data.texts) texts.push_back(row.a);
  return texts;
}

TEST(Split, TakesTheSameShareOfEveryClass) {
  const Dataset data = made(1000, 7);
  const auto [train, dev] = split(data, 0.1, 3);
  for (const auto& [label, count] : counts(data)) {
    EXPECT_NEAR(double(counts(dev)[label]), double(count) * 0.1, 0.51);
    EXPECT_EQ(counts(dev)[label] + counts(train)[label], count);
  }
  EXPECT_EQ(dev.labels, data.labels);
  EXPECT_EQ(train.labels, data.labels);
  std::set<std::string> all;
  for (const std::string& text : first_texts(train)) all.insert(text);
  for (const std::string& text : first_texts(dev)) EXPECT_TRUE(all.insert(text).second) << text;
  EXPECT_EQ(all.size(), 1000u);
  for (const Dataset* part : {&train, &dev})
    EXPECT_TRUE(std::ranges::is_sorted(part->texts, {}, &TextExample::line)) << "in the order of the file";
}

TEST(Split, IsTheSeeds) {
  const Dataset data = made(200, 3);
  EXPECT_EQ(first_texts(split(data, 0.2, 5).dev), first_texts(split(data, 0.2, 5).dev));
  EXPECT_NE(first_texts(split(data, 0.2, 5).dev), first_texts(split(data, 0.2, 6).dev));
}

TEST(Split, OfFewRowsHasOneOfEveryClassThatHasTwo) {
  const Dataset data = classify("a.csv", "text,label\na,x\nb,x\nc,y\nd,y\ne,z\n");
  const auto [train, dev] = split(data, 0.01, 1);
  EXPECT_EQ(counts(dev), (std::map<int32_t, size_t>{{0, 1}, {1, 1}}));
  EXPECT_EQ(counts(split(data, 0.99, 1).train), (std::map<int32_t, size_t>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(split(classify("a.csv", "text,label\na,x\nb,y\n"), 0.1, 1).dev.size(), 1u);
  expect_error("one row", [] { split(classify("a.csv", "text,label\na,x\n"), 0.1, 1); });
  for (const double share : {0.0, 1.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    expect_error("`dev_share`", [&] { split(data, share, 1); });
}

TEST(Split, IsNotHalfOfTheDataWhereClassesAreSmall) {
  std::string text = "text,label\n";
  for (size_t i = 0; i < 400; ++i)
    text += "row " + std::to_string(i) + ",class" + std::to_string(i / 2) + "\n";
  const size_t taken = split(classify("a.csv", text), 0.1, 1).dev.size();
  EXPECT_GE(taken, 40u);
  EXPECT_LE(taken, 80u);
}

TEST(Split, TakesThreeNumbersWhereThereAreNine) {
  const auto numbers = [](size_t rows) {
    std::string text = "text,score\n";
    for (size_t i = 0; i < rows; ++i) text += "a," + std::to_string(i) + ".5\n";
    return split(classify("a.csv", text), 0.1, 1).dev.size();
  };
  EXPECT_EQ(numbers(9), 3u) << "of two there is no correlation";
  EXPECT_EQ(numbers(12), 3u);
  EXPECT_EQ(numbers(40), 4u);
  EXPECT_LE(numbers(4), 2u) << "but not most of the data";
}

TEST(Split, OfOneSentenceSaysHowSentencesEnd) {
  try {
    split(read_as(TaskKind::kTag, "a.conll", "A O\nB B-X\n"), 0.1, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.hint()).find("an empty line after each sentence"), std::string::npos)
        << error.hint();
  }
}

// Whether it is the first or the last of the alphabet that it is called by.
TEST(Split, IsFairToSmallClasses) {
  std::string text = "text,label\n";
  for (size_t i = 0; i < 300; ++i) text += fmt::format("row {},intent_{:03}\n", i, i / 3);
  const Dataset dev = split(classify("a.csv", text), 0.1, 1).dev;
  size_t first_half = 0, last_half = 0;
  for (const auto& [label, count] : counts(dev)) (label < 50 ? first_half : last_half) += count;
  EXPECT_GE(first_half, 15u);
  EXPECT_GE(last_half, 15u);
}

TEST(Split, OfSeveralLabelsTakesTheSameShareOfEach) {
  std::string text = "text,a,b,c,d,e,f,g,h\n";
  const std::vector<float> draws = test::random_floats(8 * 1000, 1, 0, 1);
  std::vector<size_t> all(8), in_dev(8);
  for (size_t i = 0; i < 1000; ++i) {
    text += fmt::format("row {}", i);
    for (size_t label = 0; label < 8; ++label) {
      const bool holds = draws[i * 8 + label] < 0.05f * float(label + 1);
      text += holds ? ",1" : ",0";
      all[label] += holds;
    }
    text += '\n';
  }
  const Dataset dev = split(classify("a.csv", text, {.label = "a,b,c,d,e,f,g,h"}), 0.1, 1).dev;
  for (const TextExample& row : dev.texts)
    for (const int32_t label : row.labels) ++in_dev[size_t(label)];
  for (size_t label = 0; label < 8; ++label)
    EXPECT_NEAR(double(in_dev[label]) / double(all[label]), 0.1, 0.035) << label;
  EXPECT_NEAR(double(dev.size()), 100, 25);
}

TEST(Split, KeepsQuestionsAboutAContextTogether) {
  std::string text;
  for (size_t i = 0; i < 300; ++i)
    text += "{\"question\": \"q" + std::to_string(i) + "\", \"context\": \"c" + std::to_string(i / 3) +
            "\", \"answers\": {\"text\": [], \"answer_start\": []}}\n";
  const auto [train, dev] = split(read_as(TaskKind::kAnswer, "a.jsonl", text), 0.1, 1);
  EXPECT_EQ(dev.size(), 30u);
  EXPECT_EQ(train.size(), 270u);
  std::set<std::string> contexts;
  for (const SquadQuestion& q : train.questions) contexts.insert(q.context);
  for (const SquadQuestion& q : dev.questions) EXPECT_FALSE(contexts.contains(q.context));
  const char* one =
      "{\"question\": \"a\", \"context\": \"c\", \"answers\": []}\n{\"question\": \"b\", \"context\": \"c\", "
      "\"answers\": []}\n";
  EXPECT_EQ(split(read_as(TaskKind::kAnswer, "a.jsonl", one), 0.1, 1).dev.size(), 1u);
}

TEST(Split, OfSentencesAndNumbersIsByChance) {
  std::string columns, numbers = "text,label\n";
  for (size_t i = 0; i < 100; ++i) {
    columns += "W" + std::to_string(i) + " O\n\n";
    numbers += "t," + std::to_string(double(i) + 0.5) + "\n";
  }
  EXPECT_EQ(split(read_as(TaskKind::kTag, "a.conll", columns), 0.1, 1).dev.size(), 10u);
  EXPECT_EQ(split(classify("a.csv", numbers), 0.25, 1).dev.size(), 25u);
}

TEST(TableWriter, WritesWhatIsReadBack) {
  const Strings odd = {"plain",      "a,b",      "tab\there", "quote\"s", "\"whole\"",
                       "two\nlines", "cr\r\nlf", " spaces ",  "é😀"};
  for (const char delimiter : {',', '\t'}) {
    TableWriter writer(delimiter);
    std::string text = writer.field("text").field("label").take_row();
    for (const std::string& field : odd) text += writer.field(field).field("x").take_row();
    const Dataset data = classify(delimiter == ',' ? "a.csv" : "a.tsv", text);
    EXPECT_EQ(first_texts(data), odd);
  }
  TableWriter writer(',');
  EXPECT_EQ(writer.field(size_t{7}).field(0.1f).field("").field(NAN).take_row(), "7,0.1,,\n");
}

}  // namespace
}  // namespace bertie
