// `pull` onto disks that are full, limited or may not be written.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>

#include "hub/pull_fixture.h"

namespace bertie {
namespace {

using namespace test;

// A child of its own, because what is done to it cannot be undone. Gives its exit code.
template <class Body>
int in_a_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(HubPull, AFileSizeLimitIsAnErrorAndWhatCameIsKept) {
  const int code = in_a_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 100'000, .rlim_max = 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      run();
    } catch (const Error& error) {
      return std::string(error.what()).find("cannot write") != std::string::npos ? 0 : 2;
    }
    return 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(fs::file_size(incomplete()), 100'000u);
  EXPECT_EQ(read_all(incomplete()), weights_.substr(0, 100'000));
  EXPECT_THROW(find_model(kModel, hub_), Error);
  const PullResult result = run();  // and goes on
  expect_whole(result);
  EXPECT_EQ(result.downloaded, weights_.size() - 100'000);
}

// A disk of 1 MB, which only root may make.
int on_a_small_disk(const fs::path& folder, const std::function<int()>& body) {
  return in_a_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0)
      return 77;
    return body();
  });
}

TEST_F(HubPull, AFullDiskIsSeenBeforeAnythingIsDownloaded) {
  server_.add("org/large", "config.json", kConfig);
  server_.add("org/large", "model.safetensors", some_bytes(2'000'000));
  const int code = on_a_small_disk(folder_.path(), [&] {
    try {
      run("org/large");
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.find("there is no room for org/large: it needs 2.0 MB") != what.npos ? 0 : 2;
    }
    return 1;
  });
  if (code == 77) GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_EQ(code, 0);
  EXPECT_EQ(server_.count("GET /cdn/"), 0u);
}

TEST_F(HubPull, ADiskThatFillsUpMeanwhileKeepsWhatCame) {
  int full_disk[2];  // the server, in this process, goes on when the child's disk is full
  ASSERT_EQ(pipe(full_disk), 0);
  server_.intercept = [&](const HubRequest& r, HubReply& reply) {
    if (is_weights(r) && r.header("range").empty())
      reply.at_half = [&] {
        char byte = 0;
        EXPECT_EQ(read(full_disk[0], &byte, 1), 1);
      };
  };
  const int code = on_a_small_disk(folder_.path(), [&] {
    options_.progress = [&, full = false](const PullProgress& p) mutable {
      if (!full && p.file == "model.safetensors" && p.done > 50'000) {
        full = true;
        std::ofstream out(folder_.path() / "filler", std::ios::binary);
        const std::string block(4096, 'x');
        while (out.write(block.data(), std::streamsize(block.size())).flush()) continue;
        if (write(full_disk[1], "x", 1) != 1) return false;
      }
      return true;
    };
    try {
      run();
      return 1;
    } catch (const Error& error) {
      const std::string what = error.what();
      if (what.find("there is no room for model.safetensors: it needs") == what.npos) return 2;
    }
    if (fs::file_size(incomplete()) == 0) return 3;
    fs::remove(folder_.path() / "filler");
    options_.progress = {};
    return run().downloaded < weights_.size() ? 0 : 4;
  });
  close(full_disk[1]);  // a child that did not come so far must not keep the server waiting
  if (code == 77) GTEST_SKIP() << "only root may mount a small disk";
  EXPECT_EQ(code, 0);
}

TEST_F(HubPull, ACacheThatMayNotBeWrittenIsAnError) {
  folder_.write("file", "");
  hub_.cache = folder_.path() / "file";
  expect_failure("cannot write", "");
  hub_.cache = "/proc/cache";
  expect_failure("cannot write /proc/cache", "");
}

}  // namespace
}  // namespace bertie
