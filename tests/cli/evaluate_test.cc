// bertie evaluate on small models with random weights: what it prints, writes and refuses.
#include "program.h"

using namespace bertie::test;

namespace {

std::string golden(const std::string& name) { return (source_dir() / "tests/golden/tasks" / name).string(); }

// Labelled data of every kind.
class Data : public TemporaryFolder {
 public:
  Data() {
    write_all(
        *this / "texts.tsv",
        "sentence\tlabel\nA fine film.\tpositive\nThe harbour is old.\tneutral\nNobody came.\tnegative\n"
        "Anna opened a bakery.\tneutral\n");
    write_all(*this / "pairs.csv",
              "a,b,label\nIt rained.,We got wet.,positive\nIt rained.,\"No, never.\",negative\n");
    write_all(*this / "tags.conll", "Anna B-PER\nLindqvist I-PER\ncame O\n\nto O\nGothenburg B-LOC\n. O\n\n");
    write_all(*this / "squad.json",
              R"({"version":"v2.0","data":[{"title":"t","paragraphs":[{"context":"Anna came to Gothenburg.",)"
              R"("qas":[{"id":"q1","question":"Who came?","answers":[{"text":"Anna","answer_start":0}]},)"
              R"({"id":"q2","question":"When?","answers":[],"is_impossible":true}]}]}]})");
  }
  std::string at(const char* name) const { return (*this / name).string(); }
};

std::vector<json> objects(const Result& r) {
  EXPECT_EQ(r.code, 0) << r.err;
  std::vector<json> all;
  for (const std::string& line : lines(r.out)) all.push_back(json::parse(line));
  return all;
}

TEST(EvaluateCommand, ShowsScoresClassesAndConfusion) {
  const Data data;
  const Result r =
      run({"evaluate", "classify", "-m", golden("text-classification-bert"), "--data", data.at("texts.tsv")});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("score")) << r.out;
  for (const char* part : {"95% interval", "accuracy", "matthews", "f1_macro", "calibration_error",
                           "precision", "right / predicted", "neutral"})
    EXPECT_NE(r.out.find(part), std::string::npos) << part << "\n" << r.out;
  EXPECT_NE(r.err.find("4 rows"), std::string::npos) << "the format that was found is said: " << r.err;
  for (const std::string& line : lines(r.out)) EXPECT_LE(line.size(), 80u) << line;
  const Result quiet = run({"evaluate", "classify", "-q", "-m", golden("text-classification-bert"), "--data",
                            data.at("texts.tsv"), "--bootstrap", "0"});
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(quiet.out.find("interval"), std::string::npos);
}

TEST(EvaluateCommand, EveryKindGivesJson) {
  const Data data;
  const std::vector<std::vector<std::string>> cases = {
      {"classify", "text-classification-bert", "texts.tsv", "accuracy"},
      {"pair", "text-classification-bert", "pairs.csv", "accuracy"},
      {"tag", "token-classification-bert", "tags.conll", "f1"},
      {"answer", "question-answering-bert", "squad.json", "f1"}};
  for (const auto& one : cases) {
    const auto all =
        objects(run({"evaluate", one[0], "-m", golden(one[1]), "--data", data.at(one[2].c_str()), "--json"}));
    ASSERT_EQ(all.size(), 1u) << one[0];
    EXPECT_EQ(all[0]["task"], one[0]);
    EXPECT_EQ(all[0]["metric"], one[3]);
    EXPECT_EQ(all[0]["model"], golden(one[1]));
    EXPECT_TRUE(all[0]["scores"].contains(one[3]));
    EXPECT_TRUE(all[0].contains("intervals")) << one[0];
    EXPECT_EQ(all[0]["rows"], one[0] == "classify" ? 4 : 2);
  }
}

TEST(EvaluateCommand, ThresholdsMayBeBelowZero) {
  const Data data;
  const auto with = [&](const std::string& threshold) {
    return objects(run({"evaluate", "answer", "-m", golden("question-answering-bert"), "--data",
                        data.at("squad.json"), "--json", "--threshold", threshold}))[0]["scores"];
  };
  EXPECT_EQ(with("-1000")["no_answer_accuracy"], 1);
  EXPECT_EQ(with("-1000")["has_answer_f1"], 0);
  EXPECT_EQ(with("1000")["no_answer_accuracy"], 0);
  const Result shown = run({"evaluate", "answer", "-m", golden("question-answering-bert"), "--data",
                            data.at("squad.json"), "--threshold", "-1.5"});
  EXPECT_NE(shown.out.find("no answer above a threshold of -1.5"), std::string::npos) << shown.out;
  EXPECT_EQ(run({"evaluate", "answer", "-m", golden("question-answering-bert"), "--data",
                 data.at("squad.json"), "--threshold", "low"})
                .code,
            2);
}

TEST(EvaluateCommand, ComparesTwoModels) {
  const Data data;
  const std::string a = golden("text-classification-bert"), b = golden("text-classification-gpt2");
  const auto all = objects(run({"evaluate", "classify", "-m", a, "--compare", b, "--data",
                                data.at("texts.tsv"), "--metric", "f1_macro", "--json"}));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1]["model"], b);
  EXPECT_EQ(all[2]["metric"], "f1_macro");
  EXPECT_EQ(all[2]["a"], all[0]["scores"]["f1_macro"]);
  EXPECT_EQ(all[2]["b"], all[1]["scores"]["f1_macro"]);
  const Result shown = run({"evaluate", "classify", "-m", a, "--compare", b, "--data", data.at("texts.tsv")});
  EXPECT_NE(shown.out.find("paired bootstrap: p = "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("McNemar's exact test: p = "), std::string::npos);
  const Result none = run(
      {"evaluate", "classify", "-m", a, "--compare", b, "--data", data.at("texts.tsv"), "--bootstrap", "0"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--bootstrap 2000"), std::string::npos) << none.err;
}

// The small classifier with other names for its labels.
std::string renamed(const Data& data, const std::string& name, const json& labels) {
  const std::string model = data / name;
  fs::copy(golden("text-classification-bert"), model, fs::copy_options::recursive);
  json config = json::parse(read_all(fs::path(model) / "config.json"));
  config["id2label"] = labels;
  config.erase("label2id");
  write_all(fs::path(model) / "config.json", config.dump());
  return model;
}

TEST(EvaluateCommand, ASecondModelThatDoesNotFitIsAnErrorBeforeTheFirstOnesWork) {
  const Data data;
  const std::string other = renamed(data, "other", {{"0", "good"}, {"1", "bad"}, {"2", "neither"}});
  const Result r = run({"evaluate", "classify", "-m", golden("text-classification-bert"), "--compare", other,
                        "--data", data.at("texts.tsv"), "--json"});
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.out, "") << "nothing was measured";
  EXPECT_NE(r.err.find(other + ": "), std::string::npos) << r.err;
}

TEST(EvaluateCommand, LabelsThatBeginAlikeAreToldFromEachOther) {
  const Data data;
  const std::string begin = "a label that begins alike: ";
  const std::string model = renamed(data, "alike", {{"0", begin + "one"}, {"1", begin + "two"}, {"2", "x"}});
  write_all(data / "alike.csv", "text,label\nA film.," + begin + "one\nA day.," + begin + "two\n");
  const Result r = run({"evaluate", "classify", "-m", model, "--data", data.at("alike.csv")});
  ASSERT_EQ(r.code, 0) << r.err;
  const size_t confusion = r.out.find("right / predicted");
  ASSERT_NE(confusion, std::string::npos) << r.out;
  EXPECT_NE(r.out.find("alike: one", confusion), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("alike: two", confusion), std::string::npos) << r.out;
  for (const std::string& line : lines(r.out)) EXPECT_LE(line.size(), 84u) << line;  // "…" is three bytes
}

TEST(EvaluateCommand, RefusesWhatAKindHasNot) {
  const Data data;
  const auto refuses = [&](const std::string& kind, const char* file, std::vector<std::string> more,
                           const std::string& part) {
    std::vector<std::string> all = {"evaluate", kind,         "-m", golden("text-classification-bert"),
                                    "--data",   data.at(file)};
    all.insert(all.end(), more.begin(), more.end());
    const Result r = run(all);
    EXPECT_EQ(r.code, 2) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  refuses("classify", "texts.tsv", {"--column-pair", "b"}, "--column-pair is not for classify");
  refuses("classify", "texts.tsv", {"--threshold", "1"}, "--threshold is not for classify");
  refuses("tag", "tags.conll", {"--problem", "labels"}, "--problem is not for tag");
  refuses("pair", "pairs.csv", {"--max-answer", "3"}, "--max-answer is not for pair");
}

TEST(EvaluateCommand, WritesMistakesAndPredictions) {
  const Data data;
  const std::vector<std::string> command{"evaluate",
                                         "classify",
                                         "-m",
                                         golden("text-classification-bert"),
                                         "--data",
                                         data.at("texts.tsv"),
                                         "--errors",
                                         data.at("wrong.html"),
                                         "--predictions",
                                         data.at("predictions.jsonl")};
  EXPECT_EQ(run(command).code, 0);
  EXPECT_NE(read_all(data / "wrong.html").find("surest mistakes of 4 rows"), std::string::npos);
  const auto rows = lines(read_all(data / "predictions.jsonl"));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(json::parse(rows[0])["label"], "positive");
  EXPECT_EQ(json::parse(rows[0])["scores"].size(), 3u);
  const Result again = run(command);
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  EXPECT_EQ(run({"evaluate", "classify", "-m", golden("text-classification-bert"), "--data",
                 data.at("texts.tsv"), "--errors", data.at("wrong.json"), "--top", "1"})
                .code,
            0);
  EXPECT_EQ(json::parse(read_all(data / "wrong.json")).size(), 1u);
  EXPECT_EQ(run({"evaluate", "classify", "-m", golden("text-classification-bert"), "--data",
                 data.at("texts.tsv"), "--force", "--predictions", data.at("texts.tsv")})
                .code,
            1)
      << "never over what is read";
}

TEST(EvaluateCommand, SaysWhatIsWrong) {
  const Data data;
  const std::string model = golden("text-classification-bert");
  const Result nothing = run({"evaluate", "classify", "-m", model});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("--data"), std::string::npos) << nothing.err;
  EXPECT_EQ(run({"evaluate", "-m", model, "--data", data.at("texts.tsv")}).code, 2);
  const Result metric =
      run({"evaluate", "classify", "-m", model, "--data", data.at("texts.tsv"), "--metric", "bleu"});
  EXPECT_EQ(metric.code, 2);
  EXPECT_NE(metric.err.find("there is no --metric"), std::string::npos) << metric.err;
  EXPECT_EQ(
      run({"evaluate", "classify", "-m", model, "--data", data.at("texts.tsv"), "--errors", "x.txt"}).code,
      2);
  const Result missing = run({"evaluate", "classify", "-m", model, "--data", data.at("none.tsv")});
  EXPECT_EQ(missing.code, 1);
  const Result head = run({"evaluate", "tag", "-m", model, "--data", data.at("tags.conll")});
  EXPECT_EQ(head.code, 1);
  EXPECT_NE(head.err.find("cannot tag tokens"), std::string::npos) << head.err;
  write_all(data / "other.tsv", "sentence\tlabel\nA fine film.\tgreat\nNobody came.\tnegative\n");
  const Result labels = run({"evaluate", "classify", "-m", model, "--data", data.at("other.tsv")});
  EXPECT_EQ(labels.code, 1);
  EXPECT_NE(labels.err.find("great"), std::string::npos) << labels.err;
}

TEST(EvaluateCommand, SkipsBadRowsWhenAskedTo) {
  const Data data;
  write_all(data / "bad.csv", "text,label\nA fine film.,positive\n,neutral\nNobody came.,negative\n");
  const std::vector<std::string> command{
      "evaluate", "classify", "-m", golden("text-classification-bert"), "--data", data.at("bad.csv")};
  EXPECT_EQ(run(command).code, 1);
  std::vector<std::string> skipping = command;
  skipping.push_back("--skip-bad");
  const Result r = run(skipping);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("bad.csv:3"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("1 row was left out"), std::string::npos) << r.err;
  // A label that the model does not know makes a bad row, too.
  write_all(data / "bad.csv", "text,label\nA fine film.,positive\nSo so.,great\nNobody came.,negative\n");
  const Result unknown = run(command);
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("bad.csv:3: the label \"great\" is not one of"), std::string::npos)
      << unknown.err;
  const Result without = run(skipping);
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_NE(without.err.find("1 row was left out"), std::string::npos) << without.err;
  write_all(data / "bad.csv",
            "text,label\nA fine film.,positive\nSo so.,a great one\nNobody came.,negative\n");
  EXPECT_EQ(run(skipping).err.find("are taken as the model's"), std::string::npos)
      << "these are names, not places";
}

}  // namespace
