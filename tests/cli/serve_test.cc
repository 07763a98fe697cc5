// bertie serve as a service manager runs it: by its options, its environment, its signals and a socket.
#include <gtest/gtest.h>

#include "cli/program.h"
#include "serve/client.h"
#include "serve/small_models.h"

namespace bertie {
namespace {

using test::Result;

uint16_t free_port(int* keep = nullptr) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(s, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(s, reinterpret_cast<sockaddr*>(&address), &size);
  if (keep)
    *keep = s;
  else
    close(s);
  return ntohs(address.sin_port);
}

bool comes_up(uint16_t port) {
  for (int i = 0; i < 400; ++i) {
    try {
      if (test::get(port, "/ready").status == 200) return true;
    } catch (const std::runtime_error&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return false;
}

const std::string kModel = test::golden_task("sentence-similarity-bert");

TEST(Serve, AnswersUntilItIsStopped) {
  for (int signal : {SIGTERM, SIGINT}) {
    const uint16_t port = free_port();
    test::Reply reply;
    const Result result =
        test::run({"serve", "vectors=" + kModel, "--port", std::to_string(port), "--log"},
                  {.meanwhile = [&](pid_t process) {
                    EXPECT_TRUE(comes_up(port));
                    reply = test::post(port, "/v1/embeddings", R"({"input": "hello", "model": "vectors"})");
                    kill(process, SIGHUP);
                    std::this_thread::sleep_for(std::chrono::milliseconds(300));
                    EXPECT_TRUE(comes_up(port)) << "after SIGHUP";
                    kill(process, signal);
                  }});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(result.err.find("http://127.0.0.1:" + std::to_string(port)), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("Only this machine"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("\"path\":\"/v1/embeddings\""), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("loaded again: vectors"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Serve, TakesItsOptionsFromTheEnvironmentToo) {
  const uint16_t port = free_port();
  const Result result = test::run(
      {"serve", "-q"}, {.environment = {{"BERTIE_MODEL", kModel},
                                        {"BERTIE_PORT", std::to_string(port)},
                                        {"BERTIE_VERSION", "1.2"},
                                        {"BERTIE_LOG", "0"},
                                        {"BERTIE_MAX_INPUTS", "2"}},
                        .meanwhile = [&](pid_t process) {
                          EXPECT_TRUE(comes_up(port));
                          EXPECT_EQ(test::post(port, "/embed", R"({"inputs": ["a", "b"]})").status, 200);
                          EXPECT_EQ(test::post(port, "/embed", R"({"inputs": ["a", "b", "c"]})").status, 413);
                          kill(process, SIGTERM);
                        }});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const Result wrong = test::run({"serve", kModel}, {.environment = {{"BERTIE_PORT", "many"}}});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("$BERTIE_PORT"), std::string::npos) << wrong.err;
}

// As systemd does it: the socket is number 3, and LISTEN_PID is the process.
TEST(Serve, TakesASocketThatIsHandedOver) {
  int socket = -1;
  const uint16_t port = free_port(&socket);
  ASSERT_EQ(listen(socket, 16), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(socket, 3);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    execl(test::kProgram.c_str(), "bertie", "serve", kModel.c_str(), "-q", nullptr);
    _exit(127);
  }
  close(socket);
  EXPECT_TRUE(comes_up(port));
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Serve, SaysWhatIsWrong) {
  const Result address = test::run({"serve", kModel, "--address", "here"});
  EXPECT_EQ(address.code, 2);
  EXPECT_NE(address.err.find("not an IP address"), std::string::npos) << address.err;
  const Result model = test::run({"serve", "no-such-model"});
  EXPECT_EQ(model.code, 1);
  const Result keys = test::run({"serve", kModel, "--keys", "/no/such/file"});
  EXPECT_NE(keys.code, 0);
  EXPECT_NE(keys.err.find("cannot be read"), std::string::npos) << keys.err;
}

TEST(View, PrintsALinkToItsTextAndServesIt) {
  test::TemporaryFolder folder;
  const std::string path = folder / "link", start = "http://127.0.0.1:";
  std::string link;
  test::Reply page, atlas;
  const auto look = [&](pid_t process) {
    for (int i = 0; i < 400 && !link.ends_with("\n"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
      link = test::read_all(path);
    }
    if (link.starts_with(start)) {
      const auto port = uint16_t(std::stoi(link.substr(start.size())));
      page = test::get(port, "/");
      atlas = test::post(port, "/atlas", R"({"text": "You & <me>"})");
    }
    kill(process, SIGTERM);
  };
  const Result result = test::run({"view", "-m", kModel, "--no-open", "--layer", "2", "You & <me>"},
                                  {.output_to = path, .meanwhile = look});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(link.starts_with(start) && link.ends_with("/#text=You%20%26%20%3Cme%3E&layer=2\n")) << link;
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(atlas.status, 200);
}

}  // namespace
}  // namespace bertie
