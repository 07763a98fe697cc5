// A server's life: loaded again, drained, and stopped, while clients ask.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "bertie/text_model.h"
#include "serve/client.h"
#include "serve/small_models.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::Client;
using test::Reply;

void replace_model(const std::filesystem::path& folder, const std::string& name) {
  std::filesystem::remove_all(folder);
  std::filesystem::copy(test::golden_task(name), folder, std::filesystem::copy_options::recursive);
}

TEST(LoadingAgain, LosesNoRequestAndTakesTheNewModel) {
  const test::TempFolder temp;
  const auto folder = temp.path() / "model";
  replace_model(folder, "sentence-similarity-bert");
  ServeOptions options = test::no_models();
  options.models.push_back({"m", folder.string()});
  Server server(options);
  const std::string body = R"({"inputs": "hello"})";
  const std::string old_reply = test::post(server.port(), "/embed", body).body;
  std::atomic<bool> stop = false;
  std::atomic<size_t> lost = 0, asked = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c)
    clients.emplace_back([&] {
      while (!stop) lost += test::post(server.port(), "/embed", body).status != 200, ++asked;
    });
  for (int i = 0; i < 5; ++i) {
    replace_model(folder, i % 2 ? "sentence-similarity-bert" : "sentence-similarity-roberta");
    server.reload();
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(lost, 0u);
  EXPECT_GT(asked, 5u);
  const auto expected =
      load(test::golden_task("sentence-similarity-roberta")).embed(TextList{"hello"}, {.normalize = true})[0];
  EXPECT_EQ(test::post(server.port(), "/embed", body).json()[0].get<std::vector<float>>(), expected.values);
  EXPECT_NE(test::post(server.port(), "/embed", body).body, old_reply);

  std::filesystem::remove(folder / "config.json");
  EXPECT_THROW(server.reload(), Error);
  EXPECT_EQ(test::post(server.port(), "/embed", body).json()[0].get<std::vector<float>>(), expected.values)
      << "what cannot be loaded leaves what there was";
}

// Whether the server takes no more connections, within this time.
bool refuses_connections(uint16_t port, int milliseconds = 20000) {
  for (; milliseconds > 0; --milliseconds) try {
      const Client late(port);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } catch (const std::runtime_error&) {
      return true;
    }
  return false;
}

TEST(Draining, AnswersWhatHasCome) {
  Server server(test::one_model());
  const std::string body = json{{"inputs", std::vector<std::string>(500, "river bank")}}.dump(),
                    head = fmt::format("POST /embed HTTP/1.1\r\nHost: here\r\nContent-Length: {}\r\n\r\n",
                                       body.size());
  // Some have sent all, some the half of it: the rest of these comes when the server drains for sure.
  std::vector<std::unique_ptr<Client>> clients;
  for (int c = 0; c < 8; ++c) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(head + (c % 2 ? body : body.substr(0, body.size() / 2)));
  }
  Client idle(server.port());  // accepted after them
  idle.send_request("GET", "/ready");
  EXPECT_EQ(idle.receive().status, 200);
  std::atomic<bool> whole = false;
  std::thread drainer([&] { whole = server.drain(60); });
  EXPECT_TRUE(refuses_connections(server.port()));
  EXPECT_TRUE(idle.is_closed());
  for (int c = 0; c < 8; c += 2) clients[size_t(c)]->send(body.substr(body.size() / 2));
  for (int c = 0; c < 8; ++c) {
    const Reply reply = clients[size_t(c)]->receive();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json().size(), 500u);
    EXPECT_TRUE(clients[size_t(c)]->is_closed());
    if (c % 2 == 0) {
      EXPECT_EQ(reply.header("connection"), "close");
    }
  }
  drainer.join();
  EXPECT_TRUE(whole);
}

// A request that is on its way when draining begins, before the server has looked at it, is none to drop.
TEST(Draining, AnswersWhatWasNotReadYet) {
  for (int round = 0; round < 50; ++round) {
    Server server(test::one_model());
    Client first(server.port());
    first.send_request("GET", "/ready");
    ASSERT_EQ(first.receive().status, 200);  // accepted
    first.send_request("GET", "/ready");
    EXPECT_TRUE(server.drain(20));
    const int status = first.receive().status;
    EXPECT_TRUE(status == 200 || status == 503) << "round " << round << ": " << status;
  }
}

TEST(Draining, CutsWhatTakesTooLong) {
  Server server(test::one_model());
  Client slow(server.port());
  slow.send("POST /embed HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(server.drain(0.2));
  EXPECT_TRUE(slow.is_closed());
}

TEST(Stopping, InTheMiddleOfThingsHarmsNothing) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    {
      const Server server(test::one_model());
      const std::string body = json{{"inputs", std::vector<std::string>(300, "river bank")}}.dump();
      for (int c = 0; c < 20; ++c) {
        clients.push_back(std::make_unique<Client>(server.port()));
        clients.back()->send_request("POST", c % 3 ? "/embed" : "/attention",
                                     c % 3 ? body : R"({"text": "You found me"})");
        if (c % 5 == 0) clients.back()->hang_up();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
    }
    for (auto& client : clients) client->hang_up();
  }
}

// A reply that nobody takes does not hold the memory or the connection for ever.
TEST(SlowReaders, AreLetGo) {
  ServeOptions options = test::one_model();
  options.limits.write_seconds = 0.3, options.limits.write_rate = 1e9;
  const Server server(options);
  Client client(server.port());
  const std::string body =
      json{{"inputs", std::vector<std::string>(2000, "river bank of the stream")}}.dump();
  for (int i = 0; i < 40; ++i) client.send_request("POST", "/embed_all", body);
  for (int i = 0; i < 200; ++i) {
    const std::string metrics = test::get(server.port(), "/metrics").body;
    if (metrics.find("bertie_connections 1\n") != metrics.npos) return;  // the one that asks
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  FAIL() << "the connection is still there";
}

}  // namespace
}  // namespace bertie
