// A load on a service of embeddings, from this machine to this machine: how many texts a second, how long
// each waits, and whether every answer is the right one.
//
//   bertie_serve_load load   --port 8080 --texts FILE --clients 64 --seconds 20
//       clients that ask one text after the other
//   bertie_serve_load hold   --port 8080 --texts FILE --clients 2000 --seconds 8
//       one good client alone, and beside many that are idle or do not go on; the server needs
//       --max-connections-per-address 3000 --request-timeout 60 for it
//   bertie_serve_load attack --port 8080 --texts FILE --requests 1000000
//       requests that are not what they should be
//
// --path and --field name the route and its text (/embed and inputs). --check N: every Nth text's answer is
// compared with what it was alone (1: all; 0: none). Prints lines of JSON. Only this machine is asked.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string mode, texts, path = "/embed", field = "inputs";
  uint16_t port = 8080;
  size_t clients = 64, requests = SIZE_MAX, check = 1;
  double seconds = 20;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  if (argc < 2) throw std::runtime_error("load, hold or attack?");
  a.mode = argv[1];
  std::map<std::string, std::string> given;
  for (int i = 2; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  const auto text = [&](const char* name, std::string& to) {
    if (given.contains(name)) to = given[name];
  };
  const auto number = [&](const char* name, auto& to) {
    if (given.contains(name)) to = std::decay_t<decltype(to)>(std::stod(given[name]));
  };
  text("--texts", a.texts), text("--path", a.path), text("--field", a.field);
  number("--port", a.port), number("--clients", a.clients), number("--requests", a.requests),
      number("--seconds", a.seconds);
  number("--check", a.check);
  return a;
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  if (lines.empty()) throw std::runtime_error("no texts in " + file);
  return lines;
}

int connect_to(uint16_t port) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_port = htons(port),
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(s);
    return -1;
  }
  const int on = 1;
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

std::string request_for(const Arguments& a, const std::string& text) {
  const std::string body = nlohmann::json{{a.field, text}}.dump();
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      a.path, body.size(), body);
}

// A client that asks one request after the other on one connection.
struct Asking {
  int socket = -1;
  size_t text = 0;
  std::string to_send, received;
  bool ended = false;                   // the other side has closed
  Clock::time_point asked, not_before;  // one that was refused waits, as Retry-After says

  void begin(std::string request, size_t which) {
    text = which, to_send = std::move(request), received.clear(), asked = Clock::now();
  }
  // The status once the whole reply is there, with its body in `body`; 0: not yet, -1: the connection ended.
  int step(std::string& body) {
    while (!to_send.empty()) {
      const ssize_t n = send(socket, to_send.data(), to_send.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) return 0;
      if (n <= 0) return -1;
      to_send.erase(0, size_t(n));
    }
    char some[65536];
    for (ended = false;;) {
      const ssize_t n = recv(socket, some, sizeof some, MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) break;
      if (n <= 0) {
        ended = true;  // a whole reply before the end counts
        break;
      }
      received.append(some, size_t(n));
    }
    const int unfinished = ended ? -1 : 0;
    const size_t head = received.find("\r\n\r\n");
    if (head == received.npos) return unfinished;
    std::string lower = received.substr(0, head);
    std::ranges::transform(lower, lower.begin(), [](char c) { return char(std::tolower(c)); });
    const size_t length = lower.find("content-length:");
    if (length == lower.npos) return -1;
    const size_t size = std::stoul(lower.substr(length + 15));
    if (received.size() < head + 4 + size) return unfinished;
    body = received.substr(head + 4, size);
    return std::stoi(received.substr(9, 3));
  }
};

struct Outcome {
  // Refused: 429 and 503, which say "later". Failed: any other status. Lost: no reply, or half of one.
  size_t answered = 0, refused = 0, failed = 0, lost = 0, wrong = 0;
  std::vector<double> seconds;
  double took = 0;

  double quantile(double q) {
    if (seconds.empty()) return 0;
    std::ranges::sort(seconds);
    return seconds[std::min(seconds.size() - 1, size_t(q * double(seconds.size())))];
  }
  std::string json(const char* name) {
    return fmt::format(
        R"({{"what":"{}","answered":{},"refused":{},"failed":{},"lost":{},"wrong":{},"seconds":{:.2f},"per_second":{:.1f},"p50_ms":{:.3f},"p99_ms":{:.3f},"most_ms":{:.3f}}})",
        name, answered, refused, failed, lost, wrong, took, double(answered) / took, 1000 * quantile(.5),
        1000 * quantile(.99), 1000 * quantile(1));
  }
};

// What each text's answer is when it is asked alone.
std::vector<std::string> answers_alone(const Arguments& a, const std::vector<std::string>& texts) {
  std::vector<std::string> answers(texts.size());
  Asking client;
  client.socket = connect_to(a.port);
  for (size_t i = 0; a.check > 0 && i < texts.size(); i += a.check) {
    client.begin(request_for(a, texts[i]), i);
    int status;
    while ((status = client.step(answers[i])) == 0) {
      pollfd wait{client.socket, POLLIN, 0};
      poll(&wait, 1, 1000);
    }
    if (status != 200) throw std::runtime_error(fmt::format("status {}: {}", status, answers[i]));
  }
  close(client.socket);
  return answers;
}

Outcome load(const Arguments& a, const std::vector<std::string>& texts,
             const std::vector<std::string>& right) {
  Outcome out;
  std::vector<Asking> clients(a.clients);
  std::vector<pollfd> waits(a.clients);
  size_t begun = 0;
  const auto start = Clock::now();
  const auto begin = [&](Asking& client) {
    client.begin(request_for(a, texts[begun % texts.size()]), begun % texts.size());
    ++begun;
  };
  for (bool going = true; going;) {
    going = false;
    const bool more =
        begun < a.requests && std::chrono::duration<double>(Clock::now() - start).count() < a.seconds;
    for (Asking& client : clients)
      if (more && client.socket < 0 && Clock::now() >= client.not_before)
        if ((client.socket = connect_to(a.port)) >= 0) begin(client);
    for (size_t i = 0; i < clients.size(); ++i) {
      waits[i] = {clients[i].socket, short(clients[i].to_send.empty() ? POLLIN : POLLIN | POLLOUT), 0};
      going |= clients[i].socket >= 0;
    }
    if (!going && !more) break;
    going = true;
    poll(waits.data(), waits.size(), 100);
    for (size_t i = 0; i < clients.size(); ++i) {
      Asking& client = clients[i];
      if (client.socket < 0 || waits[i].revents == 0) continue;
      std::string body;
      const int status = client.step(body);
      if (status == 0) continue;
      if (status == 200) {
        ++out.answered;
        out.seconds.push_back(std::chrono::duration<double>(Clock::now() - client.asked).count());
        if (!right[client.text].empty() && body != right[client.text]) ++out.wrong;
      } else if (status == 429 || status == 503) {
        ++out.refused;
      } else if (status > 0) {
        ++out.failed;
      } else {
        ++out.lost;
      }
      if (status == 200 && more) {
        begin(client);
        continue;
      }
      close(client.socket), client.socket = -1;
      client.not_before = Clock::now() + std::chrono::seconds(1);
    }
  }
  out.took = std::chrono::duration<double>(Clock::now() - start).count();
  return out;
}

// Connections that say nothing, or a byte now and then.
void hold(Arguments a, const std::vector<std::string>& texts, const std::vector<std::string>& right) {
  const size_t held = a.clients;
  a.clients = 1;
  std::printf("%s\n", load(a, texts, right).json("one good client").c_str());
  std::vector<int> sockets;
  for (size_t i = 0; i < held; ++i) {
    sockets.push_back(connect_to(a.port));
    if (i % 2 == 0 && sockets.back() >= 0) (void)!send(sockets.back(), "POST /embed HT", 14, MSG_NOSIGNAL);
  }
  std::printf("%s\n", load(a, texts, right).json("the same beside idle and slow ones").c_str());
  size_t still = 0;
  for (int s : sockets) {
    char byte;
    still += s >= 0 && recv(s, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
    close(s);
  }
  std::printf("{\"what\":\"held\",\"connections\":%zu,\"still_open_at_the_end\":%zu}\n", held, still);
}

// One request that is not what it should be.
std::string bad_request(const Arguments& a, const std::vector<std::string>& texts, std::mt19937_64& random) {
  const auto any = [&](size_t n) { return size_t(random() % n); };
  std::string good = request_for(a, texts[any(texts.size())]);
  const auto with_body = [&](const std::string& body) {
    return fmt::format("POST {} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}", a.path, body.size(), body);
  };
  switch (any(16)) {
    case 0:
      return good.substr(0, any(good.size()));
    case 1:
      for (size_t i = 0; i <= any(8); ++i) good[any(good.size())] = char(any(256));
      return good;
    case 2:
      return with_body("{\"inputs\": " + std::string(1 + any(20000), any(2) ? '[' : '{'));
    case 3:
      return with_body(fmt::format("{{\"inputs\": \"a\", \"dimensions\": {}}}",
                                   any(2) ? "-1" : "99999999999999999999999"));
    case 4:
      return with_body("{\"inputs\": [\"" + std::string(any(3000), '\xF0') + "\"]}");
    case 5: {
      std::string chunks = fmt::format("POST {} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", a.path);
      for (size_t i = 0; i < 200; ++i) chunks += "1\r\n{\r\n";
      return chunks + (any(2) ? "0\r\n\r\n" : "zz\r\n");
    }
    case 6:
      return fmt::format(
          "POST {} HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
          a.path);
    case 7:
      return fmt::format("POST {} HTTP/1.1\r\nContent-Length: {}\r\n\r\n", a.path, random());
    case 8:
      return fmt::format("GET /{} HTTP/1.1\r\n\r\n", std::string(any(9000), 'a'));
    case 9:
      return fmt::format("GET /live HTTP/1.1\r\nA: {}\r\n\r\n", std::string(any(20000), 'b'));
    case 10:
      return fmt::format("POST {} HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n\x1f\x8b{}",
                         a.path, "bombbomb");
    case 11:
      return "GET /models/..%2f..%2fetc%2fpasswd/pipeline/x HTTP/1.1\r\n\r\n";
    case 12:
      return with_body("{\"inputs\": \"a\", \"inputs\": \"b\"}");
    case 13: {
      std::string noise(1 + any(500), ' ');
      for (char& c : noise) c = char(any(256));
      return noise;
    }
    case 14:
      return fmt::format(
          "POST /{} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}",
          std::vector<const char*>{"predict", "rerank", "attention", "explain", "senses", "score", "decode",
                                   "tokenize", "v1/embeddings", "pipeline/fill-mask"}[any(10)]);
    default:
      return with_body("{\"inputs\": {\"a\": [1e308, -0.0, null, true]}, \"truncate\": \"yes\"}");
  }
}

void attack(const Arguments& a, const std::vector<std::string>& texts,
            const std::vector<std::string>& right) {
  std::mt19937_64 random(1);
  std::map<std::string, size_t> statuses;
  const auto start = Clock::now();
  for (size_t i = 0; i < a.requests; ++i) {
    const int s = connect_to(a.port);
    if (s < 0) {
      ++statuses["no connection"];
      continue;
    }
    const std::string request = bad_request(a, texts, random);
    (void)!send(s, request.data(), request.size(), MSG_NOSIGNAL);
    shutdown(s, SHUT_WR);  // what is cut is seen to be cut
    char reply[256];
    const ssize_t n = recv(s, reply, sizeof reply, 0);
    ++statuses[n >= 12 ? std::string(reply + 9, 3) : "closed"];
    const linger at_once{1, 0};  // no port stays behind in TIME_WAIT
    setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(s);
    if (i % 10000 == 9999) std::fprintf(stderr, "\r%zu ", i + 1);
  }
  nlohmann::json line = {{"what", "attack"}, {"requests", a.requests}, {"replies", statuses}};
  line["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%s\n", line.dump().c_str());
  Arguments good = a;
  good.clients = 4, good.requests = 100, good.seconds = 30;
  std::printf("%s\n", load(good, texts, right).json("good clients after it").c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  const Arguments a = parse(argc, argv);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const std::vector<std::string> texts = lines_of(a.texts), right = answers_alone(a, texts);
  if (a.mode == "hold") return hold(a, texts, right), 0;
  if (a.mode == "attack") return attack(a, texts, right), 0;
  Outcome outcome = load(a, texts, right);
  std::printf("%s\n", outcome.json("load").c_str());
  return outcome.wrong > 0 || outcome.lost > 0 || outcome.failed > 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bertie_serve_load: %s\n", error.what());
  return 2;
}
