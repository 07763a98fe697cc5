// Fine-tuning from files to a folder: every kind learns, the folder is whole, a run that was stopped goes on
// to the same bits.
#include "train/finetune.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bertie/text_model.h"
#include "io/safetensors.h"
#include "small_task.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "thread_ranks.h"
#include "train/finetune_setup.h"

namespace bertie {
namespace {

namespace fs = std::filesystem;
using namespace test;

TEST(Finetune, AClassifierLearnsAndItsFolderIsWhole) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv", out = temp.path() / "out";
  write(train, reviews(300, 1));
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, out);
  job.command = "bertie finetune classify";
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  const FinetuneResult result = finetune(job, events);
  EXPECT_EQ(result.end, TrainEnd::kLimit);
  EXPECT_EQ(plan.rows + plan.dev_rows, 300u);
  EXPECT_EQ(plan.dev_rows, 30u);
  EXPECT_EQ(plan.labels, (std::vector<std::string>{"complaint", "praise"}));
  EXPECT_FALSE(plan.continues_head);
  EXPECT_EQ(first_score(result), 1);
  EXPECT_EQ(result.evaluation.rows, 30u);

  const TextModel made = load(out);
  EXPECT_EQ(made.classify("the book was fine .").labels[0].label, "praise");
  EXPECT_EQ(made.classify("the book was poor .").labels[0].label, "complaint");
  const auto metrics = nlohmann::json::parse(read(out / "metrics.json"));
  EXPECT_EQ(metrics["scores"]["accuracy"], 1);
  EXPECT_EQ(metrics["train"]["rows"], 270);
  EXPECT_NE(read(out / "README.md").find("bertie finetune classify\n"), std::string::npos);
  EXPECT_TRUE(fs::exists(out / "run" / "seed-1" / "log.jsonl"));
  for (const auto& entry : fs::directory_iterator(out / "run" / "seed-1"))
    EXPECT_FALSE(entry.is_directory()) << entry.path();  // checkpoints are gone
  // Not over what is there.
  test::expect_error("has a run already", [&] { finetune(job); });
}

TEST(Finetune, PairsTagsAnswersAndNumbersLearn) {
  const TempFolder temp;
  const fs::path model = make_model(temp);
  Random random(5);
  // The same word in both, or not.
  std::string pairs = "sentence1\tsentence2\tlabel\n", numbers = "text,score\n", tags,
              questions = R"({"version":"1.1","data":[{"title":"t","paragraphs":[)";
  for (int i = 0; i < 400; ++i) {
    const char* a = pick(random, {"ann", "bob"});
    const char* b = pick(random, {"ann", "bob"});
    pairs += fmt::format("the {}\tthe {}\t{}\n", a, b, a == b ? "same" : "other");
    const bool good = random.below(2) == 0;
    numbers += fmt::format("the film was {},{}\n", good ? "good" : "bad", good ? 2.5 : -1.5);
    const char* place = pick(random, {"paris", "rome"});
    tags += fmt::format("{} B-PER\nlives O\nin O\n{} B-LOC\n. O\n\n", a, place);
    const std::string context = fmt::format("{} lives in {} .", a, place);
    const bool who = random.below(2) == 0;
    questions += fmt::format(
        R"({}{{"context":"{}","qas":[{{"id":"{}","question":"{} ?","answers":[{{"text":"{}","answer_start":{}}}]}}]}})",
        i > 0 ? "," : "", context, i, who ? "who" : "where", who ? a : place, who ? 0 : context.find(place));
  }
  questions += "]}]}";
  const auto learn = [&](TaskKind kind, const std::string& name, const std::string& text) {
    write(temp.path() / name, text);
    FinetuneJob job = job_for(kind, model, temp.path() / name, temp.path() / (name + ".model"));
    job.epochs = kind == TaskKind::kAnswer ? 60 : kind == TaskKind::kPair ? 20 : 6;
    if (kind == TaskKind::kPair) job.seeds = 4;  // not every start finds what an exclusive or is
    return finetune(job);
  };
  EXPECT_GE(first_score(learn(TaskKind::kPair, "pairs.tsv", pairs)), 0.95);
  const FinetuneResult regression = learn(TaskKind::kClassify, "numbers.csv", numbers);
  EXPECT_GE(first_score(regression), 0.99);
  const TextModel numbered = load(regression.folder);
  EXPECT_NEAR(numbered.classify("the film was good").labels.at(0).score, 2.5, 0.5);
  EXPECT_NEAR(numbered.classify("the film was bad").labels.at(0).score, -1.5, 0.5);
  const FinetuneResult tagger = learn(TaskKind::kTag, "tags.conll", tags);
  EXPECT_GE(first_score(tagger), 0.99);
  const Tagging tagging = load(tagger.folder).tag("bob lives in rome .");
  ASSERT_EQ(tagging.entities.size(), 2u);
  EXPECT_EQ(tagging.entities[0].label, "PER");
  EXPECT_EQ(tagging.entities[1].text, "rome");
  const FinetuneResult answerer = learn(TaskKind::kAnswer, "questions.json", questions);
  EXPECT_GE(first_score(answerer), 0.95);
  EXPECT_EQ(load(answerer.folder).answer("where ?", "ann lives in paris .").answers.at(0).text, "paris");
}

TEST(Finetune, SeveralLabelsAtOnceLearn) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "labels.jsonl";
  Random random(9);
  std::string rows;
  for (int i = 0; i < 300; ++i) {
    const bool film = random.below(2) == 0, good = random.below(2) == 0;
    rows += fmt::format(R"({{"text":"the {} was {}","labels":[{}{}{}]}})", film ? "film" : "book",
                        good ? "good" : "bad", film ? "\"film\"" : "", film && good ? "," : "",
                        good ? "\"good\"" : "") +
            "\n";
  }
  write(train, rows);
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, temp.path() / "out");
  job.epochs = 25, job.seeds = 2, job.train.rate = 1e-3;
  const FinetuneResult result = finetune(job);
  EXPECT_GE(first_score(result), 0.99);
  EXPECT_EQ(load(result.folder).model().config().problem, Problem::kMultiLabel);
}

TEST(Finetune, ARunThatWasStoppedGoesOnToTheSameBits) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv";
  write(train, reviews(120, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, temp.path() / "whole");
  job.epochs = 3, job.seeds = 2, job.dropout = 0.1;
  const FinetuneResult whole = finetune(job);
  ASSERT_EQ(whole.seeds.size(), 2u);

  job.train.out = temp.path() / "stopped";
  size_t steps = 0, stops = 0;
  FinetuneEvents events;
  events.stop = [&] { return ++steps % 4 == 0; };
  FinetuneResult result;
  for (; stops < 40; ++stops) {
    result = finetune(job, events);
    job.train.resume = true;
    if (result.end != TrainEnd::kStopped) break;
  }
  EXPECT_GT(stops, 3u);
  EXPECT_EQ(read(temp.path() / "whole" / "model.safetensors"), read(job.train.out / "model.safetensors"));
  ASSERT_EQ(result.seeds.size(), 2u);
  EXPECT_EQ(result.best, whole.best);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(result.seeds[i].best_step, whole.seeds[i].best_step);
    EXPECT_EQ(result.seeds[i].scores[0].value, whole.seeds[i].scores[0].value);
  }
  EXPECT_EQ(result.evaluation.rows, whole.evaluation.rows);
}

TEST(Finetune, BaselinesAreMeasuredOnceAndStandInEveryReport) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv", out = temp.path() / "out";
  write(train, reviews(200, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, out);
  job.baseline = true, job.epochs = 2;
  FinetuneEvents events;
  size_t done = 0, asked = 0;
  events.baseline_done = [&](const BaselineResult&) { ++done; };
  // Ctrl-C while they learn: nothing is kept.
  events.baseline = [&](std::string_view, double) { ++asked; };
  events.stop = [&] { return asked > 0; };
  EXPECT_EQ(finetune(job, events).end, TrainEnd::kStopped);
  EXPECT_FALSE(fs::exists(out / "run" / "baselines.json"));
  // And after they have: they are not done again.
  done = 0;
  events.stop = [&] { return done == 3; };
  EXPECT_EQ(finetune(job, events).end, TrainEnd::kStopped);
  EXPECT_TRUE(fs::exists(out / "run" / "baselines.json"));
  job.train.resume = true, done = 0, events.stop = {};
  const FinetuneResult result = finetune(job, events);
  EXPECT_EQ(done, 0u);
  EXPECT_EQ(result.end, TrainEnd::kLimit);
  ASSERT_EQ(result.baselines.size(), 3u);
  EXPECT_EQ(result.baselines[0].evaluation.scores.at(0).name, "accuracy");
  EXPECT_EQ(result.baselines[0].evaluation.scores.at(0).value, 1);
  EXPECT_GT(result.baselines[2].seconds, 0);
  const auto metrics = nlohmann::json::parse(read(out / "metrics.json"));
  ASSERT_EQ(metrics["baselines"].size(), 3u);
  EXPECT_EQ(metrics["baselines"][0]["name"], "TF-IDF + logistic regression");
  EXPECT_EQ(metrics["baselines"][0]["scores"]["accuracy"], 1);
  EXPECT_NE(read(out / "README.md").find("| BiLSTM + attention |"), std::string::npos);
  // A file that somebody spoiled is not believed.
  write(out / "run" / "baselines.json", "[{}]");
  test::expect_error("not what baselines came to", [&] { finetune(job); });
}

TEST(Finetune, AHeadForTheSameLabelsGoesOnAndAnyOtherIsFresh) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv", first = temp.path() / "first";
  write(train, reviews(200, 3));
  finetune(job_for(TaskKind::kClassify, model, train, first));
  const auto continues = [&](FinetuneJob job) {
    bool goes_on = false;
    FinetuneEvents events;
    events.planned = [&](const FinetunePlan& p) { goes_on = p.continues_head; };
    job.train.steps = 1, job.epochs = 0;
    finetune(job, events);
    return goes_on;
  };
  FinetuneJob again = job_for(TaskKind::kClassify, first, train, temp.path() / "again");
  again.train.rate = 1e-9;
  EXPECT_TRUE(continues(again));
  EXPECT_EQ(load(again.train.out).classify("the book was fine .").labels[0].label, "praise");
  again.fresh_head = true, again.train.out = temp.path() / "fresh";
  EXPECT_FALSE(continues(again));
  const fs::path other = temp.path() / "other.tsv";
  write(other, "text\tlabel\n" + std::string("the film\tx\nthe book\ty\nthe film was\tz\n"));
  FinetuneJob relabelled = job_for(TaskKind::kClassify, first, other, temp.path() / "other");
  relabelled.dev_share = 0;
  EXPECT_FALSE(continues(relabelled));
  EXPECT_EQ(load(relabelled.train.out).model().config().labels, (std::vector<std::string>{"x", "y", "z"}));
  // A head of the hub's, whose labels have no names, knows 0 and 1.
  auto config = nlohmann::json::parse(read(first / "config.json"));
  config["id2label"] = {{"0", "LABEL_0"}, {"1", "LABEL_1"}};
  config["label2id"] = {{"LABEL_0", 0}, {"LABEL_1", 1}};
  write(first / "config.json", config.dump());
  write(other, "text\tlabel\nthe film was good\t1\nthe book was bad\t0\nthe film was fine\t1\n");
  FinetuneJob numbered = job_for(TaskKind::kClassify, first, other, temp.path() / "numbered");
  numbered.dev_share = 0;
  EXPECT_TRUE(continues(numbered));
}

TEST(Finetune, OtherFamiliesLearnWithEveryOption) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv";
  write(train, reviews(200, 4));
  for (const char* type : {"distilbert", "albert"}) {
    FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp, type), train,
                              temp.path() / (std::string(type) + "-out"));
    job.layer_decay = 0.9, job.balance_classes = true, job.label_smoothing = 0.05;
    EXPECT_EQ(first_score(finetune(job)), 1) << type;
  }
}

TEST(Finetune, FrozenLayersAreTheModelsOwn) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv", out = temp.path() / "out";
  write(train, reviews(100, 4));
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, out);
  job.freeze = 2, job.epochs = 1;
  finetune(job);
  const io::SafeTensors before = io::SafeTensors::open(model), after = io::SafeTensors::open(out);
  const auto same = [&](const std::string& name) {
    // A model without heads has no prefix.
    const io::TensorInfo *a = before.find(name), *b = after.find("bert." + name);
    EXPECT_TRUE(a && b) << name;
    return a && b && std::ranges::equal(a->data, b->data);
  };
  EXPECT_TRUE(same("embeddings.word_embeddings.weight"));
  EXPECT_TRUE(same("encoder.layer.1.output.dense.weight"));
  EXPECT_FALSE(same("pooler.dense.weight"));
}

TEST(Finetune, OverRanksItIsTheSameModel) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv";
  write(train, reviews(100, 6));
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, temp.path() / "one");
  job.epochs = 2, job.dropout = 0.1, job.threads = 1;
  const FinetuneResult one = finetune(job);
  job.train.out = temp.path() / "two";
  FinetuneResult two;
  test::ThreadRanks(2).run([&](Collective& ranks) {
    FinetuneResult result = finetune(job, ranks, {});
    if (ranks.rank() == 0) two = std::move(result);
  });
  EXPECT_NEAR(first_score(one), first_score(two), 0.1);
  const io::SafeTensors a = io::SafeTensors::open(temp.path() / "one"),
                        b = io::SafeTensors::open(temp.path() / "two");
  const io::TensorInfo &x = *a.find("classifier.weight"), &y = *b.find("classifier.weight");
  std::vector<float> p(x.elements()), q(p);
  io::to_float(x, 0, p), io::to_float(y, 0, q);
  for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(p[i], q[i], 1e-4);
}

TEST(Finetune, WhatMakesNoSenseIsSaid) {
  const TempFolder temp;
  const fs::path model = make_model(temp), train = temp.path() / "reviews.tsv", out = temp.path() / "out";
  write(train, reviews(40, 1));
  const FinetuneJob good = job_for(TaskKind::kClassify, model, train, out);
  const auto refuses = [&](const std::string& part, const char* field, const auto& change) {
    FinetuneJob job = good;
    change(job);
    try {
      finetune(job);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_EQ(error.field(), field) << error.what();
    }
  };
  refuses("no model", "model", [](FinetuneJob& j) { j.model.clear(); });
  refuses("no data", "train_file", [](FinetuneJob& j) { j.train_file.clear(); });
  refuses("folder to go to", "out", [](FinetuneJob& j) { j.train.out.clear(); });
  refuses("leaves nothing", "dev_share", [](FinetuneJob& j) { j.dev_share = 1; });
  refuses("there is none", "seeds", [](FinetuneJob& j) { j.dev_share = 0, j.seeds = 2; });
  refuses("40 at most", "max_length", [](FinetuneJob& j) { j.max_length = 41; });
  refuses("no `metric` \"f7\"", "metric", [](FinetuneJob& j) { j.metric = "f7"; });
  refuses("the better the lower", "metric", [](FinetuneJob& j) { j.metric = "calibration_error"; });
  refuses("there is none", "baseline", [](FinetuneJob& j) { j.dev_share = 0, j.baseline = true; });
  refuses("no baseline for answers", "baseline",
          [](FinetuneJob& j) { j.kind = TaskKind::kAnswer, j.baseline = true; });
  refuses("`layer_decay` 2", "layer_decay", [](FinetuneJob& j) { j.layer_decay = 2; });
  const fs::path single = temp.path() / "single.tsv";
  write(single, "text\tlabel\nthe film\tgood\nthe book\tgood\n");
  refuses("nothing to learn", "label", [&](FinetuneJob& j) { j.train_file = single.string(); });
  fs::create_directories(temp.path() / "taken");
  write(temp.path() / "taken" / "README.md", "mine");
  refuses("has a README.md already", "out", [&](FinetuneJob& j) { j.train.out = temp.path() / "taken"; });
  EXPECT_FALSE(fs::exists(temp.path() / "taken" / "run"));
  refuses("cannot be made", "out", [&](FinetuneJob& j) { j.train.out = train / "below a file"; });
}

// What is done is taken for what was asked only where it is the same.
TEST(Finetune, AFinishedRunIsNotResumedWithOtherRowsOrOptions) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv", other = temp.path() / "other.tsv";
  write(train, reviews(60, 2));
  write(other, reviews(60, 3));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.epochs = 1, job.baseline = true;
  const FinetuneResult first = finetune(job);
  const std::string card = read(job.train.out / "README.md");
  job.train.resume = true;
  EXPECT_EQ(finetune(job).seeds[0].seconds, first.seeds[0].seconds) << "nothing is done again";
  const auto refuses = [&](const auto& change) {
    FinetuneJob changed = job;
    change(changed);
    test::expect_error("on other rows, or with other options", [&] { finetune(changed); });
    EXPECT_EQ(read(job.train.out / "README.md"), card);
  };
  refuses([&](FinetuneJob& j) { j.train_file = other.string(); });
  refuses([&](FinetuneJob& j) { j.dev_file = other.string(); });
  refuses([&](FinetuneJob& j) { j.epochs = 2; });
  refuses([&](FinetuneJob& j) { j.train.rate = 1e-4; });
  // Nor may another seed take the place of the model that is there.
  refuses([&](FinetuneJob& j) { j.train_file = other.string(), j.train.seed = 8; });
  refuses([&](FinetuneJob& j) { j.train.rate = 1e-4, j.train.seed = 8; });
  job.seeds = 2;
  EXPECT_EQ(finetune(job).seeds.size(), 2u) << "more seeds are the same run";
}

// The best checkpoint so far was chosen by one score, on one set of rows: others cannot be compared with it.
TEST(Finetune, AStoppedRunGoesOnWithTheScoreAndTheDevRowsItHad) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv", dev = temp.path() / "dev.tsv",
                 other = temp.path() / "other.tsv";
  write(train, reviews(60, 2)), write(dev, reviews(20, 3)), write(other, reviews(20, 4));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.dev_file = dev.string(), job.epochs = 4;
  size_t steps = 0;
  FinetuneEvents events;
  events.stop = [&] { return ++steps % 6 == 0; };
  ASSERT_EQ(finetune(job, events).end, TrainEnd::kStopped);
  job.train.resume = true;
  FinetuneJob changed = job;
  changed.metric = "f1_macro";
  test::expect_error("measured by accuracy, and would go on with f1_macro", [&] { finetune(changed); });
  changed = job, changed.dev_file = other.string();
  test::expect_error("measured on other dev rows", [&] { finetune(changed); });
  job.metric = "accuracy";  // what it was by default
  EXPECT_EQ(finetune(job).end, TrainEnd::kLimit);
}

TEST(Finetune, AFinishedRunIsNotThatOfOtherWeights) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv", model = make_model(temp);
  write(train, reviews(40, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, model, train, temp.path() / "out");
  job.epochs = 1;
  finetune(job);
  job.train.resume = true;
  fs::rename(model, temp.path() / "elsewhere");
  job.model = (temp.path() / "elsewhere").string();
  EXPECT_EQ(finetune(job).seeds.size(), 1u) << "the same weights at another place";
  Config config = load(job.model).model().config();
  Model::random(config, 2, {}).save(job.model);
  test::expect_error("on other rows, or with other options", [&] { finetune(job); });
}

TEST(Finetune, SeedsAreToldAsTheyBegin) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv";
  write(train, reviews(40, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.epochs = 1, job.seeds = 2;
  std::vector<size_t> begun;
  FinetuneEvents events;
  events.seed_begun = [&](size_t index) { begun.push_back(index); };
  finetune(job, events);
  EXPECT_EQ(begun, (std::vector<size_t>{0, 1}));
  job.train.resume = true, job.seeds = 3, begun.clear();
  finetune(job, events);
  EXPECT_EQ(begun, (std::vector<size_t>{2}));
}

// Of one row there is no correlation: seeds are compared by the first score that there is.
TEST(Finetune, SeedsAreComparedByAScoreThatIsANumber) {
  const TempFolder temp;
  const fs::path train = temp.path() / "scores.csv", dev = temp.path() / "dev.csv";
  std::string rows = "text,score\n";
  for (int i = 0; i < 40; ++i) rows += i % 2 ? "the film was good,1.5\n" : "the film was bad,-1.5\n";
  write(train, rows), write(dev, "text,score\nthe film was fine,0.5\n");
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.dev_file = dev.string(), job.epochs = 1, job.seeds = 4;
  const FinetuneResult result = finetune(job);
  ASSERT_FALSE(std::isfinite(first_score(result)));
  const auto error_of = [&](const SeedResult& seed) {
    return std::ranges::find(seed.scores, "mean_squared_error", &NamedScore::name)->value;
  };
  for (const SeedResult& seed : result.seeds) EXPECT_LE(error_of(result.seeds[result.best]), error_of(seed));
  job.train.resume = true;
  const FinetuneResult again = finetune(job);
  EXPECT_EQ(again.best, result.best) << "and so when they were done before";
  EXPECT_EQ(load(result.folder).model().config().labels, std::vector<std::string>{"score"});
}

TEST(Finetune, DevLabelsThatAreNumbersOfNamesAreSaid) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv", dev = temp.path() / "dev.tsv";
  write(train, reviews(40, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.dev_file = dev.string(), job.epochs = 1;
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  write(dev, "text\tlabel\nthe film was good\t1\nthe film was bad\t0\n");
  finetune(job, events);
  EXPECT_TRUE(plan.dev_labels_are_places);
  write(dev, reviews(20, 3)), job.train.out = temp.path() / "named";
  finetune(job, events);
  EXPECT_FALSE(plan.dev_labels_are_places);
}

// A model that was trained on short texts reads as many tokens when it is used.
TEST(Finetune, TheLengthItWasTrainedWithIsTheModels) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv";
  write(train, reviews(40, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.epochs = 1, job.max_length = 6;
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  const FinetuneResult r = finetune(job, events);
  EXPECT_GT(plan.truncated, 0u);
  EXPECT_GT(plan.dev_truncated, 0u);
  EXPECT_EQ(load(r.folder).task_max_length(), 6u);
  job.max_length = 0, job.train.out = temp.path() / "long";
  EXPECT_EQ(load(finetune(job).folder).task_max_length(), 40u);
  // A tokenizer that says more than the model takes would not cut for transformers.
  write(fs::path(job.model) / "tokenizer_config.json", R"({"model_max_length": 512})");
  job.train.out = temp.path() / "cut";
  const auto config = nlohmann::json::parse(read(finetune(job).folder / "tokenizer_config.json"));
  EXPECT_EQ(config["model_max_length"], 40);
}

TEST(Finetune, RowsThatAreNotUtf8AreToldOfOrRefused) {
  const TempFolder temp;
  const fs::path train = temp.path() / "caf\xe9.tsv";
  write(train, reviews(40, 2) + "the caf\xe9 was good\tpraise\n");
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.epochs = 1;
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  EXPECT_EQ(finetune(job, events).end, TrainEnd::kLimit) << "nor does a file's name stop it";
  EXPECT_EQ(plan.invalid_rows, 1u);
  EXPECT_TRUE(plan.first_invalid.ends_with(":42")) << plan.first_invalid;
  job.data.strict = true, job.train.out = temp.path() / "strict";
  test::expect_error("not valid UTF-8", [&] { finetune(job); });
}

TEST(Finetune, MemoryIsBoundedByARanksShare) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv";
  write(train, reviews(40, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.train.batch = 2000;
  const size_t alone = FinetuneSetup(job, 1, 1).plan.train.accumulate;
  EXPECT_GT(alone, 1u);
  EXPECT_LT(FinetuneSetup(job, 1, 2).plan.train.accumulate, alone);
  EXPECT_EQ(FinetuneSetup(job, 1, 2000).plan.train.accumulate, 1u);
  job.train.accumulate = 1;
  EXPECT_EQ(FinetuneSetup(job, 1, 1).plan.train.accumulate, 1u);
}

TEST(Finetune, AShareThatIsGivenIsTakenWhole) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv";
  write(train, reviews(24'000, 2));
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  EXPECT_NEAR(double(FinetuneSetup(job, 1, 1).plan.dev_rows), 2000, 2);
  job.dev_share = 0.5;
  EXPECT_NEAR(double(FinetuneSetup(job, 1, 1).plan.dev_rows), 12'000, 2);
}

// Questions are cut at 64 tokens, but leave room for the context in windows that are short.
TEST(Finetune, ALongQuestionLeavesRoomForItsContext) {
  const TempFolder temp;
  const fs::path train = temp.path() / "questions.jsonl";
  std::string question;
  for (size_t i = 0; i < 80; ++i) question += "who lives ";
  write(train, "{\"question\": \"" + question +
                   "?\", \"context\": \"ann lives in paris .\", \"answers\": {\"text\": [\"ann\"], "
                   "\"answer_start\": [0]}}\n");
  FinetuneJob job = job_for(TaskKind::kAnswer, make_model(temp), train, temp.path() / "out");
  job.dev_share = 0, job.epochs = 1;
  EXPECT_EQ(finetune(job).end, TrainEnd::kLimit);
}

// A dozen rows: of checkpoints that are equally good on one or two rows the one that has learned longest.
TEST(Finetune, ADozenRowsAreEnoughForWhatIsSimple) {
  const TempFolder temp;
  const fs::path train = temp.path() / "few.tsv";
  std::string rows = "text\tlabel\n";
  for (const char* thing : {"film", "book", "a film"})
    for (const char* word : {"good", "fine", "bad", "poor"})
      rows +=
          fmt::format("the {} was {}\t{}\n", thing, word, word[0] == 'g' || word[0] == 'f' ? "yes" : "no");
  write(train, rows);
  FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp), train, temp.path() / "out");
  job.epochs = 0, job.train.rate = 1e-3;
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  const FinetuneResult r = finetune(job, events);
  EXPECT_GE(plan.train.steps, 100u);
  EXPECT_GE(plan.train.eval_every.value(), 5u) << "some twenty evaluations";
  EXPECT_EQ(r.seeds[0].best_step, plan.train.steps) << "the last of equals";
  EXPECT_EQ(load(r.folder).classify("the book was poor").labels[0].label, "no");
  EXPECT_GT(load(r.folder).classify("a book was good").labels[0].score, 0.9);
}

// A C++ program that gives `out` alone gets what the command line gives.
TEST(Finetune, TrainOptionsThatAreNotGivenGoByTheRows) {
  const TempFolder temp;
  const fs::path train = temp.path() / "reviews.tsv";
  write(train, reviews(40, 1));
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  events.stop = [] { return true; };
  finetune({.model = make_model(temp).string(),
            .train_file = train.string(),
            .threads = 1,
            .train = {.out = temp.path() / "out"}},
           events);
  EXPECT_EQ(plan.train.batch, 16u);
  EXPECT_EQ(plan.train.outlier, 0.0);
  EXPECT_LE(plan.train.eval_every.value(), plan.train.steps / 10);
}

TEST(Finetune, SmallSetsTakeMoreEpochsAndNarrowModelsLargerSteps) {
  EXPECT_EQ(default_epochs(400), 20);
  EXPECT_EQ(default_epochs(3668), 8);
  EXPECT_EQ(default_epochs(67'349), 3);
  EXPECT_EQ(default_epochs(400'000), 2);
  EXPECT_EQ(default_batch(400), 16u);
  EXPECT_EQ(default_batch(67'349), 32u);
  EXPECT_DOUBLE_EQ(default_rate(768), 3e-5);
  EXPECT_GT(default_rate(384), default_rate(768));
}

}  // namespace
}  // namespace bertie
