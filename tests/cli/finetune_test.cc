// bertie finetune, as its users run it: on tables of their own, with what goes wrong there.
#include "program.h"

using namespace bertie::test;

namespace {

class Finetune : public testing::Test {
 public:
  Finetune() {
    std::string rows = "review,sentiment\n";
    const char* good[] = {"a fine film", "a lovely day", "very good"};
    const char* bad[] = {"a poor film", "a sad day", "very bad"};
    for (int i = 0; i < 60; ++i)
      rows +=
          std::string(i % 2 ? good[i / 2 % 3] : bad[i / 2 % 3]) + (i % 2 ? ",very good\n" : ",not good\n");
    write_all(folder_ / "reviews.csv", rows);
  }

  // On a small model with random weights.
  std::vector<std::string> arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {
        "finetune", "classify",      "-m",        kModel, "--train", folder_ / "reviews.csv",
        "--out",    folder_ / "out", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  const std::string kModel = BERTIE_SOURCE_DIR "/tests/golden/tasks/text-classification-bert";
  TemporaryFolder folder_;
};

TEST_F(Finetune, MakesAModelThatCanBeCalled) {
  const Result r = run(arguments({"--epochs", "10", "--rate", "1e-3"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("CSV, columns review and sentiment"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("54 rows to learn from, 6 taken out to measure with"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("one label for each row: not good, very good"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("accuracy"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("is ready"), std::string::npos) << r.out;
  const Result called = run({"classify", "-m", folder_ / "out", "--json", "a lovely day"});
  EXPECT_EQ(called.code, 0) << called.err;
  const std::string label = json::parse(called.out)["labels"][0]["label"];
  EXPECT_TRUE(label == "very good" || label == "not good") << label;
  const Result measured =
      run({"evaluate", "classify", "-m", folder_ / "out", "--data", folder_ / "reviews.csv"});
  EXPECT_EQ(measured.code, 0) << measured.err;
  // The card has the command, and the numbers are the JSON's.
  EXPECT_NE(read_all(folder_ / "out/README.md").find("bertie finetune classify"), std::string::npos);
  EXPECT_EQ(json::parse(read_all(folder_ / "out/metrics.json"))["dev"]["rows"], 6);
}

TEST_F(Finetune, JsonIsOneObject) {
  const Result r = run(arguments({"--steps", "2", "--epochs", "1", "--seeds", "2", "--json", "-q"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const json all = json::parse(r.out);
  EXPECT_EQ(all["ended"], "limit");
  EXPECT_EQ(all["seeds"].size(), 2u);
  EXPECT_TRUE(all["seeds"][0]["scores"].contains("accuracy"));
  EXPECT_EQ(r.err, "");
}

TEST_F(Finetune, WhatAUserCannotSeeIsSaid) {
  write_all(folder_ / "dev.csv", "review,sentiment\na fine film,1\na sad day,0\n");
  const Result r = run(arguments({"--steps", "1", "--seeds", "2", "--dev", folder_ / "dev.csv"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("one label for each row: not good, very good; in " + (folder_ / "dev.csv").string() +
                       " they are 0 to 1, in this order"),
            std::string::npos)
      << r.err;
  EXPECT_NE(r.err.find("there are 2 rows to measure with: scores are rough"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("2 seeds, one after the other"), std::string::npos) << r.err;
}

TEST_F(Finetune, SaysWhatItIsToLearn) {
  const auto said = [&](const std::string& kind, const std::string& rows, const std::string& part) {
    write_all(folder_ / "data", rows);
    fs::remove_all(folder_ / "out");
    const Result r = run({"finetune", kind, "-m", kModel, "--train", folder_ / "data", "--out",
                          folder_ / "out", "--threads", "1", "--steps", "1", "--dev-share", "0"});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  said("classify", "text,stars\na,1.5\nb,2\nc,4\n", "a number for each row, stars: from 1.5 to 4");
  said("classify", "text,label\na,\"['x', 'y']\"\nb,['x']\nc,[]\n",
       "any number of labels for each row: x, y");
  said("classify", "text,label\na,x\nb,y\nc,z\nd,u\ne,u\n", "3 of 5 rows have a label that no other row has");
  said("tag", "A 1\nB 0\n\nA 1\nC 0\n", "the tags are numbers");
  said("tag", "A O\nB B-X\n\nA O\nC B-X\n", "a tag for each word: O, B-X, I-X");
}

TEST_F(Finetune, TheCommandToTryIsOneThatAShellTakes) {
  std::vector<std::string> command = arguments({"--steps", "1"});
  for (std::string& word : command)
    if (word == folder_ / "out") word = folder_ / "my model";
  const Result r = run(command);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("bertie classify -m '" + (folder_ / "my model").string() + "' \"your text\""),
            std::string::npos)
      << r.out;
}

TEST_F(Finetune, BaselinesStandInTheSameTable) {
  const Result r = run(arguments({"--steps", "2", "--epochs", "1", "--baseline"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("TF-IDF + logistic regression: accuracy 1.0000"), std::string::npos) << r.err;
  const std::vector<std::string> table = lines(r.out);
  ASSERT_GE(table.size(), 5u) << r.out;
  EXPECT_TRUE(table[0].starts_with("model ")) << r.out;
  EXPECT_TRUE(table[0].ends_with("time")) << r.out;
  EXPECT_TRUE(table[1].starts_with("TF-IDF + logistic regression ")) << r.out;
  EXPECT_TRUE(table[2].starts_with("word vectors + logistic regression ")) << r.out;
  EXPECT_TRUE(table[3].starts_with("BiLSTM + attention ")) << r.out;
  EXPECT_TRUE(table[4].starts_with("text-classification-bert ")) << r.out;
  for (size_t i = 0; i < 5; ++i) EXPECT_LE(table[i].size(), 80u) << table[i];
  EXPECT_NE(table[0].find("accuracy"), std::string::npos) << r.out;
  fs::remove_all(folder_ / "out");
  const Result as_json = run(arguments({"--steps", "2", "--baseline", "--json", "-q"}));
  ASSERT_EQ(as_json.code, 0) << as_json.err;
  EXPECT_EQ(as_json.err, "");
  const json all = json::parse(as_json.out);
  ASSERT_EQ(all["baselines"].size(), 3u);
  EXPECT_EQ(all["baselines"][0]["scores"]["accuracy"], 1);
}

TEST_F(Finetune, WhatIsWrongIsSaidWithItsOption) {
  const auto fails = [&](const std::vector<std::string>& more, int code, const std::string& part) {
    const Result r = run(arguments(more));
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(folder_ / "out/config.json"));
  };
  fails({"--label", "sentimant"}, 2, "did you mean \"sentiment\"");
  fails({"--metric", "f7"}, 2, "accuracy");
  fails({"--max-length", "100000"}, 2, "--max-length");
  fails({"--freeze", "99"}, 2, "--freeze");
  fails({"--seeds", "2", "--dev-share", "0"}, 2, "--dev-share");
  fails({"--baseline", "--dev-share", "0"}, 2, "--dev-share");
  fails({"--column-pair", "sentiment"}, 2, "--column-pair is not for classify");
  fails({"--stride", "10"}, 2, "--stride is not for classify");
  fails({"--train", folder_ / "reviews.csv"}, 2, "--train was given twice");
  fails({"--dev-share", "0.2", "--dev", folder_ / "reviews.csv"}, 2, "nothing is taken out");
  fails({"--patience", "2", "--dev-share", "0"}, 2, "--dev FILE, or a --dev-share");
  fails({"--metric", "accuracy", "--dev-share", "0"}, 2, "--metric is about dev rows");
  fails({"--epochs", "0"}, 2, "--epochs 0 learns nothing");
  write_all(folder_ / "reviews.csv", "review,sentiment\nfine,good\n,good\npoor,bad\nfine,good\npoor,bad\n");
  fails({"--epochs", "1"}, 1, "reviews.csv:3: ");
  const Result skipped = run(arguments({"--epochs", "1", "--skip-bad"}));
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("1 left out"), std::string::npos) << skipped.err;
}

TEST_F(Finetune, AStudentIsMadeOfWhatItSays) {
  ASSERT_EQ(run(arguments({"--epochs", "1"})).code, 0);
  write_all(folder_ / "text.txt", "a fine film\n\na sad day\nvery good\n");
  const auto distill = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"distill",     "classify",           "--teacher", folder_ / "out",
                                    "--unlabeled", folder_ / "text.txt", "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Result r = distill({"--out", folder_ / "student", "--layers", "1", "--steps", "2", "--dev",
                            folder_ / "reviews.csv", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("text.txt: plain text, a row a line"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("3 rows to learn from"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("layers 0 of "), std::string::npos) << r.err;
  EXPECT_TRUE(json::parse(r.out)["teacher"].contains("accuracy")) << r.out;
  const Result called = run({"classify", "-m", folder_ / "student", "--json", "a lovely day"});
  EXPECT_EQ(called.code, 0) << called.err;
  EXPECT_EQ(json::parse(read_all(folder_ / "student/config.json"))["num_hidden_layers"], 1);

  const auto fails = [&](const std::vector<std::string>& more, const std::string& part) {
    const Result wrong = distill(more);
    EXPECT_EQ(wrong.code, 2) << wrong.err;
    EXPECT_NE(wrong.err.find(part), std::string::npos) << wrong.err;
  };
  const std::string out = folder_ / "other";
  fails({"--out", out, "--layers", "two"}, "--layers 6, or --layers 0,2,4,7,9,11");
  fails({"--out", out, "--layers", "0,99"}, "--layers");
  fails({"--out", out, "--layers", "0"}, "learns nothing");
  fails({"--out", out, "--temperature", "0"}, "--temperature");
  fails({"--out", out, "--data", out}, "--data is for lm");
  fails({"--out", out, "--hidden-weight", "1"}, "--hidden-weight is for lm");
  fails({"--out", out, "--layers", "1", "-m", kModel}, "layers of its teacher or");
  EXPECT_EQ(run({"distill", "classify", "--train", out, "--out", out}).code, 2);

  // With baselines, in one table with its teacher.
  const Result both =
      run({"distill", "classify", "--teacher", folder_ / "out", "--train", folder_ / "reviews.csv", "--out",
           out, "--steps", "1", "--baseline", "--threads", "1"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_NE(both.out.find("the student"), std::string::npos) << both.out;
  EXPECT_NE(both.out.find("its teacher out"), std::string::npos) << both.out;
}

TEST_F(Finetune, ALanguageModelHasStudentsToo) {
  const std::string teacher = BERTIE_SOURCE_DIR "/tests/golden/tasks/fill-mask-bert";
  write_all(folder_ / "text.txt", "A fine film was shown. It was good.\n\nThe book was poor. It was long.\n");
  const Result prepared =
      run({"prepare", folder_ / "text.txt", "--vocab", teacher, "--out", folder_ / "shards"});
  ASSERT_EQ(prepared.code, 0) << prepared.err;
  const std::vector<std::string> command = {
      "distill",           "lm",      "--teacher", teacher,   "--data", folder_ / "shards", "--out",
      folder_ / "student", "--steps", "2",         "--batch", "2",      "--max-length",     "16",
      "--threads",         "1"};
  const auto with = [&](std::vector<std::string> all, const std::vector<std::string>& more) {
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Result r = with(command, {});
  EXPECT_EQ(r.code, 0) << r.err;
  const Result filled = run({"fill-mask", "-m", folder_ / "student/last", "A [MASK] film."});
  EXPECT_EQ(filled.code, 0) << filled.err;
  EXPECT_EQ(with(command, {"--seeds", "3"}).code, 2);
  EXPECT_EQ(with(command, {"--train", folder_ / "reviews.csv"}).code, 2);
}

TEST_F(Finetune, CtrlCSavesAndTheCommandThatItPrintsGoesOn) {
  const std::vector<std::string> command =
      arguments({"--epochs", "200", "--rate", "1e-3", "--log-every", "1"});
  const Result stopped = run(command, {.meanwhile = [&](pid_t child) {
                               while (lines(read_all(folder_ / "out/run/seed-1/log.jsonl")).size() < 5)
                                 usleep(1000);
                               kill(child, SIGINT);
                             }});
  EXPECT_EQ(stopped.code, 128 + SIGINT) << stopped.err;
  EXPECT_NE(stopped.out.find("--resume"), std::string::npos) << stopped.out;
  EXPECT_FALSE(fs::exists(folder_ / "out/config.json"));
  std::vector<std::string> again = command;
  again.push_back("--resume");
  const Result r = run(again);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("continues from "), std::string::npos) << r.err;
  // The same bits as without the stop.
  std::vector<std::string> whole = command;
  whole[7] = folder_ / "whole";
  ASSERT_EQ(run(whole).code, 0);
  EXPECT_EQ(read_all(folder_ / "whole/model.safetensors"), read_all(folder_ / "out/model.safetensors"));
}

}  // namespace
