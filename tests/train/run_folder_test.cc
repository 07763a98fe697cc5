// Checkpoints: whole or not there, whatever happens to the disk.
#include "train/loop/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fake_learner.h"
#include "io/json.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/temp_folder.h"
#include "train/loop/trainer.h"

namespace bertie {
namespace {

using namespace test;
namespace fs = std::filesystem;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct TrainedRun {
  TempFolder folder;
  TrainOptions options = fake_options(folder.path() / "run");
  std::vector<std::string> warnings;

  // From where the folder is to `steps`; gives the parameters.
  std::vector<float> go(uint64_t steps, size_t vocabulary = 50) {
    FakeLearner learner(vocabulary);
    FakeSource source(vocabulary);
    const auto alone = join_ranks();
    TrainOptions o = options;
    o.steps = steps, o.schedule = Schedule::kConstant, o.warmup = 0, o.resume = true;
    Trainer({.learner = learner, .source = source, .ranks = *alone}, o,
            {.warning = [this](std::string_view w) { warnings.emplace_back(w); }})
        .run();
    return {learner.parameters().begin(), learner.parameters().end()};
  }
  fs::path at(uint64_t step) const { return options.out / RunFolder::name_of(step); }
};

TEST(RunFolder, WhatIsNoLinkIsNotReplacedByOne) {
  for (const char* name : {"last", "best"}) {
    TrainedRun run;
    fs::create_directories(run.options.out);
    std::ofstream(run.options.out / name) << "mine";
    expect_error("is there already, and is not a link to a checkpoint", [&] { run.go(20); });
    EXPECT_EQ(read_all(run.options.out / name), "mine");
    EXPECT_FALSE(fs::exists(run.at(20))) << "before the work";
  }
}

TEST(RunFolder, ACheckpointHasEverything) {
  TrainedRun run;
  run.go(20);
  for (const char* file : {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_TRUE(fs::is_regular_file(run.at(20) / file)) << file;
  EXPECT_EQ(fs::read_symlink(run.options.out / "last"), "step-000020");
  const auto found = RunFolder(run.options.out).newest({});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 20u);
  const auto files = io::parse_json(found->state, "state.json")["files"];
  EXPECT_EQ(files.size(), 3u);
  EXPECT_EQ(files["model.safetensors"], sha256_of(run.at(20) / "model.safetensors"));
}

TEST(RunFolder, KeepsTheLastOnesAndNothingElse) {
  TrainedRun run;
  run.options.keep = 3;
  run.go(70);
  EXPECT_EQ(RunFolder(run.options.out).steps(), (std::vector<uint64_t>{50, 60, 70}));
  for (const auto& entry : fs::directory_iterator(run.options.out)) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name.starts_with("step-0000") || name == "last" || name == "log.jsonl" ||
                name.starts_with("events.out.tfevents."))
        << name;
  }
}

// Any byte of any file changed, any file cut or missing: the checkpoint before is used, to the same bits.
TEST(RunFolder, ADamagedCheckpointIsNamedAndTheOneBeforeUsed) {
  TrainedRun whole;
  const std::vector<float> expected = whole.go(40);
  struct Harm {
    std::string file;
    std::function<void(const fs::path&)> harm;
  };
  const auto flip = [](const fs::path& file) {
    std::string bytes = read_all(file);
    bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 4);
    std::ofstream(file, std::ios::binary) << bytes;
  };
  const auto cut = [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); };
  const auto remove = [](const fs::path& file) { fs::remove(file); };
  std::vector<Harm> harms;
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "config.json", "state.json"}) {
    harms.push_back({file, cut}), harms.push_back({file, remove});
    harms.push_back({file, flip});
  }
  // Still JSON, and what is in it still makes sense.
  harms.push_back({"state.json", [](const fs::path& file) {
                     std::string text = read_all(file);
                     text.at(text.find("\"tokens\": ") + 10) = '9';
                     std::ofstream(file, std::ios::binary) << text;
                   }});
  for (const Harm& harm : harms) {
    TrainedRun run;
    run.go(30);
    harm.harm(run.at(30) / harm.file);
    EXPECT_TRUE(same_bits(run.go(40), expected)) << harm.file;
    ASSERT_EQ(run.warnings.size(), 2u) << harm.file;
    EXPECT_NE(run.warnings[0].find("step-000030 is damaged"), std::string::npos) << run.warnings[0];
    EXPECT_EQ(RunFolder(run.options.out).newest({})->step, 40u);
  }
}

TEST(RunFolder, WhereNoneIsWholeTheRunDoesNotStartAnew) {
  TrainedRun run;
  run.go(20);
  for (uint64_t step : {10, 20}) fs::remove(run.at(step) / "state.json");
  expect_error("none that is whole", [&] { run.go(40); });
  EXPECT_EQ(run.warnings.size(), 2u);
  EXPECT_EQ(RunFolder(run.options.out).steps(), (std::vector<uint64_t>{10, 20}));
}

TEST(RunFolder, ACheckpointOfANewerBertieIsAnErrorNotDamage) {
  TrainedRun run;
  run.go(20);
  std::string text = read_all(run.at(20) / "state.json");
  const std::string format = "\"format\": ";
  text.at(text.find(format) + format.size()) = '9';
  std::ofstream(run.at(20) / "state.json") << text;
  expect_error("has format 9", [&] { run.go(40); });
  EXPECT_TRUE(run.warnings.empty());
}

TEST(RunFolder, ARenamedCheckpointIsNotOfItsNewStep) {
  TrainedRun run, whole;
  run.go(20);
  fs::rename(run.at(20), run.at(30));
  EXPECT_TRUE(same_bits(run.go(40), whole.go(40)));
  ASSERT_EQ(run.warnings.size(), 2u);
  EXPECT_NE(run.warnings[0].find("is of step 20"), std::string::npos) << run.warnings[0];
}

// What is newer than where a run goes on from is neither kept for good nor in the way of what comes.
TEST(RunFolder, WhatWasJustSavedIsNeverPruned) {
  TrainedRun run;
  run.options.keep = 3, run.options.save_every = 20;
  run.go(60);
  fs::remove(run.at(60) / "model.safetensors");
  run.options.keep = 1;
  run.go(45);
  EXPECT_EQ(RunFolder(run.options.out).steps(), (std::vector<uint64_t>{45}));
  EXPECT_TRUE(fs::exists(run.options.out / "damaged-step-000060/state.json"));
  EXPECT_TRUE(fs::exists(run.options.out / "last/state.json"));
  ASSERT_EQ(run.warnings.size(), 2u);
  EXPECT_NE(run.warnings[1].find("is now damaged-step-000060"), std::string::npos) << run.warnings[1];
}

TEST(RunFolder, PruningSparesWhatItIsToldAndWhatLinksPointTo) {
  TempFolder place;
  RunFolder folder(place.path());
  const auto write = [](const fs::path& to) { std::ofstream(to / "config.json") << "{}"; };
  for (uint64_t step : {10, 20, 30, 40, 50})
    folder.save(step, write, fmt::format(R"({{"step": {}}})", step), step == 20);
  folder.save(5, write, R"({"step": 5})", false);
  folder.prune(1, {30});
  EXPECT_EQ(folder.steps(), (std::vector<uint64_t>{5, 20, 30, 50}));
}

// Killed after the checkpoint got its name, before the links did.
TEST(RunFolder, LinksFollowWhereARunGoesOn) {
  TrainedRun run;
  run.go(30);
  fs::remove(run.options.out / "last");
  fs::create_directory_symlink("step-000010", run.options.out / "last");
  fs::create_directory_symlink("step-000777", run.options.out / "best");
  run.go(30);
  EXPECT_EQ(fs::read_symlink(run.options.out / "last"), "step-000030");
  EXPECT_FALSE(fs::is_symlink(run.options.out / "best")) << "it points to nothing";
  RunFolder folder(run.options.out);
  folder.resume_from(*folder.newest({}), 30, {});
  EXPECT_EQ(fs::read_symlink(run.options.out / "best"), "step-000030");
}

TEST(RunFolder, LeftoversOfKilledProcessesGoAndNothingElse) {
  TrainedRun run;
  run.go(10);
  const std::vector<std::string> ours = {".step-000020.tmp.abc123", ".last.tmp.000000", ".best.tmp.zzzzzz"},
                                 others = {"mine.abc123",         "best.backup",
                                           "step-000060.saved1",  ".step-000020.tmp.ABC123",
                                           ".step-20.tmp.abc123", ".mine.tmp.abc123",
                                           ".tmp.abc123"};
  for (const auto& names : {ours, others})
    for (const std::string& name : names) fs::create_directories(run.options.out / name / "x");
  run.go(20);
  for (const std::string& name : ours) EXPECT_FALSE(fs::exists(run.options.out / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(run.options.out / name / "x")) << name;
}

int in_a_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// 0: an Error with `part`; 1: none; 2: another one.
int error_of(const std::string& part, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(error.what()).find(part) != std::string::npos ? 0 : 2;
  }
  return 1;
}

TEST(RunFolder, AFileThatCannotBeWrittenIsAnErrorAndTheRunGoesOnLater) {
  TrainedRun run, whole;
  constexpr size_t kLarge = 20'000;
  run.go(20, kLarge);
  const int code = in_a_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 50'000, .rlim_max = 50'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    return error_of("cannot write", [&] { run.go(40, kLarge); });
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(RunFolder(run.options.out).steps(), (std::vector<uint64_t>{10, 20}));
  for (const auto& entry : fs::directory_iterator(run.options.out))
    EXPECT_EQ(entry.path().filename().string().find("step-000030"), std::string::npos) << "nothing is left";
  EXPECT_TRUE(same_bits(run.go(40, kLarge), whole.go(40, kLarge)));
  EXPECT_TRUE(run.warnings.empty());
}

TEST(RunFolder, AFullDiskIsAnErrorAndTheCheckpointBeforeIsWhole) {
  TrainedRun run;
  const int code = in_a_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", run.folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
      return 77;
    run.go(10, 20'000);  // 240 kB
    run.folder.write("fill", std::string(650'000, 'x'));
    if (const int wrong = error_of("No space left", [&] { run.go(40, 20'000); }); wrong != 0)
      return 2 + wrong;
    fs::remove(run.folder.path() / "fill");
    const std::vector<float> resumed = run.go(40, 20'000);
    TrainedRun whole;
    return same_bits(resumed, whole.go(40, 20'000)) ? 0 : 9;
  });
  if (code == 77) GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_EQ(code, 0);
}

TEST(RunFolder, AFileThatMayNotBeReadIsAnErrorNotDamage) {
  TrainedRun run;
  run.go(20);
  chmod((run.at(20) / "model.safetensors").c_str(), 0);
  const int code = in_a_child([&] {
    if (geteuid() == 0) {
      for (fs::path p = run.options.out; p.has_relative_path(); p = p.parent_path())
        if (p.string().starts_with(run.folder.path().string())) chmod(p.c_str(), 0777);
      if (setgid(65534) != 0 || setuid(65534) != 0) return 77;
    }
    return error_of("cannot read", [&] { run.go(40); });
  });
  if (code == 77) GTEST_SKIP() << "cannot become somebody else";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(RunFolder(run.options.out).steps(), (std::vector<uint64_t>{10, 20}));
}

TEST(RunFolder, AFolderThatMayNotBeWrittenIsAnErrorAtTheStart) {
  TrainedRun run;
  run.go(10);
  const int code = in_a_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 77;
    return error_of("cannot write", [&] { run.go(40); });
  });
  if (code == 77) GTEST_SKIP() << "cannot become somebody else";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(RunFolder(run.options.out).newest({})->step, 10u);
  run.folder.write("file", "x");
  for (const fs::path& out : {run.folder.path() / "file" / "run", run.folder.path() / "file"}) try {
      RunFolder here(out);
      ADD_FAILURE() << out;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cannot write"), std::string::npos) << error.what();
      EXPECT_NE(error.hint().find("`out`"), std::string::npos) << error.hint();
      EXPECT_EQ(error.field(), "out");
    }
}

// A process killed at any moment, also in the middle of a checkpoint, loses nothing but the steps since.
TEST(RunFolder, KillsAtAnyMomentLoseOnlyTheStepsSinceTheLastCheckpoint) {
  TrainedRun whole, run;
  const char* wanted = getenv("BERTIE_KILLS");
  const int kills = wanted ? std::stoi(wanted) : 10, inside = kills * 2 / 5;
  const uint64_t steps = 40 * uint64_t(kills);  // more than they leave time for
  const std::vector<float> expected = whole.go(steps);
  Random random(wanted ? uint64_t(time(nullptr)) : 5);
  for (int i = 0; i < kills; ++i) {
    const auto before = RunFolder(run.options.out).newest({});
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
      FakeLearner learner;
      FakeSource source;
      const auto alone = join_ranks();
      TrainOptions o = run.options;
      o.steps = steps, o.schedule = Schedule::kConstant, o.warmup = 0, o.resume = true;
      o.save_every = 5;
      learner.saving = [&] { (void)!write(pipes[1], "s", 1); };
      Trainer({.learner = learner, .source = source, .ranks = *alone}, o,
              {.progress = [&](const TrainProgress&) { usleep(200); }})
          .run();
      _exit(0);
    }
    close(pipes[1]);
    char said = 0;
    const uint32_t saves = 1 + random.below(3);
    if (i < inside)
      for (uint32_t s = 0; s < saves; ++s) (void)!read(pipes[0], &said, 1);
    usleep(i < inside ? random.below(3000) : random.below(30'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(pipes[0]);
    size_t damaged = 0;
    const auto after = RunFolder(run.options.out).newest([&](const std::string&) { ++damaged; });
    EXPECT_EQ(damaged, 0u);
    if (before) {
      ASSERT_TRUE(after) << "a checkpoint is gone";
      EXPECT_GE(after->step, before->step);
    }
    // All but the last of those that the child began are there.
    if (i < inside && after) {
      EXPECT_GE(after->step, std::min(steps, (before ? before->step : 0) + 5 * (saves - 1)));
    }
  }
  EXPECT_TRUE(same_bits(run.go(steps), expected));
  EXPECT_TRUE(run.warnings.empty());
  EXPECT_EQ(read_all(run.at(steps) / "model.safetensors"), read_all(whole.at(steps) / "model.safetensors"));
  EXPECT_EQ(read_all(run.at(steps) / "optimizer.safetensors"),
            read_all(whole.at(steps) / "optimizer.safetensors"));
}

}  // namespace
}  // namespace bertie
