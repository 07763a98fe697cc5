// bertie pretrain, as its users run it: on a small text, prepared here.
#include <algorithm>
#include <set>

#include "program.h"

using namespace bertie::test;

namespace {

// Shards of a made-up text, with a tenth held out, in a folder that all tests share.
class Pretrain : public testing::Test {
 public:
  static void SetUpTestSuite() {
    shards_ = new TemporaryFolder;
    std::string text;
    const char* words[] = {"you", "found", "me", "the", "river", "bank", "unbelievable"};
    unsigned draw = 1;
    const auto next = [&] { return (draw = draw * 1664525u + 1013904223u) >> 16; };
    for (int document = 0; document < 200; ++document) {
      for (int sentence = 0; sentence < 6; ++sentence) {
        for (unsigned i = 0; i < 4 + next() % 8; ++i) text += std::string(words[next() % 7]) + " ";
        text += ".\n";
      }
      text += "\n";
    }
    write_all(*shards_ / "text.txt", text);
    write_all(*shards_ / "vocab.txt", kVocabulary);
    write_all(*shards_ / "config.json",
              R"({"model_type":"bert","num_hidden_layers":1,"hidden_size":32,"num_attention_heads":2,
                  "intermediate_size":64,"vocab_size":20,"max_position_embeddings":40})");
    const Result r = run({"prepare", "--vocab", *shards_ / "vocab.txt", "--held-out", "0.1", "--out",
                          *shards_ / "data", *shards_ / "text.txt", "-q"});
    ASSERT_EQ(r.code, 0) << r.err;
  }
  static void TearDownTestSuite() { delete shards_, shards_ = nullptr; }

  std::vector<std::string> arguments(const std::string& out, std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {"pretrain",
                                    "--data",
                                    *shards_ / "data",
                                    "--config",
                                    *shards_ / "config.json",
                                    "--out",
                                    folder_ / out,
                                    "--max-length",
                                    "32",
                                    "--batch",
                                    "4",
                                    "--threads",
                                    "1",
                                    "--steps",
                                    "20",
                                    "--log-every",
                                    "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string model_of(const std::string& out, const std::string& step) const {
    return read_all(folder_ / out / step / "model.safetensors");
  }

  static TemporaryFolder* shards_;
  TemporaryFolder folder_;
};
TemporaryFolder* Pretrain::shards_ = nullptr;

TEST_F(Pretrain, MakesAModelThatRuns) {
  const Result r = run(arguments("run", {"--eval-every", "10", "--dropout", "0.1"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with((folder_ / "run/step-000020").string() + ": 20 steps, ")) << r.out;
  EXPECT_NE(r.out.find("best on held-out data: step "), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("100%  step 20/20  loss "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("  sentences "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" tokens/s  rate "), std::string::npos) << r.err;
  EXPECT_EQ(lines(read_all(folder_ / "run/log.jsonl")).size(), 22u);
  const Result filled = run({"fill-mask", "-m", folder_ / "run/last", "--json", "you found [MASK] ."});
  EXPECT_EQ(filled.code, 0) << filled.err;
  EXPECT_EQ(run({"next-sentence", "-m", folder_ / "run/best", "you", "me"}).code, 0);
  const std::vector<std::string> known = {
      "evaluate", "lm", "-m", folder_ / "run/best", "--data", *shards_ / "data", "--max-length", "32"};
  const Result scores = run(known);
  EXPECT_EQ(scores.code, 0) << scores.err;
  EXPECT_NE(scores.out.find("next sentences "), std::string::npos) << scores.out;
  EXPECT_NE(scores.out.find(" bits for each byte of text; "), std::string::npos) << scores.out;
  std::vector<std::string> exact = known;
  exact.push_back("--json");
  const json same = json::parse(run(exact).out);
  EXPECT_GT(same["token_count"].get<double>(), 100);
  EXPECT_GT(same["bits_per_byte"].get<double>(), 0.1);
  exact.insert(exact.end(), {"--stride", "4"});
  const Result refused = run(exact);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--stride is for tasks"), std::string::npos) << refused.err;
}

TEST_F(Pretrain, LearnsAndSaysSoInJson) {
  const Result r =
      run(arguments("run", {"--steps", "150", "--rate", "0.01", "--objective", "mlm", "--json", "-q"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const json out = json::parse(r.out);
  EXPECT_EQ(out["ended"], "limit");
  EXPECT_EQ(out["steps"], 150);
  const auto log = lines(read_all(folder_ / "run/log.jsonl"));
  EXPECT_LT(json::parse(log[149])["loss"].get<double>(), json::parse(log[0])["loss"].get<double>() - 0.5);
}

TEST_F(Pretrain, EveryObjectiveAndMethodRuns) {
  for (const std::string objective : {"mlm", "mlm+nsp", "mlm+sop"})
    EXPECT_EQ(run(arguments(objective, {"--steps", "3", "--objective", objective, "-q"})).code, 0)
        << objective;
  for (const std::string method : {"adamw", "bert-adam", "lamb", "muon"})
    EXPECT_EQ(run(arguments(method, {"--steps", "3", "--optimizer", method, "-q"})).code, 0) << method;
  for (const std::string schedule : {"linear", "bert-linear", "cosine", "constant", "stable"})
    EXPECT_EQ(run(arguments(schedule, {"--steps", "3", "--schedule", schedule, "-q"})).code, 0) << schedule;
  EXPECT_EQ(run(arguments("bf16", {"--steps", "3", "--bf16", "-q"})).code, 0);
  const Result otherwise = run(arguments("bf16", {"--steps", "4", "--resume"}));
  EXPECT_NE(otherwise.err.find("bf16"), std::string::npos) << otherwise.err;
  const Result causal =
      run({"pretrain", "--data", *shards_ / "data", "--size", "tiny", "--out", folder_ / "gpt", "--objective",
           "causal", "--max-length", "16", "--batch", "2", "--steps", "2", "-q"});
  EXPECT_EQ(causal.code, 0) << causal.err;
  EXPECT_EQ(run({"generate", "-m", folder_ / "gpt/last", "--max-new-tokens", "2", "you"}).code, 0);
}

TEST_F(Pretrain, LimitsByTokensAndTime) {
  std::vector<std::string> few = arguments("tokens", {"--tokens", "1k", "--json", "-q"});
  few.erase(std::find(few.begin(), few.end(), "--steps"), std::find(few.begin(), few.end(), "--steps") + 2);
  const json tokens = json::parse(run(few).out);
  EXPECT_GE(tokens["tokens"], 1000);
  EXPECT_LT(tokens["tokens"], 1000 + 4 * 32);
  std::replace(few.begin(), few.end(), std::string("--tokens"), std::string("--time"));
  std::replace(few.begin(), few.end(), std::string("1k"), std::string("0.3s"));
  few[6] = folder_ / "time";
  EXPECT_GE(json::parse(run(few).out)["seconds"], 0.3);
}

TEST_F(Pretrain, ATimeBetweenCheckpointsIsNotANumberOfSteps) {
  ASSERT_EQ(run(arguments("run", {"--save-every", "2m", "-q"})).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "run/step-000018")) << "of 20 steps: 2m are two minutes";
  EXPECT_TRUE(fs::exists(folder_ / "run/step-000020"));
}

// To step 60 at once, and to somewhere, kill -9, and on to 60: the same file, byte for byte.
TEST_F(Pretrain, KilledAndResumedGivesTheSameFile) {
  const std::vector<std::string> more = {"--steps", "60", "--save-every", "10", "-q"};
  ASSERT_EQ(run(arguments("whole", more)).code, 0);
  const Result killed = run(arguments("parts", more), {.meanwhile = [&](pid_t child) {
                              while (!fs::exists(folder_ / "parts/step-000020")) usleep(1000);
                              kill(child, SIGKILL);
                            }});
  EXPECT_EQ(killed.code, 1000 + SIGKILL);
  std::vector<std::string> resumed = more;
  resumed.push_back("--resume");
  const Result r = run(arguments("parts", resumed));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(model_of("whole", "step-000060"), model_of("parts", "step-000060"));
  EXPECT_EQ(read_all(folder_ / "whole/step-000060/optimizer.safetensors"),
            read_all(folder_ / "parts/step-000060/optimizer.safetensors"));
}

TEST_F(Pretrain, CtrlCSavesAndSaysHowToGoOn) {
  const std::vector<std::string> endless = arguments("run", {"--steps", "1000000"});
  const Result r = run(endless, {.meanwhile = [&](pid_t child) {
                         while (lines(read_all(folder_ / "run/log.jsonl")).size() < 5) usleep(1000);
                         kill(child, SIGINT);
                       }});
  EXPECT_EQ(r.code, 128 + SIGINT);
  const std::string before = "stopped; it goes on with:\n  ";
  const size_t at = r.out.find(before);
  ASSERT_NE(at, std::string::npos) << r.out << r.err;
  std::string command = r.out.substr(at + before.size());
  EXPECT_NE(command.find("--resume"), std::string::npos);
  // The command, as it stands, with a nearer end.
  command.erase(command.find_last_not_of('\n') + 1);
  const size_t step = size_t(json::parse(lines(read_all(folder_ / "run/log.jsonl")).back())["step"]);
  const Result on = run_shell(command + " --steps " + std::to_string(step + 3));
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_NE(on.err.find("continues from " + (folder_ / "run").string()), std::string::npos) << on.err;
}

TEST_F(Pretrain, ADamagedCheckpointIsNamedAndTheOneBeforeUsed) {
  ASSERT_EQ(run(arguments("run", {"--save-every", "10", "-q"})).code, 0);
  fs::resize_file(folder_ / "run/step-000020/model.safetensors", 1000);
  const Result r = run(arguments("run", {"--steps", "25", "--resume"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("step-000020 is damaged"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("continues from " + (folder_ / "run/step-000010").string()), std::string::npos)
      << r.err;
}

TEST_F(Pretrain, StartsFromACheckpoint) {
  ASSERT_EQ(run(arguments("first", {"--objective", "mlm", "-q"})).code, 0);
  const Result r = run({"pretrain", "--data", *shards_ / "data", "--from", folder_ / "first/last", "--out",
                        folder_ / "second", "--max-length", "32", "--batch", "4", "--steps", "2"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("fresh ones are taken"), std::string::npos) << "the pooler and the sentence head";
}

TEST_F(Pretrain, AFullDiskIsAnErrorAndTheCheckpointBeforeIsUsed) {
  ASSERT_EQ(run(arguments("run", {"-q"})).code, 0);
  std::string command = "ulimit -f 8; \"$BERTIE\"";
  for (const std::string& a : arguments("run", {"--resume", "--steps", "30", "-q"})) command += " " + a;
  const Result r = run_shell(command);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("cannot write"), std::string::npos) << r.err;
  EXPECT_EQ(run(arguments("run", {"--resume", "--steps", "30", "-q"})).code, 0);
}

TEST_F(Pretrain, ShowsWhatTheModelWouldRead) {
  const Result r = run(arguments("none", {"--show", "3"}));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("[MASK]:"), std::string::npos) << r.out;
  EXPECT_FALSE(fs::exists(folder_ / "none")) << "nothing is trained";
  const json p = json::parse(run(arguments("none", {"--show", "2", "--json"})).out);
  EXPECT_EQ(p["sequences"].size(), 2u);
  EXPECT_EQ(p["sequences"][0]["tokens"][0]["token"], "[CLS]");
  const double chosen = p["chosen"], tokens = p["tokens"];
  EXPECT_NEAR(chosen / tokens, 0.15, 0.02);
  EXPECT_NEAR(p["masked"].get<double>() / chosen, 0.8, 0.03);
  EXPECT_NEAR(p["changed"].get<double>() / chosen, 0.1, 0.025)
      << "another token may be the same, one in 15 here";
  EXPECT_EQ(p["masked"].get<int>() + p["changed"].get<int>() + p["kept"].get<int>(), chosen);
  EXPECT_NEAR(p["next"].get<double>() / p["pairs"].get<double>(), 0.5, 0.05);
  const json causal =
      json::parse(run(arguments("none", {"--show", "1", "--json", "--objective", "causal"})).out);
  EXPECT_EQ(causal["masked"], 0);
  EXPECT_FALSE(causal["sequences"][0].contains("label"));
}

TEST_F(Pretrain, WatchesWhatMasksAreFilledWith) {
  const Result r = run(arguments("run", {"-q", "--eval-every", "10", "--rate", "0.01", "--watch",
                                         "you [MASK] me", "--watch", "[MASK] river [MASK]"}));
  EXPECT_EQ(r.code, 0) << r.err;
  size_t evaluations = 0;
  json guess;
  for (const std::string& line : lines(read_all(folder_ / "run/log.jsonl"))) {
    const json entry = json::parse(line);
    if (!entry.contains("held_out_loss")) continue;
    ++evaluations;
    const json& watched = entry["watched"];
    ASSERT_EQ(watched.size(), 2u) << line;
    EXPECT_EQ(watched[0]["text"], "you [MASK] me");
    EXPECT_EQ(watched[0]["masks"].size(), 1u);
    EXPECT_EQ(watched[1]["masks"].size(), 2u);
    guess = watched[0]["masks"][0][0];
    EXPECT_GE(watched[0]["masks"][0][0]["score"], watched[0]["masks"][0][1]["score"]);
  }
  EXPECT_EQ(evaluations, 2u);
  const Result filled = run({"fill-mask", "-m", folder_ / "run/last", "--json", "you [MASK] me"});
  const json last = json::parse(filled.out)["masks"][0][0];
  EXPECT_EQ(guess["token"], last["token"])
      << "as the model is now, and not as it was at the first evaluation";
  EXPECT_NEAR(guess["score"].get<double>(), last["score"].get<double>(), 1e-5);
}

TEST_F(Pretrain, WrongOptionsAreErrorsThatHelp) {
  const auto fails = [&](std::vector<std::string> words, int code, const std::string& part) {
    const Result r = run(words);
    EXPECT_EQ(r.code, code) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  const std::string data = *shards_ / "data", out = folder_ / "x";
  fails({"pretrain"}, 2, "--data FOLDER, which bertie prepare writes");
  fails({"pretrain", "--data", data, "--out", out}, 2, "--size tiny");
  fails({"pretrain", "--data", data, "--size", "tiny"}, 2, "--out run");
  fails({"pretrain", "--data", data, "--out", out, "--size", "tinny"}, 2, "--size tiny");
  fails(arguments("x", {"--schedule", "lineer"}), 2, "--schedule linear");
  fails(arguments("x", {"--optimizer", "sgd"}), 2, "adamw, bert-adam, lamb, muon");
  fails(arguments("x", {"--time", "5"}), 2, "a time with its unit");
  fails(arguments("x", {"--tokens", "many"}), 2, "500M");
  fails(arguments("x", {"--save-every", "often"}), 2, "a number of steps, or a time such as 10m");
  fails(arguments("x", {"--save-every", "1k"}), 2, "a number of steps, or a time such as 10m");
  fails(arguments("x", {"--dropout", "1"}), 2, "--dropout 1 leaves nothing");
  fails(arguments("x", {"--mask-rate", "0"}), 2, "--mask-rate 0 is not a share");
  fails(arguments("x", {"--mask-rate", "0"}), 2, "--mask-rate 0.15");
  fails(arguments("x", {"--rate", "-1"}), 2, "try: --rate 1e-4");
  fails(arguments("x", {"--clip", "-1"}), 2, "try: --clip 1\n");
  fails(arguments("x", {"--decay", "-1"}), 2, "try: --decay 0.01");
  fails({"pretrain", "--show", "2"}, 2, "--data FOLDER");
  fails(arguments("x", {"--watch", "a [MASK]", "--eval-every", "0"}), 2, "this run has none");
  fails(arguments("x", {"--watch", "nothing"}), 2, "has no mask");
  fails({"pretrain", "--data", data, "--out", out, "--size", "tiny", "--objective", "causal", "--watch",
         "a [MASK]"},
        2, "--objective mlm");
  fails(arguments("x", {"--beta2", "1"}), 2, "--beta2 is 1");
  fails(arguments("x", {"--eps", "0"}), 2, "--eps is 0");
  fails(arguments("x", {"--initial", "near"}), 2, "--initial nearby");
  fails({"pretrain", "--data", data, "--out", out, "--from", data, "--initial", "nearby"}, 2, "--from alone");
  fails(arguments("x", {"--save-every", "0"}), 2, "a number of steps above 0, or a time");
  fails(arguments("x", {"--objective", "nsp"}), 2, "causal, seq2seq");
  fails(arguments("x", {"--max-predictions", "0"}), 2, "from 1 to");
  fails(arguments("x", {"--patience", "2", "--eval-every", "0"}), 2, "patience counts evaluations");
  write_all(folder_ / "file", "x");
  fails(arguments("file"), 1, "another --out");
  fails(arguments("x", {"--max-length", "300"}), 2, "--max-length 40");
  fails(arguments("x", {"--accumulate", "5"}), 2, "cannot be cut");
  fails(arguments("x", {"--objective", "mlmm"}), 2, "try: --objective mlm\n");
  fails({"pretrain", "--data", folder_.path(), "--size", "tiny", "--out", out}, 1, "");
  EXPECT_EQ(run(arguments("run", {"-q"})).code, 0);
  fails(arguments("run"), 1, "--resume");
}

TEST_F(Pretrain, WithoutHeldOutDataItSaysSo) {
  ASSERT_EQ(run({"prepare", "--vocab", *shards_ / "vocab.txt", "--out", folder_ / "data",
                 *shards_ / "text.txt", "-q"})
                .code,
            0);
  std::vector<std::string> words = arguments("run", {"--steps", "2"});
  words[2] = folder_ / "data";
  const Result r = run(words);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("has no held-out part"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("the model to use is " + (folder_ / "run/last").string()), std::string::npos) << r.out;
  words.insert(words.end(), {"--resume", "--patience", "3"});
  const Result impatient = run(words);
  EXPECT_EQ(impatient.code, 2);
  EXPECT_NE(impatient.err.find("patience counts evaluations"), std::string::npos) << impatient.err;
}

TEST_F(Pretrain, AnEvaluationReadsAsManySequencesAsAskedFor) {
  std::map<std::string, double> losses;
  for (const char* sequences : {"1", "0", "1000000"}) {
    const Result r =
        run(arguments(sequences, {"--steps", "1", "--eval-sequences", sequences, "--json", "-q"}));
    ASSERT_EQ(r.code, 0) << r.err;
    losses[sequences] = json::parse(r.out)["best"]["loss"];
  }
  EXPECT_EQ(losses["0"], losses["1000000"]) << "all of them";
  EXPECT_NE(losses["0"], losses["1"]);
}

// A single masked token is told in each sequence.
TEST_F(Pretrain, PredictionsCanBeLimited) {
  std::map<std::string, std::string> models;
  for (const char* most : {"1", "4", "30"}) {
    ASSERT_EQ(run(arguments(most, {"--steps", "3", "--max-predictions", most, "-q"})).code, 0);
    models[most] = model_of(most, "step-000003");
  }
  ASSERT_EQ(run(arguments("none", {"--steps", "3", "-q"})).code, 0);
  EXPECT_NE(models["1"], models["4"]);
  EXPECT_EQ(models["30"], model_of("none", "step-000003")) << "more than the rate asks for";
}

TEST_F(Pretrain, PairsThatAreCutAreSaid) {
  const fs::path data = folder_ / "pairs";
  fs::create_directories(data);
  std::string vocabulary = kVocabulary;
  write_all(data / "vocab.txt", vocabulary);
  write_all(data / "train.tsv", "you found me\tme\nyou\tme the river bank the river bank the river bank\n");
  const Result r = run({"pretrain", "--data", data, "--size", "tiny", "--objective", "seq2seq", "--out",
                        folder_ / "run", "--max-length", "8", "--batch", "2", "--steps", "1"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("1 of 2 pairs are longer than 8 tokens"), std::string::npos) << r.err;
}

// The program is killed again and again, two times in five while it writes a checkpoint, with
// evaluations and a best model. When it has come to step 200 all the same, everything is what it is without
// kills. BERTIE_KILLS says how often; runs that come to their end before that begin again.
TEST_F(Pretrain, KillsAtAnyMomentChangeNothing) {
  const char* wanted = getenv("BERTIE_KILLS");
  const int kills = wanted ? std::stoi(wanted) : 8;
  unsigned draw = wanted ? unsigned(time(nullptr)) : 7;
  const auto below = [&](unsigned n) { return ((draw = draw * 1664525u + 1013904223u) >> 8) % n; };
  const std::vector<std::string> more = {
      "--steps", "200", "--save-every", "7",     "--eval-every", "10",         "--eval-sequences",
      "16",      "-q",  "--rate",       "0.003", "--resume",     "--patience", "15"};
  ASSERT_EQ(run(arguments("whole", more)).code, 0);
  const auto is_temporary = [](const fs::directory_entry& e) {
    return e.path().filename().string().starts_with(".step-");
  };
  // Under a name that an earlier process did not leave behind.
  std::set<std::string> left;
  const auto being_written = [&](const fs::path& run) {
    std::error_code error;
    for (fs::directory_iterator i(run, error), end; !error && i != end; i.increment(error))
      if (is_temporary(*i) && !left.contains(i->path().filename())) return true;
    return false;
  };
  const auto looks = [&](const std::string& out) {
    std::string all;
    for (const std::string& line : lines(read_all(folder_ / out / "log.jsonl")))
      if (line.find("held_out_loss") != line.npos) all += line + "\n";
    return all;
  };
  int done = 0, inside = 0, runs = 0;
  while (done < kills) {
    const std::string out = "parts" + std::to_string(runs++);
    for (bool ended = false; !ended;) {
      if (done == kills) {
        const Result last = run(arguments(out, more));
        ASSERT_EQ(last.code, 0) << last.err;
        break;
      }
      left.clear();
      if (fs::exists(folder_ / out))
        for (const auto& entry : fs::directory_iterator(folder_ / out))
          if (is_temporary(entry)) left.insert(entry.path().filename());
      const Result r = run(arguments(out, more), {.meanwhile = [&](pid_t child) {
                             usleep(below(200'000));
                             if (done % 5 < 2)  // wait for a checkpoint
                               for (int i = 0; i < 50'000 && !being_written(folder_ / out); ++i) {
                                 siginfo_t info{};
                                 if (waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
                                     info.si_pid == child)
                                   break;
                                 usleep(20);
                               }
                             if (done % 5 < 2) usleep(below(1000));
                             kill(child, SIGKILL);
                           }});
      ended = r.code != 1000 + SIGKILL;
      if (ended) {
        ASSERT_EQ(r.code, 0) << r.err;
        EXPECT_EQ(r.err, "");
      } else {
        ++done, inside += being_written(folder_ / out);
      }
    }
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json"})
      for (const char* link : {"last", "best"})
        EXPECT_EQ(read_all(folder_ / out / link / file), read_all(folder_ / "whole" / link / file))
            << link << file;
    for (const char* link : {"last", "best"})
      EXPECT_EQ(fs::read_symlink(folder_ / out / link), fs::read_symlink(folder_ / "whole" / link));
    EXPECT_EQ(looks(out), looks("whole"));
    for (const auto& entry : fs::directory_iterator(folder_ / out)) {
      const std::string name = entry.path().filename();
      EXPECT_FALSE(is_temporary(entry) || name.starts_with("damaged")) << name;
    }
  }
  EXPECT_EQ(fs::read_symlink(folder_ / "whole/last"), "step-000200");
  EXPECT_GT(inside, 0) << "no kill fell into the writing of a checkpoint";
  std::printf("%d kills, %d of them inside the writing of a checkpoint, in %d runs\n", done, inside, runs);
}

TEST(BenchPretrain, GivesNumbers) {
  const Result r =
      run({"bench", "pretrain", "--size", "tiny", "--shape", "2x16", "--seconds", "0.01", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const json out = json::parse(r.out);
  EXPECT_GT(out["tokens_per_second"], 0);
  // 2 layers of 128, 2 of 16 tokens masked, the vocabulary of 30522.
  const double layer = 2 * (4 * 128 * 128 + 2 * 128 * 512) + 4 * 16 * 128,
               head = 2 * 128 * 128 + 2 * 128 * 30522.0;
  EXPECT_EQ(out["operations"], 3 * 2 * (16 * layer * 2 + 2 * head + 2 * 128 * 128 + 4 * 128));
}

}  // namespace
