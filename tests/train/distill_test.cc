// A student learns what its teacher says: layers, answers that are kept, every kind of task, language models.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bertie/data.h"
#include "bertie/text_model.h"
#include "io/safetensors.h"
#include "small_task.h"
#include "support/expect_error.h"
#include "thread_ranks.h"
#include "train/finetune.h"
#include "train/loop/trainer.h"
#include "train/teaching.h"

namespace bertie {
namespace {

using namespace test;

TEST(StudentLayers, AreSpreadEvenly) {
  const auto layers = [](size_t depth, size_t all) { return student_layers({.depth = depth}, all); };
  using List = std::vector<size_t>;
  EXPECT_EQ(layers(6, 12), (List{0, 2, 4, 7, 9, 11})) << "as DistilBERT's authors chose them";
  EXPECT_EQ(layers(0, 12), layers(6, 12)) << "half";
  EXPECT_EQ(layers(4, 12), (List{0, 4, 7, 11}));
  EXPECT_EQ(layers(3, 3), (List{0, 1, 2}));
  EXPECT_EQ(layers(1, 12), List{0});
  EXPECT_EQ(layers(0, 1), List{0});
  EXPECT_EQ(student_layers({.layers = {3, 1}}, 4), (List{3, 1}));
  expect_error("no layer 4", [] { student_layers({.layers = {0, 4}}, 4); });
  expect_error("more than", [&] { layers(13, 12); });
}

// A teacher that was trained for a task: texts that one word decides.
class Distill : public testing::Test {
 protected:
  Distill() {
    write(train_, reviews(300, 1));
    FinetuneJob job = job_for(TaskKind::kClassify, make_model(temp_, "bert", {}, 4), train_, teacher_);
    job.train.rate = 1e-3, job.epochs = 12;
    EXPECT_EQ(first_score(finetune(job)), 1);
  }
  FinetuneJob student(const std::string& out) const {
    FinetuneJob job = job_for(TaskKind::kClassify, "", train_, temp_.path() / out);
    job.model.clear(), job.train.rate = 1e-3;
    job.teaching.teacher = teacher_.string();
    return job;
  }

  const TempFolder temp_;
  const fs::path train_ = temp_.path() / "reviews.tsv", teacher_ = temp_.path() / "teacher";
};

TEST_F(Distill, AStudentOfHalfTheLayersLearnsFromTextAlone) {
  std::string text;
  for (const char* row :
       {"the film was good .", "a book was poor .", "the book was fine .", "a film was bad ."})
    for (int i = 0; i < 12; ++i) text += fmt::format("{}\n{}\n", row, i % 2 ? "" : "   ");
  write(temp_.path() / "text.txt", text);
  FinetuneJob job = student("out");
  job.train_file.clear(), job.unlabeled_file = (temp_.path() / "text.txt").string();
  job.dev_file = train_.string();
  FinetunePlan plan;
  std::vector<std::string> names;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  events.progress = [&](const TrainProgress& p) {
    names.clear();
    for (const Metric& m : p.metrics) names.push_back(m.name);
  };
  const FinetuneResult r = finetune(job, events);
  EXPECT_EQ(plan.rows, 48u) << "empty lines are no rows";
  EXPECT_EQ(plan.model, fmt::format("layers 0, 3 of {}", teacher_.string()));
  EXPECT_TRUE(plan.continues_head);
  EXPECT_EQ(names, std::vector<std::string>{"teacher"});
  EXPECT_EQ(first_score(r), 1);
  ASSERT_FALSE(r.teacher.empty());
  EXPECT_EQ(r.teacher[0].value, 1);

  const TextModel made = load(r.folder);
  EXPECT_EQ(made.model().config().layers, 2u);
  EXPECT_EQ(made.classify("the book was fine .").labels[0].label, "praise");
  const auto metrics = nlohmann::json::parse(read(r.folder / "metrics.json"));
  EXPECT_EQ(metrics["teacher"]["scores"]["accuracy"], 1);
  EXPECT_NE(read(r.folder / "README.md").find("| accuracy | 1.0000 | 1.0000 |"), std::string::npos);
}

// What the teacher says is in the order of its labels, whatever a student had learned before.
TEST_F(Distill, AStudentsOwnOrderOfLabelsIsNotTheTeachers) {
  const fs::path other = temp_.path() / "other";
  Config config = Config::load(make_model(temp_, "bert"));
  config.labels = {"praise", "complaint"};
  Model::random(config, 3, {Head::kClassify}).save(other);
  write(other / "vocab.txt", kVocabulary);
  FinetuneJob job = student("out");
  job.model = other.string(), job.teaching.hard_weight = 0, job.epochs = 12;
  const FinetuneResult r = finetune(job);
  EXPECT_EQ(first_score(r), 1);
  EXPECT_EQ(load(r.folder).model().config().labels, (std::vector<std::string>{"complaint", "praise"}));
}

TEST_F(Distill, WithLabelsThereAreTwoLosses) {
  write(temp_.path() / "more.csv", "text\nthe film was very good .\nthe film was very bad .\n");
  FinetuneJob job = student("out");
  job.unlabeled_file = (temp_.path() / "more.csv").string();
  job.train.steps = 3, job.train.batch = 272;  // all of them in each step
  TrainProgress last;
  FinetunePlan plan;
  FinetuneEvents events;
  events.planned = [&](const FinetunePlan& p) { plan = p; };
  events.progress = [&](const TrainProgress& p) { last = p; };
  finetune(job, events);
  EXPECT_EQ(plan.unlabeled_rows, 2u);
  ASSERT_EQ(last.metrics.size(), 2u);
  EXPECT_EQ(last.metrics[0].name, "row");
  EXPECT_EQ(last.metrics[1].name, "teacher");
  EXPECT_NEAR(last.loss, 0.5 * last.metrics[0].loss + 0.5 * last.metrics[1].loss, 1e-9);
  EXPECT_EQ(last.metrics[1].count * 270, last.metrics[0].count * 272) << "two rows have the teacher alone";
  EXPECT_EQ(plan.rows, 270u);
}

fs::path logits_file(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".bin") found = entry.path();
  return found;
}

// What the teacher said is computed once, and a file that broke off goes on.
TEST_F(Distill, LogitsAreKept) {
  std::string text = "text\n";
  for (int i = 0; i < 600; ++i) text += i % 3 ? "the film was good .\n" : "a book was very bad .\n";
  write(temp_.path() / "rows.csv", text);
  const Dataset data =
      read_dataset(TaskKind::kClassify, (temp_.path() / "rows.csv").string(), {.labels_needed = false});
  const fs::path folder = temp_.path() / "kept";
  fs::create_directories(folder);
  const auto ask = [&](size_t most_parts) {
    size_t parts = 0;
    SoftTargets out;
    ThreadRanks(1).run([&](Collective& ranks) {
      TaskTeacher teacher(teacher_.string(), TaskKind::kClassify, 1);
      try {
        out = teacher.soft_targets({.data = {&data}, .encoding = {}, .folder = folder}, ranks,
                                   [&](size_t, size_t) { return ++parts == most_parts; });
      } catch (const Trainer::EvaluationStopped&) {
      }
    });
    return out;
  };
  ask(1);
  const fs::path file = logits_file(folder);
  const std::string begun = read(file);
  const SoftTargets all = ask(99);
  EXPECT_EQ(all.columns, 2u);
  ASSERT_EQ(all.logits.size(), 1200u);
  const std::string whole = read(file);
  EXPECT_EQ(whole.substr(0, begun.size()), begun);
  // The classifier's own probabilities.
  const TextModel model = load(teacher_);
  const Classification said = model.classify("the film was good .");
  const double odds = std::log(double(said.labels[0].score) / double(said.labels[1].score));
  EXPECT_NEAR(std::abs(double(all.logits[2]) - double(all.logits[3])), odds, 1e-3);

  const auto again = fs::last_write_time(file);
  EXPECT_EQ(ask(99).logits, all.logits);
  EXPECT_EQ(fs::last_write_time(file), again) << "nothing was computed again";
  for (const size_t cut : {size_t{0}, size_t{5}, size_t{20}, begun.size() + 9, whole.size() - 1}) {
    write(file, whole.substr(0, cut));
    EXPECT_EQ(ask(99).logits, all.logits) << cut;
    EXPECT_EQ(read(file), whole) << cut;
  }
  std::string damaged = whole;
  damaged[begun.size() + 30] ^= 1;
  write(file, damaged);
  EXPECT_EQ(ask(99).logits, all.logits);
  EXPECT_EQ(read(file), whole);
}

TEST_F(Distill, RanksShareTheTeachersWork) {
  const auto run = [&](int size, const std::string& out) {
    FinetuneJob job = student(out);
    job.train.steps = 6, job.threads = 1;
    FinetuneResult result;
    ThreadRanks(size).run([&](Collective& ranks) {
      FinetuneResult mine = finetune(job, ranks, {});
      if (ranks.rank() == 0) result = mine;
    });
    return result;
  };
  const FinetuneResult one = run(1, "one"), two = run(2, "two");
  EXPECT_EQ(read(logits_file(one.folder / "run")), read(logits_file(two.folder / "run")))
      << "a row's logits are the same bits in any batch";
  const io::SafeTensors alone = io::SafeTensors::open(one.folder),
                        together = io::SafeTensors::open(two.folder);
  for (const io::TensorInfo& t : alone.tensors()) {
    const io::TensorInfo* other = together.find(t.name);
    ASSERT_TRUE(other) << t.name;
    std::vector<float> x(t.elements()), y(t.elements());
    io::to_float(t, 0, x), io::to_float(*other, 0, y);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << t.name;
  }
}

// A distilled run that was stopped between steps goes on to the same bits.
TEST_F(Distill, StoppedBetweenStepsItGoesOnToTheSameBits) {
  FinetuneJob whole = student("whole"), cut = student("cut");
  whole.train.steps = cut.train.steps = 20;
  finetune(whole);
  size_t steps = 0;
  FinetuneEvents events;
  events.progress = [&](const TrainProgress& p) { steps = p.step; };
  events.stop = [&] { return steps == 7; };
  EXPECT_EQ(finetune(cut, events).end, TrainEnd::kStopped);
  cut.train.resume = true;
  EXPECT_EQ(finetune(cut).end, TrainEnd::kLimit);
  EXPECT_EQ(read(whole.train.out / "model.safetensors"), read(cut.train.out / "model.safetensors"));
}

// A teacher with other tokens: what is said of a text or a word does not depend on them.
TEST_F(Distill, TheTokenizersMayDiffer) {
  const fs::path other = temp_.path() / "other";
  Config config = Config::load(make_model(temp_, "bert"));
  config.vocabulary = 26;
  Model::random(config, 3).save(other);
  write(other / "vocab.txt", "[PAD]\n[UNK]\n[MASK]\n[CLS]\n[SEP]\nx\n" +
                                 std::string(kVocabulary).substr(std::string(kVocabulary).find("good")));
  FinetuneJob job = student("out");
  job.model = other.string(), job.teaching.hard_weight = 0, job.epochs = 16;
  EXPECT_EQ(first_score(finetune(job)), 1);
}

TEST_F(Distill, StoppedWhileTheTeacherReadsItGoesOn) {
  FinetuneJob job = student("out");
  FinetuneEvents events;
  events.stop = [] { return true; };
  EXPECT_EQ(finetune(job, events).end, TrainEnd::kStopped);
  EXPECT_FALSE(logits_file(job.train.out / "run").empty());
  job.train.resume = true;
  EXPECT_EQ(finetune(job).end, TrainEnd::kLimit);
}

TEST_F(Distill, WhatMakesNoSenseIsSaid) {
  const auto refused = [&](const std::string& part, auto change) {
    FinetuneJob job = student("out");
    change(job);
    expect_error(part, [&] { finetune(job); });
  };
  refused("no layer 9", [](FinetuneJob& j) { j.teaching.layers = {0, 9}; });
  refused("was not trained to tag", [](FinetuneJob& j) { j.kind = TaskKind::kTag; });
  refused("temperature", [](FinetuneJob& j) { j.teaching.temperature = 0; });
  refused("soft_weight", [](FinetuneJob& j) { j.teaching.soft_weight = -1; });
  refused("for a teacher to say something of", [&](FinetuneJob& j) {
    j.model = j.teaching.teacher, j.teaching = {}, j.unlabeled_file = train_.string();
  });
  refused("nothing to learn", [](FinetuneJob& j) { j.teaching.soft_weight = j.teaching.hard_weight = 0; });
  refused("nothing to learn", [](FinetuneJob& j) {
    j.unlabeled_file = j.train_file, j.train_file.clear(), j.teaching.soft_weight = 0;
  });
  refused("more than the model's", [](FinetuneJob& j) { j.freeze = 9; });
  refused("does not hear", [](FinetuneJob& j) { j.teaching.hard_weight = 0, j.label_smoothing = 0.1; });
  refused("not of this kind", [](FinetuneJob& j) { j.data.problem = Problem::kMultiLabel; });
  refused("is not one of", [&](FinetuneJob& j) {
    write(temp_.path() / "numbers.csv", "text,score\na film,0.5\na book,1.5\nthe film,2.5\n");
    j.train_file = (temp_.path() / "numbers.csv").string();
  });
  refused("is not one of", [&](FinetuneJob& j) {
    write(temp_.path() / "others.csv", "text,label\na film,red\na book,blue\nthe film,red\n");
    j.train_file = (temp_.path() / "others.csv").string();
  });
}

// Tags are said of words, answers of tokens, numbers as they are.
TEST(DistillKinds, TagsAnswersNumbersAndSeveralLabels) {
  const TempFolder temp;
  const fs::path model = make_model(temp);
  std::string tags, numbers = "text,score\n", several,
                    questions = R"({"version":"1.1","data":[{"title":"t","paragraphs":[)";
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const char* name = pick(random, {"ann", "bob"});
    const char* place = pick(random, {"paris", "rome"});
    const bool good = random.below(2) == 0;
    tags += fmt::format("{} B-PER\nlives O\nin O\n{} B-LOC\n. O\n\n", name, place);
    numbers += fmt::format("the film was {},{}\n", good ? "good" : "bad", good ? 2.5 : -1.5);
    several += fmt::format(R"({{"text": "{} {}", "labels": [{}]}})", good ? "good" : "bad", name,
                           good ? (name[0] == 'a' ? R"("praise", "ann")" : R"("praise")")
                                : (name[0] == 'a' ? R"("ann")" : "")) +
               "\n";
    const std::string context = fmt::format("{} lives in {} .", name, place);
    const bool who = random.below(2) == 0;
    questions += fmt::format(
        R"({}{{"context":"{}","qas":[{{"id":"{}","question":"{} ?","answers":[{{"text":"{}","answer_start":{}}}]}}]}})",
        i > 0 ? "," : "", context, i, who ? "who" : "where", who ? name : place,
        who ? 0 : context.find(place));
  }
  questions += "]}]}";
  const auto distilled = [&](TaskKind kind, const std::string& name, const std::string& text, double epochs,
                             const std::string& start = "") {
    write(temp.path() / name, text);
    FinetuneJob job = job_for(kind, model, temp.path() / name, temp.path() / (name + ".teacher"));
    job.epochs = epochs;
    const FinetuneResult teacher = finetune(job);
    FinetuneJob student = job_for(kind, "", temp.path() / name, temp.path() / (name + ".student"));
    student.model = start, student.teaching.teacher = teacher.folder.string();
    if (start.empty()) student.teaching.hard_weight = 0;
    student.epochs = epochs, student.seeds = 2;
    const FinetuneResult r = finetune(student);
    EXPECT_GE(first_score(r), first_score(teacher) - 0.05) << name;
    return load(r.folder);
  };
  const TextModel tagger = distilled(TaskKind::kTag, "tags.conll", tags, 6);
  EXPECT_EQ(tagger.tag("bob lives in rome .").entities.size(), 2u);
  distilled(TaskKind::kClassify, "numbers.csv", numbers, 6);
  distilled(TaskKind::kClassify, "several.jsonl", several, 8);
  // Whole numbers alone are numbers too, where the teacher says numbers.
  write(temp.path() / "whole.csv", "text,score\nthe film was good,2\nthe film was bad,-1\n");
  FinetuneJob whole = job_for(TaskKind::kClassify, "", temp.path() / "whole.csv", temp.path() / "whole");
  whole.model.clear(), whole.teaching.teacher = (temp.path() / "numbers.csv.teacher").string();
  whole.dev_file = whole.train_file, whole.train.steps = 1;
  EXPECT_EQ(finetune(whole).evaluation.scores[0].name, "r2");

  const TextModel answerer = distilled(TaskKind::kAnswer, "questions.json", questions, 60, model.string());
  FinetuneJob stranger =
      job_for(TaskKind::kAnswer, "", temp.path() / "questions.json", temp.path() / "stranger");
  const fs::path other = temp.path() / "other";
  Model::random(Config::load(model), 3).save(other);
  write(other / "vocab.txt",
        std::string(kVocabulary).replace(std::string(kVocabulary).find("ann\nbob"), 7, "bob\nann"));
  stranger.model = other.string(),
  stranger.teaching.teacher = (temp.path() / "questions.json.teacher").string();
  expect_error("other tokens", [&] { finetune(stranger); });
  EXPECT_EQ(answerer.answer("where ?", "ann lives in paris .").answers.at(0).text, "paris");
}

// As DistilBERT was made: some layers of a language model, three losses.
TEST(DistillLanguageModel, LearnsFromWordsMasksAndHiddenStates) {
  const TempFolder temp;
  const fs::path fresh = make_model(temp, "bert", {Head::kMaskedLm}, 4);
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += i % 2 ? "ann lives in paris .\n\n" : "bob lives in rome .\nthe film was good .\n\n";
  prepare({.texts = {.inputs = {temp.write("text", text).string()}},
           .out = temp.path() / "shards",
           .tokenizer = fresh / "vocab.txt",
           .held_out = 0.2,
           .threads = 1});
  PretrainJob job;
  job.data = temp.path() / "shards", job.objective = "mlm", job.max_length = 16, job.threads = 2;
  job.train.batch = 8, job.train.steps = 150, job.train.rate = 3e-3, job.train.log_every = 1;
  const auto run = [&](const std::string& out, TrainProgress& first, TrainProgress& last) {
    job.train.out = temp.path() / out;
    return pretrain(job, {.progress =
                              [&](const TrainProgress& p) {
                                if (p.step == 1) first = p;
                                last = p;
                              }})
        .checkpoint;
  };
  TrainProgress first, last;
  job.from = fresh;
  const fs::path teacher = run("teacher", first, last);

  // A fresh student, that hears its teacher alone.
  job.from.clear(), job.teaching.teacher = teacher.string(), job.teaching.hard_weight = 0;
  job.config =
      temp.write("config.json",
                 R"({"model_type": "bert", "vocab_size": 25, "hidden_size": 32, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 40})");
  EXPECT_TRUE(Model::load(run("student", first, last)).has(Head::kMaskedLm));
  ASSERT_EQ(last.metrics.size(), 3u);
  EXPECT_EQ(last.metrics[0].name, "token");
  EXPECT_EQ(last.metrics[1].name, "teacher");
  EXPECT_EQ(last.metrics[2].name, "hidden");
  EXPECT_GT(last.metrics[1].count, last.metrics[0].count) << "the teacher says something of every token";
  for (size_t m : {size_t{1}, size_t{2}}) EXPECT_LT(last.metrics[m].loss, 0.5 * first.metrics[m].loss) << m;

  // It learns from sentences too, which its teacher knows nothing of.
  job.objective = "mlm+nsp", job.train.steps = 30, job.train.bf16 = true;
  EXPECT_TRUE(Model::load(run("pairs", first, last)).has(Head::kNextSentence));
  ASSERT_EQ(last.metrics.size(), 4u);
  EXPECT_EQ(last.metrics[1].name, "label");
  EXPECT_EQ(last.metrics[1].count, 8u);
  EXPECT_EQ(last.metrics[2].name, "teacher");
  EXPECT_LT(last.metrics[2].loss, first.metrics[2].loss);
  job.objective = "mlm", job.train.bf16 = false;

  // Without a model it is half of the teacher's layers, and without a rate it stays so.
  job.teaching.hard_weight.reset(), job.config.clear();
  job.train.steps = 1, job.train.warmup = 1;  // the first rate is 0
  const io::SafeTensors mine = io::SafeTensors::open(run("start", first, last)),
                        its = io::SafeTensors::open(teacher);
  EXPECT_NEAR(first.loss, 2 * first.metrics[0].loss + 5 * first.metrics[1].loss + first.metrics[2].loss,
              1e-6);
  const auto numbers = [](const io::SafeTensors& files, const std::string& name) {
    const io::TensorInfo* t = files.find(name);
    EXPECT_TRUE(t) << name;
    std::vector<float> out(t ? t->elements() : 0);
    if (t) io::to_float(*t, 0, out);
    return out;
  };
  for (const auto& [to, from] : {std::pair("0", "0"), std::pair("1", "3")})
    EXPECT_EQ(numbers(mine, fmt::format("bert.encoder.layer.{}.output.dense.weight", to)),
              numbers(its, fmt::format("bert.encoder.layer.{}.output.dense.weight", from)));
}

TEST(DistillLanguageModel, WhatMakesNoSenseIsSaid) {
  const TempFolder temp;
  const fs::path teacher = make_model(temp, "bert", {Head::kMaskedLm}, 4),
                 headless = make_model(temp, "distilbert", {});
  const auto shards = [&](const char* name, const fs::path& vocabulary) {
    prepare(
        {.texts = {.inputs = {temp.write("text", "ann lives in paris .\n\nbob lives in rome .\n").string()}},
         .out = temp.path() / name,
         .tokenizer = vocabulary,
         .threads = 1});
    return temp.path() / name;
  };
  PretrainJob good;
  good.data = shards("shards", teacher / "vocab.txt"), good.objective = "mlm", good.max_length = 16;
  good.teaching.teacher = teacher.string();
  good.train.out = temp.path() / "run", good.train.steps = 1, good.train.batch = 2;
  const auto refused = [&](const std::string& part, auto change) {
    PretrainJob job = good;
    change(job);
    expect_error(part, [&] { pretrain(job); });
  };
  refused("not for seq2seq", [](PretrainJob& j) { j.objective = "seq2seq"; });
  refused("no language model", [&](PretrainJob& j) { j.teaching.teacher = headless.string(); });
  refused("too long", [](PretrainJob& j) { j.max_length = 64; });
  refused("another vocabulary", [&](PretrainJob& j) {
    const fs::path other = temp.write("other.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nann\nbob\n");
    j.data = shards("others", other);
  });
  refused("cannot point", [&](PretrainJob& j) {
    j.config =
        temp.write("config.json",
                   R"({"model_type": "bert", "vocab_size": 25, "hidden_size": 16, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16})");
    j.teaching.hidden_weight = 1;
  });
}

}  // namespace
}  // namespace bertie
