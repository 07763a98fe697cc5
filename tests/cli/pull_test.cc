// bertie pull and bertie models, and models by name in every command.
#include "program.h"
#include "support/hub_server.h"

using namespace bertie::test;

namespace {

const std::string kName = "org/tiny";

class PullCommand : public testing::Test {
 protected:
  PullCommand() {
    for (const char* file : {"config.json", "model.safetensors", "vocab.txt"})
      server_.add(kName, file, read_all(model_ / file));
    how_.environment = {
        {"HF_ENDPOINT", server_.url()}, {"HF_HOME", home_.path()}, {"HF_HUB_DOWNLOAD_TIMEOUT", "2"}};
  }
  std::string snapshot() const {
    return (home_ / "hub/models--org--tiny/snapshots").string() + "/" + HubServer::kCommit;
  }
  const ModelFolder model_;
  const TemporaryFolder home_;
  HubServer server_;
  How how_;
};

TEST_F(PullCommand, PrintsWhereTheModelIsAndWhatToDoNext) {
  const Result first = run({"pull", kName}, how_);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out, snapshot() + "\n");
  EXPECT_NE(first.err.find("checked"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("--model org/tiny"), std::string::npos) << first.err;
  const Result again = run({"pull", kName}, how_);
  EXPECT_EQ(again.out, first.out);
  EXPECT_NE(again.err.find("Everything was here"), std::string::npos) << again.err;
  const Result quiet = run({"pull", "-q", kName}, how_);
  EXPECT_EQ(quiet.out, first.out);
  EXPECT_EQ(quiet.err, "");
}

TEST_F(PullCommand, EveryCommandTakesTheName) {
  ASSERT_EQ(run({"pull", kName}, how_).code, 0);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"embed", "--json"}, {"attend", "--json"}, {"tokenize", "--json"}, {"explain", "--json"}}) {
    std::vector<std::string> by_name = arguments, by_folder = arguments;
    by_name.insert(by_name.end(), {"-m", kName, "you found me"});
    by_folder.insert(by_folder.end(), {"-m", model_.name(), "you found me"});
    const Result name = run(by_name, how_), folder = run(by_folder);
    EXPECT_EQ(name.code, 0) << name.err;
    EXPECT_EQ(name.out, folder.out) << arguments[0];
    EXPECT_NE(name.out, "");
  }
  EXPECT_TRUE(run({"info", kName}, how_).out.starts_with("org/tiny\n"));
  EXPECT_EQ(run({"bench", "load", "tiny", "--seconds", "0.01"}, how_).code, 0);
  EXPECT_EQ(run({"convert", kName, home_ / "converted"}, how_).code, 0);
  how_.environment["BERTIE_MODEL"] = "org/tiny@main";
  EXPECT_TRUE(run({"info"}, how_).out.starts_with("org/tiny@main\n"));
  EXPECT_EQ(run({"embed", "you"}, how_).code, 0);
  EXPECT_EQ(run({"embed", "you", "-m", snapshot()}, how_).code, 0);
}

TEST_F(PullCommand, WhatIsNotHereIsAnErrorThatSaysHowToGetIt) {
  Result r = run({"embed", "-m", "org/tinny", "you"}, how_);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("try: bertie pull org/tinny"), std::string::npos) << r.err;
  run({"pull", kName}, how_);
  how_.environment["BERTIE_MODEL"] = "org/tinny";
  r = run({"embed", "you"}, how_);
  EXPECT_NE(r.err.find("(from $BERTIE_MODEL)"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("try: org/tiny, which is here"), std::string::npos) << r.err;
  fs::remove(snapshot() + "/config.json");
  r = run({"embed", "-m", kName, "you"}, how_);
  EXPECT_NE(r.err.find("is not complete"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("try: bertie pull org/tiny"), std::string::npos) << r.err;
  EXPECT_EQ(run({"tokenize", "-m", kName, "you"}, how_).code, 0);  // the tokenizer is there
}

TEST_F(PullCommand, ErrorsOfTheHubAndOfTheCommandLine) {
  const Result missing = run({"pull", "org/none"}, how_);
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.out, "");
  EXPECT_NE(missing.err.find("has no model \"org/none\""), std::string::npos) << missing.err;
  EXPECT_EQ(run({"pull"}, how_).code, 2);
  EXPECT_EQ(run({"pull", "a", "b"}, how_).code, 2);
  const Result name = run({"pull", "../\x1b[31m"}, how_);
  EXPECT_EQ(name.code, 1);
  EXPECT_EQ(name.err.find('\x1b'), std::string::npos);
  how_.environment["HF_HUB_OFFLINE"] = "1";
  EXPECT_NE(run({"pull", kName}, how_).err.find("HF_HUB_OFFLINE is set"), std::string::npos);
}

TEST_F(PullCommand, JsonIsALineForEachEventAndTheLastIsTheResult) {
  std::atomic<int> times{0};
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    if (r.path.starts_with("/api/") && times++ == 0)
      reply = {.status = 503, .headers = {{"Retry-After", "1"}}};
  };
  const Result r = run({"pull", "--json", kName}, how_);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.err, "");
  const std::vector<std::string> all = lines(r.out);
  ASSERT_GE(all.size(), 2u) << r.out;
  EXPECT_NE(json::parse(all[0])["waiting"].get<std::string>().find("the server says 503"), std::string::npos);
  const json last = json::parse(all.back());
  EXPECT_EQ(last["path"], snapshot());
  EXPECT_EQ(last["commit"], HubServer::kCommit);
  EXPECT_EQ(last["files"], 3);
  EXPECT_EQ(last["bytes"], last["downloaded"]);
}

// What `bertie models --json` says of the one that was pulled, which stands beside those of the program.
json listed(const std::string& out) {
  for (const std::string& line : lines(out))
    if (json one = json::parse(line); one["name"] == kName) return one;
  return {};
}

TEST_F(PullCommand, CtrlCLeavesWhatTheNextPullGoesOnWith) {
  const std::string weights = read_all(model_ / "model.safetensors");
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    if (r.method == "GET" && r.path.starts_with("/cdn/")) reply.stall_after = weights.size() / 2;
  };
  how_.environment["HF_HUB_DOWNLOAD_TIMEOUT"] = "600";
  const fs::path part = home_ / ("hub/models--org--tiny/blobs/" + HubServer::sha256(weights) + ".incomplete");
  How stopped = how_;
  stopped.meanwhile = [&](pid_t child) {
    std::error_code none;
    for (int i = 0; i < 2000 && !(fs::exists(part) && fs::file_size(part, none) == weights.size() / 2); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, SIGINT);
  };
  EXPECT_EQ(run({"pull", kName}, stopped).code, 130);
  EXPECT_EQ(fs::file_size(part), weights.size() / 2);
  EXPECT_EQ(run({"embed", "-m", kName, "you"}, how_).code, 1);  // it does not look complete
  const Result begun = run({"models", "--json"}, how_);
  EXPECT_EQ(listed(begun.out)["complete"], false) << begun.out;
  server_.intercept = nullptr;
  const Result r = run({"pull", "--json", kName}, how_);
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json::parse(lines(r.out).back())["downloaded"], weights.size() - weights.size() / 2);
  EXPECT_EQ(run({"embed", "-m", kName, "you"}, how_).code, 0);
}

TEST_F(PullCommand, ModelsAreListedForPeopleAndPrograms) {
  Result r = run({"models"}, how_);
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out.find(kName), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("part of bertie"), std::string::npos) << r.out;
  const size_t own = lines(run({"models", "--json"}, how_).out).size();
  run({"pull", kName}, how_);
  r = run({"models"}, how_);
  ASSERT_EQ(lines(r.out).size(), 1 + own + 1) << r.out;
  const auto all = lines(r.out);
  const auto line = std::find_if(all.begin(), all.end(), [](const auto& l) { return l.starts_with(kName); });
  ASSERT_NE(line, all.end()) << r.out;
  for (const char* part : {"main 01234567", "bert", "complete"})
    EXPECT_NE(line->find(part), std::string::npos) << *line;
  EXPECT_NE(r.out.find(snapshot()), std::string::npos) << r.out;
  how_.environment["HF_HUB_OFFLINE"] = "1";
  const json here = json::parse(lines(run({"pull", "--json", kName}, how_).out).back());
  EXPECT_EQ(here["files"], 3) << here;
  EXPECT_GT(here["bytes"], 0) << here;
  fs::remove(snapshot() + "/model.safetensors");
  const json broken = listed(run({"models", "--json"}, how_).out);
  EXPECT_EQ(broken["complete"], false);
  EXPECT_NE(broken["problem"].get<std::string>().find("no weights"), std::string::npos) << broken;
  EXPECT_NE(run({"models", "-v"}, how_).err.find("no weights"), std::string::npos);
}

}  // namespace
