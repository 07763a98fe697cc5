#pragma once
// HTTP/1.1 for the service: connections, limits and deadlines. Everything that knows Boost is in http.cc.
//
// A Handler is called on one of the server's few threads for each request that came whole and within the
// limits; it must not block. Whoever has the Exchange replies once, from any thread, now or later.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bertie::serve {

using Clock = std::chrono::steady_clock;
inline double to_seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
inline Clock::duration from_seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}
using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET", "POST", "OPTIONS"; a HEAD comes as GET, and its reply goes without its body
  std::string path;    // without the query; as it was sent, %41 stays %41
  Headers headers;     // names in small letters
  std::string body;
  std::string address;  // of the client
  Clock::time_point arrived;

  std::string_view header(std::string_view name) const;  // empty where there is none
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  Headers headers = {};
  // For long replies: gives the next piece, and an empty one at the end. Called on one of the server's
  // threads, when the client has taken the piece before; `body` is the first one.
  std::function<std::string()> more = {};
  size_t holds = 0;  // bytes of memory that `more` keeps
};

struct HttpLimits {
  size_t header_bytes = 8 << 10;
  size_t body_bytes = 2 << 20;
  size_t bodies_bytes = 32 << 20;          // of all requests that are being worked on
  size_t replies_bytes = size_t{1} << 30;  // of all replies that are being written, with what they hold
  size_t connections = 4096;
  size_t connections_per_address = 1024;
  double request_seconds = 10;  // from its first byte until all of it has come
  double idle_seconds = 60;     // between requests
  double write_seconds = 30;    // for the client to take a reply,
  double write_rate = 100'000;  // and a second more for so many bytes of it
};

// One request and its reply.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual HttpRequest& request() = 0;
  virtual void reply(HttpReply reply) = 0;
  virtual bool gone() const = 0;  // the client has closed the connection: nobody waits for the reply
};

// What the server tells of itself.
struct HttpCounts {
  uint64_t accepted = 0;  // connections, ever
  uint64_t refused = 0;   // of these, because there were too many
  uint64_t bad = 0;       // requests that were not HTTP, too large or too slow
  size_t open = 0;        // connections now
};

class HttpServer {
 public:
  using Handler = std::function<void(std::shared_ptr<Exchange>)>;
  // A request that never reaches the handler (bad syntax, too large, too slow) is answered with what this
  // makes of it.
  using Refusal = std::function<HttpReply(int status, std::string_view why)>;
  // Asked when the headers have come, before the body is read. A reply: the request ends with it.
  using Admit = std::function<std::optional<HttpReply>(const HttpRequest& request)>;

  HttpServer(HttpLimits limits, Handler handler, Refusal refusal, Admit admit);
  ~HttpServer();  // cuts what is left

  // Throws Error where the address cannot be had. Port 0: any that is free. Gives the port.
  uint16_t listen(const std::string& address, uint16_t port);
  uint16_t adopt(int listening_socket);  // one that systemd opened
  void start(int threads);

  void post(std::function<void()> work);  // onto one of the server's threads

  // No more connections, and none stays open after its reply; true when all are closed, false after
  // `seconds`.
  bool drain(double seconds);
  HttpCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie::serve
