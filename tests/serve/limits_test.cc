// Nothing that a client sends stops the server, takes more than its share, or shows what is not the client's.
#include <gtest/gtest.h>

#include <thread>

#include "serve/client.h"
#include "serve/small_models.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace bertie {
namespace {

using nlohmann::json;
using test::Client;
using test::Reply;

bool answers(const Server& server) {
  return test::post(server.port(), "/embed", R"({"inputs": "still here"})").status == 200;
}

class Limits : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new Server(test::small_models()); }
  static void TearDownTestSuite() {
    EXPECT_TRUE(answers(*server_));
    delete server_;
  }
  Reply raw(std::string_view bytes) {
    Client client(server_->port());
    client.send(bytes);
    return client.receive();
  }
  Reply ask(std::string_view path, std::string_view body) { return test::post(server_->port(), path, body); }
  static Server* server_;
};
Server* Limits::server_ = nullptr;

TEST_F(Limits, HeadersAndBodiesHaveASize) {
  EXPECT_EQ(raw("GET /info HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n").status, 431);
  EXPECT_EQ(raw("GET /" + std::string(5000, 'x') + " HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(raw("POST /embed HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n").status, 413);
  EXPECT_EQ(raw("POST /embed HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n").status, 413);
  // In pieces that are small each, but not together.
  Client client(server_->port());
  client.send("POST /embed HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(0x10000, ' ') + "\r\n";
  for (int i = 0; i < 40 && client.send(chunk); ++i) {
  }
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(Limits, WhatIsNotHttpIsRefused) {
  for (const char* bytes :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02",
        "GET / HTTP/1.1\r\nA\r\n\r\n", "POST /embed HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /embed HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST /embed HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /embed HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "GET  /info HTTP/1.1\r\n\r\n",
        "GET http://elsewhere/info HTTP/1.1\r\n\r\n", "GET /in\tfo HTTP/1.1\r\n\r\n"}) {
    const Reply reply = raw(bytes);
    EXPECT_EQ(reply.status, 400) << bytes;
    EXPECT_EQ(reply.header("connection"), "close") << bytes;
  }
  EXPECT_EQ(raw("BREW /embed HTTP/1.1\r\n\r\n").status, 405);
  EXPECT_EQ(raw("GET /embed HTTP/1.1\r\n\r\n").status, 405);
  EXPECT_EQ(raw("GET /../../etc/passwd HTTP/1.1\r\n\r\n").status, 404);
  EXPECT_EQ(raw("GET /v1/models/%2e%2e%2fetc HTTP/1.1\r\n\r\n").status, 404);
  EXPECT_EQ(raw("GET /v1/models/%zz HTTP/1.1\r\n\r\n").status, 404);
  EXPECT_EQ(raw("GET /v1/models/ HTTP/1.1\r\n\r\n").status, 404);
  // Where one server sees one request and the next one two.
  for (const char* headers :
       {"Transfer-Encoding: xchunked\r\nContent-Length: 2\r\n", "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 2\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Host: a\r\nHost: b\r\nContent-Length: 2\r\n"})
    EXPECT_EQ(raw(fmt::format("POST /embed HTTP/1.1\r\n{}\r\n{{}}", headers)).status, 400) << headers;
  EXPECT_EQ(raw("POST /embed HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status, 400);
  EXPECT_EQ(raw("POST /embed HTTP/1.1\r\nContent-Encoding: identity\r\nContent-Encoding: "
                "gzip\r\nContent-Length: 2\r\n\r\n{}")
                .status,
            415);
  EXPECT_EQ(raw("POST /embed HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc").status,
            415);
}

TEST_F(Limits, OddButGoodHttpIsTaken) {
  const std::string body = R"({"inputs": "hello"})";
  const std::string expected = ask("/embed", body).body;
  // Chunks of one byte, and bytes that come one by one.
  std::string chunks = "POST /embed HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (char c : body) chunks += fmt::format("1\r\n{}\r\n", c);
  EXPECT_EQ(raw(chunks + "0\r\n\r\n").body, expected);
  Client slow(server_->port());
  for (char c : fmt::format("POST /embed HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}", body.size(), body))
    slow.send(std::string(1, c));
  EXPECT_EQ(slow.receive().body, expected);
  // Several requests on one connection, sent before the first is answered.
  Client client(server_->port());
  client.send_request("POST", "/embed", body);
  client.send_request("GET", "/live");
  client.send_request("POST", "/embed", body);
  EXPECT_EQ(client.receive().body, expected);
  EXPECT_EQ(client.receive().body, "alive\n");
  EXPECT_EQ(client.receive().body, expected);
  // HEAD has the headers of GET and nothing else.
  client.send_request("HEAD", "/live");
  EXPECT_EQ(client.receive(true).header("content-length"), "6");
  client.send_request("GET", "/live");
  EXPECT_EQ(client.receive().body, "alive\n");
  // A client that asks whether it may send.
  client.send(
      fmt::format("POST /embed HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", body.size()));
  client.send(body);
  EXPECT_EQ(client.receive().body, expected);
  // HTTP/1.0 has no chunks: the end of the connection is the end.
  Client old(server_->port());
  const std::string text = R"({"text": "You found me"})";
  old.send(fmt::format("POST /attention HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", text.size(), text));
  const Reply reply = old.receive();
  EXPECT_EQ(reply.header("transfer-encoding"), "");
  EXPECT_EQ(reply.json()["tokens"].size(), ask("/attention", text).json()["tokens"].size());
}

TEST_F(Limits, JsonIsCheckedBeforeItIsUsed) {
  EXPECT_EQ(ask("/embed", "{\"inputs\": \"a\"").status, 400);
  EXPECT_EQ(ask("/embed", "{\"inputs\": \"a\", \"inputs\": \"b\"}").status, 400) << "twice the same key";
  EXPECT_EQ(ask("/embed", "{\"inputs\": \"\xFF\xFE\"}").status, 400) << "not UTF-8";
  EXPECT_EQ(ask("/embed", std::string("{\"inputs\": \"a\0b\"}", 17)).status, 400);
  EXPECT_EQ(ask("/embed", "{\"inputs\": " + std::string(100000, '[')).status, 400);
  std::string many = "{\"inputs\": [";
  for (int i = 0; i < 500000; ++i) many += "0,";
  EXPECT_EQ(ask("/embed", many + "0]}").status, 400);
  EXPECT_EQ(ask("/embed", "{\"inputs\": [\"a\", 1e999]}").status, 400);
  EXPECT_EQ(ask("/embed", "\"inputs\"").status, 422);
}

TEST_F(Limits, NumbersAreInTheirRangeAndNamed) {
  const auto refused = [&](std::string_view path, std::string_view body, const char* field) {
    const Reply reply = ask(path, body);
    EXPECT_EQ(reply.status, 422) << path << body << reply.body;
    const json error = reply.json();
    EXPECT_EQ(error["error"].is_object() ? error["error"]["param"] : error["field"], field) << reply.body;
  };
  refused("/embed", R"({"inputs": "a", "dimensions": -1})", "dimensions");
  refused("/embed", R"({"inputs": "a", "dimensions": 18446744073709551615})", "dimensions");
  refused("/embed", R"({"inputs": "a", "dimensions": 1.5})", "dimensions");
  refused("/embed", R"({"inputs": "a", "truncate": 1})", "truncate");
  refused("/v1/embeddings", R"({"input": "a", "encoding_format": "xml"})", "encoding_format");
  refused("/pipeline/fill-mask", R"({"inputs": "a [MASK]", "parameters": {"top_k": 100000000}})",
          "parameters.top_k");
  refused("/pipeline/fill-mask", R"({"inputs": "a [MASK]", "parameters": {"top_k": -5}})",
          "parameters.top_k");
  refused("/pipeline/question-answering",
          R"({"inputs": {"question": "a", "context": "b"}, "parameters": {"max_answer_len": 0}})",
          "parameters.max_answer_len");
  refused("/pipeline/question-answering",
          R"({"inputs": {"question": "a", "context": "b"}, "parameters": {"max_question_len": 1000}})",
          "parameters.max_question_len");
  refused("/pipeline/text-generation", R"({"inputs": "a", "parameters": {"max_new_tokens": 1000000}})",
          "parameters.max_new_tokens");
  refused("/pipeline/text-generation", R"({"inputs": "a", "parameters": {"temperature": -1}})",
          "parameters.temperature");
  refused("/rerank", R"({"query": "a", "texts": ["b"], "top_n": 0})", "top_n");
  refused("/score", R"({"texts": ["a"], "modle": "x"})", "modle");
}

TEST_F(Limits, ManyTextsOrTokensAreTooMany) {
  json texts = json::array();
  for (int i = 0; i < 2049; ++i) texts.push_back("a");
  EXPECT_EQ(ask("/embed", json{{"inputs", texts}}.dump()).status, 413);
  ServeOptions options = test::one_model();
  options.limits.tokens = 100;
  const Server server(options);
  EXPECT_EQ(test::post(server.port(), "/embed", json{{"inputs", {"a", "b", "c"}}}.dump()).status, 200);
  json some = json::array();
  for (int i = 0; i < 40; ++i) some.push_back("a");
  const Reply reply = test::post(server.port(), "/embed", json{{"inputs", some}}.dump());
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.json()["error_type"], "Validation");
}

// Small requests whose answers would be large, or take for ever.
TEST_F(Limits, WhatGrowsWithAProductIsLimited) {
  std::string masks, words, places;
  for (int i = 0; i < 60; ++i) masks += "[MASK] ";
  const json fill = {{"inputs", std::vector<std::string>(200, masks)}, {"parameters", {{"top_k", 400}}}};
  EXPECT_EQ(ask("/pipeline/fill-mask", fill.dump()).status, 413);
  for (int i = 0; i < 60000; ++i) words += "a ";
  const json question = {{"inputs", {{"question", "who"}, {"context", words}}},
                         {"parameters", {{"doc_stride", 27}}}};
  EXPECT_EQ(ask("/pipeline/question-answering", question.dump()).status, 413);
  const json stride = {{"inputs", {{"question", "who"}, {"context", words}}},
                       {"parameters", {{"doc_stride", 60}}}};
  EXPECT_EQ(ask("/pipeline/question-answering", stride.dump()).json()["field"], "parameters.doc_stride");
  for (int i = 0; i < 20; ++i) places += "bank ";
  EXPECT_EQ(
      ask("/senses", json{{"word", "bank"}, {"texts", std::vector<std::string>(20, places)}}.dump()).status,
      422);
  const json query = {
      {"query", std::string(20000, 'q')}, {"texts", std::vector<std::string>(1000, "a")}, {"truncate", true}};
  EXPECT_LT(ask("/rerank", query.dump()).status, 500);
  const json labels = {{"inputs", "a"},
                       {"parameters",
                        {{"candidate_labels", std::vector<std::string>(900, "b")},
                         {"hypothesis_template", "{}" + std::string(20000, 'x')}}}};
  EXPECT_EQ(ask("/pipeline/zero-shot-classification", labels.dump()).status, 413);
  // Time in the square of a text's tokens would be felt here.
  const auto start = std::chrono::steady_clock::now();
  const Reply reply = ask("/tokenize", json{{"inputs", words}}.dump());
  EXPECT_EQ(reply.json()[0].size(), 60002u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(ask("/tokenize", json{{"inputs", {words, words, words}}}.dump()).status, 413);
  EXPECT_EQ(ask("/pipeline/token-classification", json{{"inputs", words}}.dump()).status, 413)
      << "one piece of work";
}

TEST_F(Limits, ErrorsTellNothingOfTheInside) {
  for (const char* path :
       {"/embed", "/predict", "/pipeline/fill-mask", "/attention", "/nothing", "/v1/models/x"})
    for (const char* body : {"{}", "{\"inputs\": {}}", "{\"inputs\": [[[]]]}"}) {
      const std::string text = ask(path, body).body;
      for (const char* inside : {"golden", "src/", ".cc", "std::", "0x", "exception"})
        EXPECT_EQ(text.find(inside), text.npos) << path << ": " << text;
    }
}

TEST(SlowClients, AreLetGo) {
  ServeOptions options = test::one_model();
  options.limits.request_seconds = 0.3, options.limits.idle_seconds = 0.6;
  const Server server(options);
  Client idle(server.port()), slow(server.port()), begun(server.port());
  slow.send("POST /embed HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  begun.send("POST /em");
  EXPECT_EQ(slow.receive().status, 408);
  EXPECT_EQ(begun.receive().status, 408);
  EXPECT_TRUE(idle.is_closed());
  EXPECT_TRUE(answers(server));
}

TEST(Connections, BeyondTheLimitAreToldSo) {
  ServeOptions options = test::one_model();
  options.limits.connections = 3;
  const Server server(options);
  std::vector<std::unique_ptr<Client>> held;
  for (int i = 0; i < 3; ++i) {
    held.push_back(std::make_unique<Client>(server.port()));
    held.back()->send_request("GET", "/live");
    EXPECT_EQ(held.back()->receive().status, 200);
  }
  Client more(server.port());
  more.send_request("GET", "/live");
  const Reply reply = more.receive();
  EXPECT_EQ(reply.status, 503);
  EXPECT_FALSE(reply.header("retry-after").empty());
  held.pop_back();
  for (int i = 0; i < 100; ++i) {
    if (test::get(server.port(), "/live").status == 200) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "a place that was given up is not given again";
}

TEST(Connections, OfOneAddressAreLimitedToo) {
  ServeOptions options = test::one_model();
  options.limits.connections_per_address = 1;
  const Server server(options);
  Client first(server.port());
  first.send_request("GET", "/live");
  EXPECT_EQ(first.receive().status, 200);
  EXPECT_EQ(test::get(server.port(), "/live").status, 503);
}

TEST(KeysOfClients, AreAskedForAndReadAgain) {
  const test::TempFolder folder;
  const auto file = folder.write("keys", "# ours\nfirst-key\n\n  second key \r\n");
  ServeOptions options = test::one_model();
  options.keys_file = file;
  const Server server(options);
  const auto status = [&](std::string_view key) {
    return test::post(server.port(), "/embed", R"({"inputs": "a"})",
                      key.empty() ? "" : fmt::format("Authorization: {}\r\n", key))
        .status;
  };
  EXPECT_EQ(status("Bearer first-key"), 200);
  EXPECT_EQ(status("bearer second key"), 200);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer first-ke", "Bearer first-keyy",
                            "Basic first-key", "first-key", "Bearer # ours"})
    EXPECT_EQ(status(wrong), 401) << wrong;
  EXPECT_EQ(test::get(server.port(), "/health").status, 200) << "supervisors have no key";
  EXPECT_EQ(test::get(server.port(), "/metrics").status, 401);
  EXPECT_EQ(test::get(server.port(), "/v1/models").json()["error"]["code"], "invalid_api_key");
  folder.write("keys", "third\n");
  std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::seconds(5));
  for (int i = 0; i < 30 && status("Bearer third") != 200; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(status("Bearer third"), 200);
  EXPECT_EQ(status("Bearer first-key"), 401);
  folder.write("none", "# nothing\n");
  options.keys_file = folder.path() / "none";
  test::expect_error("there is no key in it", [&] { Server never(options); });
}

TEST(Pages, OfOtherOriginsMayCallOnlyWhereThatWasSaid) {
  const Server closed(test::one_model());
  EXPECT_EQ(
      test::get(closed.port(), "/live", "Origin: http://page\r\n").header("access-control-allow-origin"), "");
  ServeOptions options = test::one_model();
  options.cors_origin = "http://page";
  const Server open(options);
  EXPECT_EQ(test::get(open.port(), "/live", "Origin: http://page\r\n").header("access-control-allow-origin"),
            "http://page");
  EXPECT_EQ(test::get(open.port(), "/live", "Origin: http://other\r\n").header("access-control-allow-origin"),
            "");
  Client client(open.port());
  client.send_request("OPTIONS", "/embed", {},
                      "Origin: http://page\r\nAccess-Control-Request-Method: POST\r\n");
  EXPECT_EQ(client.receive().status, 204);
}

TEST(Traces, ArePassedOnAndRequestsHaveNames) {
  std::mutex mutex;
  std::vector<std::string> lines;
  ServeOptions options = test::one_model();
  options.log = [&](std::string_view line) {
    std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  const Server server(options);
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  Reply reply =
      test::get(server.port(), "/live", "traceparent: " + trace + "\r\nX-Request-Id: my-name_1\r\n");
  EXPECT_EQ(reply.header("traceparent"), trace);
  EXPECT_EQ(reply.header("x-request-id"), "my-name_1");
  reply = test::get(server.port(), "/live", "traceparent: nonsense\r\nX-Request-Id: a\"b c\r\n");
  EXPECT_EQ(reply.header("traceparent"), "");
  EXPECT_EQ(reply.header("x-request-id").size(), 16u);
  std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), 2u);
  const json line = json::parse(lines[0]);
  EXPECT_EQ(line["request_id"], "my-name_1");
  EXPECT_EQ(line["traceparent"], trace);
  EXPECT_EQ(line["path"], "/live");
}

TEST(Counters, CountWhatWasAsked) {
  const Server server(test::one_model());
  for (int i = 0; i < 3; ++i) test::post(server.port(), "/embed", R"({"inputs": ["a", "b"]})");
  test::post(server.port(), "/embed", "{}");
  const std::string text = test::get(server.port(), "/metrics").body;
  EXPECT_NE(text.find("te_request_count{method=\"/embed\"} 4"), text.npos) << text;
  EXPECT_NE(text.find("te_request_success{method=\"/embed\"} 3"), text.npos);
  EXPECT_NE(text.find("te_request_failure{err=\"422\"} 1"), text.npos);
  EXPECT_NE(text.find("bertie_inputs_total 6"), text.npos);
  EXPECT_NE(text.find("te_request_duration_bucket"), text.npos);
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(Starting, AgainAndAgainLeavesNothingOpen) {
  uint16_t port = 0;
  size_t before = 0;
  for (int i = 0; i < 30; ++i) {
    ServeOptions options = test::one_model();
    options.port = port;
    const Server server(options);  // at the same port: it must be free again
    port = server.port();
    EXPECT_EQ(test::get(port, "/live").status, 200);
    if (i == 2) before = open_descriptors();
  }
  EXPECT_LE(open_descriptors(), before);
}

TEST(Starting, SaysWhatIsWrong) {
  test::expect_error("not an IP address", [] {
    ServeOptions options = test::one_model();
    options.address = "localhost";
    Server never(options);
  });
  const Server first(test::one_model());
  test::expect_error("cannot listen", [&] {
    ServeOptions options = test::one_model();
    options.port = first.port();
    Server never(options);
  });
}

}  // namespace
}  // namespace bertie
