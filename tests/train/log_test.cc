// Logs: JSON lines that never tell a step twice, and TensorBoard's events.
#include "train/loop/log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "fake_learner.h"
#include "io/crc32c.h"
#include "support/expect_error.h"
#include "support/numbers.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using namespace test;
namespace fs = std::filesystem;

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RunLog, EachLineIsJson) {
  TempFolder folder;
  {
    RunLog log(folder.path(), 0);
    log.write(TrainProgress{
        .step = 10,
        .tokens = 5000,
        .loss = 2.5,
        .metrics = {{.name = "token", .loss = 2}, {.name = "score", .loss = 3, .accuracy = kNaN}},
        .rate = 1e-4});
    log.write(TrainProgress{.step = 20, .gradient_norm = kNaN});
    log.write(EvalResult{.step = 20, .loss = 3.25, .best = true});
  }
  std::istringstream in(read_all(folder.path() / "log.jsonl"));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["step"], 10);
  EXPECT_EQ(lines[0]["loss"], 2.5);
  EXPECT_EQ(lines[0]["rate"], 1e-4);
  EXPECT_EQ(lines[0]["token_loss"], 2);
  EXPECT_EQ(lines[0]["token_accuracy"], 0);
  EXPECT_EQ(lines[0]["score_loss"], 3);
  EXPECT_FALSE(lines[0].contains("score_accuracy")) << "a regression has none";
  EXPECT_FALSE(lines[1].contains("token_accuracy"));
  EXPECT_TRUE(lines[1]["gradient_norm"].is_null());
  EXPECT_EQ(lines[2]["held_out_loss"], 3.25);
}

TEST(RunLog, LinesOfLaterStepsAndHalfLinesAreTakenBack) {
  const std::string log =
      "{\"step\":10,\"a\":1}\n{\"step\":20}\n{\"step\":20,\"held_out_loss\":1}\n{\"step\":30}\n{\"st";
  EXPECT_EQ(log_bytes_up_to(log, 5), 0u);
  EXPECT_EQ(log_bytes_up_to(log, 10), log.find("{\"step\":20"));
  EXPECT_EQ(log_bytes_up_to(log, 29), log.find("{\"step\":30"));
  EXPECT_EQ(log_bytes_up_to(log, 99), log.size() - 4);
  EXPECT_EQ(log_bytes_up_to("", 99), 0u);
  EXPECT_EQ(log_bytes_up_to("something else\n", 99), 0u);
}

TEST(RunLog, AFileThatIsNotARunsIsLeftAlone) {
  for (const char* ours : {"", "{\"st", "{\"step\":1", "{\"step\":10,\"tok", "{\"step\":10,\"tokens\":5}\n",
                           "{\"step\":10,\"held_out_loss\":5}\n{\"step\":20,\"tok"})
    EXPECT_TRUE(is_run_log(ours)) << ours;
  for (const char* other :
       {"x", "something else\n", "{\"step\":1,\"loss\":2}\n", "{\"step\": 1}\n", "{}\n"}) {
    EXPECT_FALSE(is_run_log(other)) << other;
    TempFolder folder;
    folder.write("log.jsonl", other);
    expect_error("not a log of Bertie's", [&] { RunLog(folder.path(), 0); });
    EXPECT_EQ(read_all(folder.path() / "log.jsonl"), other);
  }
}

// Also one of the run itself, until the checkpoint is accepted.
TEST(RunLog, IsNotTouchedByARunThatCannotGoOn) {
  TempFolder folder;
  TrainOptions o = fake_options(folder.path());
  const auto alone = join_ranks();
  FakeLearner learner, other(60);
  FakeSource source;
  Trainer({.learner = learner, .source = source, .ranks = *alone}, o).run();
  const std::string log = read_all(folder.path() / "log.jsonl") + "{\"step\":41,\"tokens\":1}\n";
  folder.write("log.jsonl", log);
  o.resume = true;
  expect_error("another model", [&] { Trainer({.learner = other, .source = source, .ranks = *alone}, o); });
  EXPECT_EQ(read_all(folder.path() / "log.jsonl"), log);
}

TEST(RunLog, ARunThatGoesOnTellsEachStepOnce) {
  TempFolder folder;
  TrainOptions o = fake_options(folder.path());
  const auto alone = join_ranks();
  for (bool resume : {false, true}) {
    FakeLearner learner;
    FakeSource source;
    o.resume = resume;
    Trainer trainer({.learner = learner, .source = source, .ranks = *alone}, o);
    if (resume) {
      trainer.run();
      break;
    }
    for (int i = 0; i < 10; ++i) trainer.step();
    trainer.save();
    for (int i = 0; i < 7; ++i) trainer.step();  // and then it is killed
  }
  std::istringstream in(read_all(folder.path() / "log.jsonl"));
  uint64_t step = 0;
  for (std::string line; std::getline(in, line);) EXPECT_EQ(nlohmann::json::parse(line)["step"], ++step);
  EXPECT_EQ(step, 40u);
}

// The records of a file, their sums checked.
std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> all;
  for (size_t at = 0; at < file.size();) {
    uint64_t length = 0;
    uint32_t sum = 0;
    std::memcpy(&length, &file.at(at), 8);
    std::memcpy(&sum, &file.at(at + 8), 4);
    const auto masked = [](std::string_view bytes) {
      const uint32_t crc = io::crc32c(bytes);
      return (crc >> 15 | crc << 17) + 0xA282EAD8u;
    };
    EXPECT_EQ(sum, masked(std::string_view(file).substr(at, 8)));
    all.push_back(file.substr(at + 12, length));
    std::memcpy(&sum, &file.at(at + 12 + length), 4);
    EXPECT_EQ(sum, masked(all.back()));
    at += length + 16;
  }
  return all;
}

TEST(EventFile, HoldsTheMessagesThatTensorBoardReads) {
  TempFolder folder;
  fs::path path;
  {
    EventFile events(folder.path(), 301);
    events.write(310, 2.0, std::vector<Scalar>{{"a/b", 0.5}});
    path = events.path();
  }
  const std::vector<std::string> all = records(read_all(path));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].substr(9), std::string("\x1A\x0D") + "brain.Event:2");
  // step 301 (two bytes), session_log { status: START }
  EXPECT_EQ(all[1].substr(9), std::string("\x10\xAD\x02\x3A\x02\x08\x01"));
  // wall_time 2.0, step 310, summary { value { tag: "a/b" simple_value: 0.5 } }
  EXPECT_EQ(all[2], std::string("\x09\0\0\0\0\0\0\0\x40\x10\xB6\x02\x2A\x0C\x0A\x0A\x0A\x03", 18) + "a/b" +
                        std::string("\x15\0\0\0\x3F", 5));
}

}  // namespace
}  // namespace bertie
