// `pull` against a hub on this machine that behaves, and against one that does not.
#include <sys/file.h>

#include <thread>

#include "hub/pull_fixture.h"

namespace bertie {
namespace {

using namespace test;

TEST_F(HubPull, MakesTheLayoutThatPythonKnows) {
  const PullResult result = run();
  expect_whole(result);
  EXPECT_EQ(result.commit, HubServer::kCommit);
  EXPECT_EQ(result.path, repository() / "snapshots" / HubServer::kCommit);
  EXPECT_EQ(result.files, 3u);
  EXPECT_EQ(result.bytes, weights_.size() + kConfig.size() + 12);
  EXPECT_EQ(result.downloaded, result.bytes);
  EXPECT_EQ(read_all(repository() / "refs/main"), HubServer::kCommit);
  EXPECT_EQ(fs::read_symlink(result.path / "model.safetensors"),
            "../../blobs/" + HubServer::sha256(weights_));
  EXPECT_EQ(fs::read_symlink(result.path / "config.json"), "../../blobs/" + HubServer::git_sha1(kConfig));
  EXPECT_TRUE(fs::exists(hub_.cache / ".locks/models--org--tiny" / (HubServer::sha256(weights_) + ".lock")));
  EXPECT_FALSE(fs::exists(result.path / "README.md"));
  EXPECT_FALSE(fs::exists(result.path / "pytorch_model.bin"));
  EXPECT_TRUE(waits_.empty());
}

TEST_F(HubPull, ASecondTimeAsksForTheListAlone) {
  run();
  const size_t before = server_.requests().size();
  const PullResult again = run();
  expect_whole(again);
  EXPECT_EQ(again.downloaded, 0u);
  EXPECT_EQ(server_.requests().size(), before + 1);
}

TEST_F(HubPull, ARevisionMayBeACommit) {
  const PullResult result = run(kModel + "@" + HubServer::kCommit);
  EXPECT_FALSE(fs::exists(repository() / "refs"));
  EXPECT_EQ(find_model(kModel + "@" + HubServer::kCommit, hub_), result.path);
  EXPECT_EQ(find_model(kModel + "@0123456", hub_), result.path);
  EXPECT_THROW(find_model(kModel, hub_), Error);  // main is not known
}

TEST_F(HubPull, ShardsAndModulesAreFollowed) {
  server_.add("org/st", "config.json", kConfig);
  server_.add("org/st", "modules.json",
              R"([{"path": "", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
                  {"path": "2_Dense", "type": "x.Dense"}, {"path": "3_Normalize", "type": "x.Normalize"}])");
  server_.add("org/st", "1_Pooling/config.json", "{}");
  server_.add("org/st", "2_Dense/config.json", R"({"a": 1})");
  server_.add("org/st", "2_Dense/model.safetensors", test::file_of_bytes("dense"));
  server_.add("org/st", "model.safetensors.index.json",
              R"({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})");
  server_.add("org/st", "model-1.safetensors", test::file_of_bytes("one"));
  server_.add("org/st", "model-2.safetensors", test::file_of_bytes("two"));
  server_.add("org/st", "model-3.safetensors", "not in the index");
  const PullResult result = run("org/st");
  EXPECT_EQ(read_all(result.path / "2_Dense/model.safetensors"), test::file_of_bytes("dense"));
  EXPECT_EQ(fs::read_symlink(result.path / "1_Pooling/config.json"),
            "../../../blobs/" + HubServer::git_sha1("{}"));
  EXPECT_EQ(read_all(result.path / "model-2.safetensors"), test::file_of_bytes("two"));
  EXPECT_FALSE(fs::exists(result.path / "model-3.safetensors"));
  EXPECT_EQ(hub::missing_from(result.path), "");
}

TEST_F(HubPull, ProgressGrowsToTheWhole) {
  uint64_t last = 0, total = 0;
  options_.progress = [&](const PullProgress& p) {
    EXPECT_GE(p.done, last);
    EXPECT_LE(p.done, p.total);
    last = p.done, total = p.total;
    return true;
  };
  EXPECT_EQ(run().downloaded, total);
  EXPECT_GT(last, 0u);
}

TEST_F(HubPull, WhatWasStoppedGoesOnWhereItStopped) {
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (is_weights(r)) reply.stall_after = 100'000;
  };
  options_.progress = [](const PullProgress& p) { return p.done < 90'000; };
  expect_failure("was stopped", "goes on");
  const uint64_t kept = fs::file_size(incomplete());
  EXPECT_GE(kept, 90'000u - 20'000u);
  EXPECT_LT(kept, weights_.size());
  server_.intercept = nullptr;
  options_.progress = {};
  const PullResult result = run();
  expect_whole(result);
  EXPECT_EQ(result.downloaded, weights_.size() - kept);
  EXPECT_EQ(server_.requests().back().header("range"), fmt::format("bytes={}-", kept));
}

TEST_F(HubPull, ACutConnectionIsResumed) {
  std::atomic<int> cuts{0};
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    if (is_weights(r) && cuts++ < 3) reply.cut_after = 50'000;
  };
  const PullResult result = run();
  expect_whole(result);
  EXPECT_EQ(result.downloaded, result.bytes);  // nothing came twice
  EXPECT_EQ(waits_, (std::vector<double>{1, 2, 4}));
}

TEST_F(HubPull, AConnectionThatIsAlwaysCutIsGivenUp) {
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (is_weights(r)) reply.cut_after = 10;
  };
  expect_failure("model.safetensors of org/tiny", "goes on");
  EXPECT_EQ(waits_, (std::vector<double>{1, 2, 4, 8}));
  EXPECT_EQ(fs::file_size(incomplete()), 50u);
}

TEST_F(HubPull, WithoutRangesItStartsAgain) {
  fs::create_directories(incomplete().parent_path());
  std::ofstream(incomplete()) << "what another server sent";
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (reply.status == 206) reply = {.body = some_bytes(200'000)};
    (void)r;
  };
  const PullResult result = run();
  expect_whole(result);
  EXPECT_EQ(result.downloaded, result.bytes);
}

TEST_F(HubPull, ARangeThatWasNotAskedForIsNotMixedIn) {
  fs::create_directories(incomplete().parent_path());
  std::ofstream(incomplete()) << weights_.substr(0, 1000);
  server_.intercept = [](const HubRequest&, HubReply& reply) {
    if (reply.status == 206) reply.headers["Content-Range"] = "bytes 500-199999/200000";
  };
  expect_whole(run());
}

TEST_F(HubPull, AnIncompleteFileThatIsTooLongOrWholeIsHandled) {
  fs::create_directories(incomplete().parent_path());
  std::ofstream(incomplete()) << weights_ << "more";
  expect_whole(run());
  fs::remove(blob(weights_));
  std::ofstream(incomplete()) << weights_;
  const PullResult result = run();
  expect_whole(result);
  EXPECT_EQ(result.downloaded, 0u);
}

TEST_F(HubPull, A416StartsAgain) {
  fs::create_directories(incomplete().parent_path());
  std::ofstream(incomplete()) << weights_.substr(0, 1000);
  server_.intercept = [](const HubRequest&, HubReply& reply) {
    if (reply.status == 206) reply = {.status = 416};
  };
  expect_whole(run());
}

TEST_F(HubPull, DamagedOnceIsAskedForAgain) {
  std::atomic<int> times{0};
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    if (is_weights(r) && times++ == 0) reply.body[77] ^= 1;
  };
  expect_whole(run());
}

TEST_F(HubPull, DamagedTwiceIsAnErrorAndNothingIsKept) {
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (is_weights(r)) reply.body[77] ^= 1;
  };
  expect_failure("SHA sum", "");
  EXPECT_EQ(server_.count("GET /cdn/"), 2u);
  EXPECT_FALSE(fs::exists(incomplete()));
  EXPECT_FALSE(fs::exists(blob(weights_)));
}

TEST_F(HubPull, ASmallFileIsCheckedByGitsSum) {
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (r.method == "GET" && r.path.ends_with("config.json")) reply.body[3] ^= 1;
  };
  expect_failure("config.json of org/tiny came damaged", "");
}

TEST_F(HubPull, WrongSizesAreErrors) {
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (is_weights(r)) reply.body += "too long";
  };
  expect_failure("more than the 200000 bytes", "");
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (is_weights(r)) reply.body.resize(1000);
  };
  expect_failure("it has 1000 bytes, and the server named 200000", "");
}

TEST_F(HubPull, TheTokenGoesToTheHubAndNowhereElse) {
  HubServer elsewhere;
  elsewhere.add("", "model.safetensors", weights_);
  server_.cdn = elsewhere.url();
  hub_.token = "hf_secret";
  expect_whole(run());
  ASSERT_EQ(elsewhere.requests().size(), 1u);
  EXPECT_EQ(elsewhere.requests()[0].headers.contains("authorization"), false);
  for (const HubRequest& r : server_.requests())
    EXPECT_EQ(r.header("authorization"), "Bearer hf_secret") << r.path;
}

TEST_F(HubPull, ATokenDoesNotComeBackAfterADetour) {
  HubServer elsewhere;
  server_.cdn = elsewhere.url();
  hub_.token = "hf_secret";
  elsewhere.intercept = [&](const HubRequest& r, HubReply& reply) {
    reply = {.status = 302, .headers = {{"Location", server_.url() + r.path}}};
  };
  expect_whole(run());
  for (const HubRequest& r : server_.requests())
    EXPECT_EQ(r.headers.contains("authorization"), !is_weights(r)) << r.path;
}

TEST_F(HubPull, RedirectsOfTheListAreFollowedAndCirclesAreNot) {
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (r.path.starts_with("/api/models/old-name/"))
      reply = {.status = 307, .headers = {{"Location", "/api/models/org/tiny/revision/main?blobs=true"}}};
    if (r.path.starts_with("/old-name/"))
      reply = {.status = 307, .headers = {{"Location", "/org/tiny/" + r.path.substr(10)}}};
  };
  EXPECT_EQ(run("old-name").path, hub_.cache / "models--old-name/snapshots" / HubServer::kCommit);
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    if (is_list(r)) reply = {.status = 307, .headers = {{"Location", r.path}}};
  };
  expect_failure("in circles", "HF_ENDPOINT");
}

TEST_F(HubPull, TooManyRequestsWaitsAsLongAsItIsTold) {
  std::atomic<int> times{0};
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    if (!is_list(r)) return;
    if (times == 0) reply = {.status = 429, .headers = {{"Retry-After", "7"}}};
    if (times == 1) reply = {.status = 429, .headers = {{"RateLimit", "\"api\";r=0;t=55"}}};
    if (times == 2) reply = {.status = 503};
    ++times;
  };
  std::string said;
  options_.progress = [&](const PullProgress& p) { return said += p.waiting, true; };
  expect_whole(run());
  EXPECT_EQ(waits_, (std::vector<double>{7, 55, 4}));
  EXPECT_NE(said.find("the server says 429; trying again in 7 s"), said.npos) << said;
}

TEST_F(HubPull, AWaitThatIsTooLongIsNotWaited) {
  server_.intercept = [](const HubRequest&, HubReply& reply) {
    reply = {.status = 429, .headers = {{"Retry-After", "3600"}}};
  };
  expect_failure("too many requests", "3600 s");
  EXPECT_TRUE(waits_.empty());
}

TEST_F(HubPull, AServerThatIsBrokenIsGivenUp) {
  server_.intercept = [](const HubRequest&, HubReply& reply) { reply = {.status = 500}; };
  expect_failure("the server says 500", "later");
  EXPECT_EQ(waits_.size(), 4u);
}

TEST_F(HubPull, NobodyThereIsAnErrorThatNamesTheEndpoint) {
  hub_.endpoint = "http://127.0.0.1:1";
  expect_failure("http://127.0.0.1:1", "HF_ENDPOINT");
  EXPECT_EQ(waits_.size(), 4u);
}

TEST_F(HubPull, AServerThatSaysNothingIsLeft) {
  std::atomic<int> lists{0}, files{0};
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    reply.silent = is_list(r) && lists++ == 0;
    if (is_weights(r) && files++ == 0) reply.stall_after = 30'000;
  };
  std::string said;
  options_.progress = [&](const PullProgress& p) { return said += p.waiting, true; };
  expect_whole(run());
  EXPECT_EQ(waits_, (std::vector<double>{1, 1}));
  EXPECT_NE(said.find("nothing came for too long"), said.npos) << said;
}

TEST_F(HubPull, WhoMayNotReadIsToldWhatToDo) {
  for (const int status : {401, 403}) {
    server_.intercept = [&](const HubRequest&, HubReply& reply) {
      reply = {.status = status, .headers = {{"X-Error-Code", "GatedRepo"}}};
    };
    expect_failure("is gated", "HF_TOKEN");
  }
  hub_.token = "wrong";
  server_.intercept = [](const HubRequest&, HubReply& reply) { reply = {.status = 401}; };
  expect_failure("does not accept the token", "HF_TOKEN");
  EXPECT_TRUE(waits_.empty());
}

TEST_F(HubPull, ANameThatIsNotThereGivesTheNearestThatIs) {
  server_.add("org/tony", "config.json", kConfig);
  expect_failure("has no model \"org/tinny\"", "spelling", "org/tinny");
  run();
  try {
    run("org/tinny");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.hint().find("org/tiny, which is here"), std::string::npos) << error.hint();
  }
  try {
    run(kModel + "@no-such-branch");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "org/tiny has no revision \"no-such-branch\"");
  }
}

TEST_F(HubPull, NamesThatAreNoNamesNeverReachTheNetwork) {
  for (const char* name : {"", "/etc", "../x", "a/b/c", "a--b", "a..b", "org/", "/model", "-a/b", "a b", "x@",
                           "x@../y", "http://host/a", "a.git", "a\nb"})
    expect_failure("is not a model's name", "organization/model", name);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(HubPull, FilesThatWouldGoElsewhereAreRefused) {
  for (const char* file :
       {"../config.json", "/etc/cron.d/x", "a/../../x", "a//b", "./x", "a\\..\\b", "x\n"}) {
    server_.intercept = [&](const HubRequest& r, HubReply& reply) {
      if (is_list(r))
        reply.body = nlohmann::json{{"sha", HubServer::kCommit},
                                    {"siblings", {{{"rfilename", "config.json"}}, {{"rfilename", file}}}}}
                         .dump();
    };
    expect_failure("would be written elsewhere", "trust");
  }
  EXPECT_FALSE(fs::exists(hub_.cache));
}

TEST_F(HubPull, AListThatIsNoListIsAnError) {
  for (const std::string& body :
       {std::string("<html>"), std::string("{}"), std::string("[1]"),
        std::string(R"({"sha": "../../x", "siblings": []})"),
        std::string(R"({"sha": "0123456789abcdef0123456789abcdef01234567", "siblings": 7})"),
        std::string(R"({"sha": "0123456789abcdef0123456789abcdef01234567", "siblings": [{"rfilename": 1}]})"),
        std::string(100'000, '['), std::string(20 << 20, ' ')}) {
    server_.intercept = [&](const HubRequest&, HubReply& reply) { reply = {.body = body}; };
    expect_failure("the list of files of org/tiny", "");
  }
}

TEST_F(HubPull, ADescriptionThatCannotBeTrustedIsAnError) {
  const auto with = [&](const char* header, const char* value) {
    server_.intercept = [=](const HubRequest& r, HubReply& reply) {
      if (r.method == "HEAD" && r.path.ends_with(".safetensors")) reply.headers[header] = value;
    };
  };
  with("X-Linked-Etag", "\"../../../etc/passwd\"");
  expect_failure("gives no SHA sum", "");
  with("X-Linked-Size", "-1");
  expect_failure("how large", "");
  with("X-Linked-Size", "99999999999999999999");
  expect_failure("how large", "");
  with("X-Repo-Commit", "another");
  expect_failure("names commit", "HF_ENDPOINT");
}

TEST_F(HubPull, HeadersWithoutEndAreAnError) {
  server_.intercept = [](const HubRequest&, HubReply& reply) {
    for (int i = 0; i < 100; ++i) reply.headers[fmt::format("x-{}", i)] = std::string(8000, 'x');
  };
  expect_failure("the list of files", "");
}

TEST_F(HubPull, WhatTorchSavedIsTakenWhereThereIsNothingBetter) {
  server_.add("org/torch", "config.json", kConfig);
  server_.add("org/torch", "pytorch_model.bin", "bytes");
  EXPECT_TRUE(fs::exists(run("org/torch").path / "pytorch_model.bin"));
}

TEST_F(HubPull, OthersAreRefusedWithAWayOut) {
  const auto only = [&](const std::string& model, const std::string& file) {
    server_.add(model, "config.json", kConfig);
    server_.add(model, file, "bytes");
  };
  only("org/keras", "tf_model.h5");
  only("org/flax", "flax_model.msgpack");
  only("org/onnx", "onnx/model.onnx");
  only("org/numpy", "weights.npz");
  expect_failure("a Keras file", "save_pretrained", "org/keras");
  expect_failure("a Flax file", "save_pretrained", "org/flax");
  expect_failure("an ONNX graph", "`convert`", "org/onnx");
  expect_failure("NumPy's format", "`convert`", "org/numpy");
  server_.add("org/empty", "README.md", "");
  expect_failure("it has no config.json", "", "org/empty");
  EXPECT_EQ(server_.count("GET /org"), 0u);
}

TEST_F(HubPull, OfflineNothingIsAsked) {
  hub_.offline = true;
  expect_failure("HF_HUB_OFFLINE is set", "unset");
  EXPECT_TRUE(server_.requests().empty());
  hub_.offline = false;
  const PullResult before = run();
  hub_.offline = true;
  const PullResult here = run();
  EXPECT_EQ(here.path, before.path);
  EXPECT_EQ(here.commit, before.commit);
  EXPECT_EQ(here.files, before.files);
  EXPECT_EQ(here.bytes, before.bytes);
  EXPECT_EQ(here.downloaded, 0u);
}

TEST_F(HubPull, ABlobThatWasCutIsDownloadedAgain) {
  const PullResult whole = run();
  const fs::path config = repository() / "blobs" / HubServer::git_sha1(kConfig);
  for (const uint64_t left : {uint64_t{0}, uint64_t{100'000}}) {
    fs::resize_file(blob(weights_), left);
    ASSERT_EQ(cached_models(hub_).size(), 1u);
    EXPECT_NE(cached_models(hub_)[0].problem.find("model.safetensors"), std::string::npos)
        << cached_models(hub_)[0].problem;
    hub_.offline = true;
    EXPECT_THROW(run(), Error);
    hub_.offline = false;
    const PullResult again = run();
    expect_whole(again);
    EXPECT_EQ(again.downloaded, weights_.size());
    EXPECT_EQ(cached_models(hub_)[0].problem, "");
  }
  fs::resize_file(config, 0);
  EXPECT_NE(cached_models(hub_)[0].problem, "");
  expect_whole(run());
}

TEST_F(HubPull, NothingIsWrittenThroughALink) {
  const fs::path victim = folder_.write("victim", "precious");
  fs::create_directories(incomplete().parent_path());
  fs::create_symlink(victim, incomplete());
  expect_failure(".incomplete: it is not a regular file", "remove it");
  fs::remove(incomplete());
  const fs::path lock = hub_.cache / ".locks/models--org--tiny" / (HubServer::sha256(weights_) + ".lock");
  fs::remove(lock);
  fs::create_symlink(victim, lock);
  expect_failure(".lock: it is not a regular file", "remove it");
  EXPECT_EQ(read_all(victim), "precious");
  fs::remove(lock);
  expect_whole(run());
}

TEST_F(HubPull, AnAddressThatCannotWorkIsNotTriedAgain) {
  for (const char* endpoint : {"file:///etc", "ftp://host", "http://[x", "http://host:99999999"}) {
    hub_.endpoint = endpoint;
    expect_failure(endpoint, "HF_ENDPOINT");
    EXPECT_TRUE(waits_.empty()) << endpoint;
  }
  hub_.endpoint = "http://" + std::string(70, 'a') + ".invalid";  // too long for a name: no need to ask
  expect_failure("the list of files", "HF_ENDPOINT");
  EXPECT_EQ(waits_.size(), 1u);
}

TEST_F(HubPull, ThePasswordOfTheEndpointIsNotPrinted) {
  const auto expect_silence = [&] {
    try {
      run();
      ADD_FAILURE() << hub_.endpoint;
    } catch (const Error& error) {
      const std::string said = error.what() + error.hint();
      EXPECT_EQ(said.find("secret"), said.npos) << said;
      EXPECT_NE(said.find("127.0.0.1"), said.npos) << said;
    }
  };
  for (const int status : {403, 404, 429}) {
    server_.intercept = [&](const HubRequest&, HubReply& reply) {
      reply = {.status = status, .headers = {{"Retry-After", "3600"}}};
    };
    hub_.endpoint = "http://me:secret@" + server_.url().substr(7);
    expect_silence();
  }
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    reply = {.status = 307, .headers = {{"Location", r.path}}};
  };
  expect_silence();
  for (const char* endpoint : {"http://me:secret@127.0.0.1:1", "ftp://me:secret@127.0.0.1"}) {
    hub_.endpoint = endpoint;
    expect_silence();
  }
}

TEST_F(HubPull, TwoAtOnceDownloadOnce) {
  options_.wait = [](double) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { run(); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(server_.count("GET /cdn/"), 1u);
  EXPECT_TRUE(fs::exists(repository() / "snapshots" / HubServer::kCommit / "config.json"));
}

TEST_F(HubPull, WhoeverHoldsTheLockIsWaitedFor) {
  const fs::path lock = hub_.cache / ".locks/models--org--tiny" / (HubServer::sha256(weights_) + ".lock");
  fs::create_directories(lock.parent_path());
  const int held = open(lock.c_str(), O_RDWR | O_CREAT, 0664);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  // The other program finishes its download while we wait: we need none.
  options_.wait = [&](double) {
    fs::create_directories(blob(weights_).parent_path());
    std::ofstream(blob(weights_)) << weights_;
    close(held);
  };
  std::string said;
  options_.progress = [&](const PullProgress& p) { return said += p.waiting, true; };
  expect_whole(run());
  EXPECT_NE(said.find("another program is downloading it"), said.npos) << said;
  EXPECT_EQ(server_.count("GET /cdn/"), 0u);
}

TEST_F(HubPull, ANewCommitThatFailsLeavesTheOldOne) {
  const fs::path before = run().path;
  server_.intercept = [](const HubRequest& r, HubReply& reply) {
    const std::string next(40, 'a');
    if (is_list(r)) reply.body.replace(reply.body.find(HubServer::kCommit), 40, next);
    if (r.path.find("/resolve/") != r.path.npos) reply = {.status = 404};
  };
  EXPECT_THROW(run(), Error);
  EXPECT_EQ(find_model(kModel, hub_), before);
}

}  // namespace
}  // namespace bertie
