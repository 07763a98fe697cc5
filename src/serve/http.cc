// Boost.Beast behind http.h. A connection is one coroutine on a strand of its own: read a request, hand it
// on, wait for the reply, write it, and again.
#include "serve/http.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "bertie/error.h"

namespace bertie::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMostRefusals = 4096;    // that are told why at the same time
constexpr size_t kLingerBytes = 4 << 20;  // of a refused request that are read, so that the reply is not lost
constexpr size_t kPathBytes = 2048;

struct Refused {
  int status;
  std::string_view why;
};

Refused refusal_of(const error_code& error) {
  if (error == http::error::body_limit) return {413, "the body is too large"};
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return {431, "the headers are too large"};
  return {400, "this is not an HTTP request"};
}

bool has_left(const error_code& error) {
  return error == http::error::end_of_stream || error == http::error::partial_message ||
         error == asio::error::connection_reset || error == asio::error::eof;
}

// Bytes that are held, given back at the end.
class Held {
 public:
  explicit Held(std::atomic<size_t>& all) : all_(all) {}
  ~Held() { all_ -= bytes_; }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  bool grow_to(size_t bytes, size_t most) {  // false: all together are too many
    all_ += bytes - bytes_;
    bytes_ = bytes;
    return all_ <= most;
  }

 private:
  std::atomic<size_t>& all_;
  size_t bytes_ = 0;
};

// A client that still sends would lose the reply when the socket is closed: what it sends is read for a
// while.
asio::awaitable<void> linger(beast::tcp_stream& stream) {
  error_code ignored;
  stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  stream.expires_after(std::chrono::seconds(2));
  char rest[16384];
  for (size_t read = 0; read < kLingerBytes;) {
    const auto [error, n] = co_await stream.async_read_some(asio::buffer(rest), kNoThrow);
    if (error) break;
    read += n;
  }
}

bool has_path(std::string_view target) {
  return target.starts_with('/') && target.size() <= kPathBytes &&
         std::ranges::all_of(target, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

// What two servers in a row might understand differently is refused: a body's end must be plain.
std::optional<Refused> refusal_of(const HttpRequest& request, unsigned version) {
  size_t codings = 0, lengths = 0, hosts = 0;
  for (const auto& [name, value] : request.headers) {
    if (name == "transfer-encoding" && (!beast::iequals(value, "chunked") || version < 11 || ++codings > 1))
      return Refused{400, "Transfer-Encoding must be chunked"};
    if (name == "content-encoding" && !beast::iequals(value, "identity"))
      return Refused{415, "packed bodies are not taken: send it without Content-Encoding"};
    lengths += name == "content-length", hosts += name == "host";
  }
  if ((codings > 0 && lengths > 0) || lengths > 1 || hosts > 1)
    return Refused{400, "headers that contradict each other"};
  return {};
}

template <class Body>
void set_fields(http::response<Body>& message, const HttpReply& reply, unsigned version, bool keep) {
  message.version(version);
  message.result(unsigned(reply.status));
  message.set(http::field::content_type, reply.type);
  for (const auto& [name, value] : reply.headers) message.set(name, value);
  message.keep_alive(keep);
}

http::response<http::string_body> whole(HttpReply reply, unsigned version, bool keep) {
  http::response<http::string_body> message;
  set_fields(message, reply, version, keep);
  message.body() = std::move(reply.body);
  message.prepare_payload();
  return message;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [known, value] : headers)
    if (known == name) return value;
  return {};
}

struct HttpServer::State {
  State(HttpLimits l, Handler h, Refusal r, Admit a)
      : limits(l), handler(std::move(h)), refusal(std::move(r)), admit(std::move(a)) {}

  class Connection;
  class Conversation;

  const HttpLimits limits;
  const Handler handler;
  const Refusal refusal;
  const Admit admit;
  std::atomic<bool> draining = false;
  std::atomic<uint64_t> accepted = 0, refused = 0, bad = 0;
  std::atomic<size_t> refusing = 0, bodies = 0, replies = 0;

  mutable std::mutex mutex;  // of what follows
  std::set<Connection*> connections;
  std::map<std::string, size_t, std::less<>> of_address;

  // These end first: with them go all coroutines, which use the above.
  asio::io_context io;
  asio::strand<asio::io_context::executor_type> accepting{io.get_executor()};
  tcp::acceptor acceptor{accepting};
  std::vector<std::thread> threads;

  asio::awaitable<void> accept();
  void take(tcp::socket socket);
  asio::awaitable<void> turn_away(beast::tcp_stream stream);
};

// What one socket needs; it lives as long as its coroutine or a request of it.
class HttpServer::State::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(State& server, tcp::socket socket, std::string address)
      : server_(server), stream_(std::move(socket)), address_(std::move(address)) {}
  ~Connection() {
    std::lock_guard lock(server_.mutex);
    if (server_.connections.erase(this) == 0) return;
    if (const auto found = server_.of_address.find(address_); --found->second == 0)
      server_.of_address.erase(found);
  }
  void enroll() {  // with the server's mutex held
    server_.connections.insert(this);
    ++server_.of_address[address_];
  }

  asio::awaitable<void> converse();
  // Ends a connection that waits for its next request. One that has come and was not read yet is answered.
  void close_if_idle() {
    asio::post(stream_.get_executor(), [self = shared_from_this()] {
      char byte;
      if (self->idle_ && self->peek(byte) <= 0) self->stream_.cancel();
    });
  }
  void cut();

 private:
  friend class Conversation;
  using Parser = http::request_parser<http::string_body>;

  asio::awaitable<bool> read(Parser& parser, HttpRequest& request, Held& held);
  asio::awaitable<bool> read_body(Parser& parser, HttpRequest& request, Held& held, const bool& late);
  asio::awaitable<bool> write(HttpReply reply, const Parser& parser, bool keep);
  asio::awaitable<void> refuse(HttpReply reply);
  asio::awaitable<void> refuse(Refused odd) {
    ++server_.bad;
    return refuse(server_.refusal(odd.status, odd.why));
  }
  void watch(const std::shared_ptr<Conversation>& exchange);
  ssize_t peek(char& byte) {  // as recv: 0 where the client has closed, below 0 where nothing has come
    return recv(stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  }

  State& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::string address_;
  std::weak_ptr<Conversation> current_;
  bool idle_ = false;
};

// One request, from when it has come until its reply is written.
class HttpServer::State::Conversation : public Exchange, public std::enable_shared_from_this<Conversation> {
 public:
  Conversation(std::shared_ptr<Connection> connection, HttpRequest request)
      : connection_(std::move(connection)),
        request_(std::move(request)),
        replied_(connection_->stream_.get_executor(), Clock::time_point::max()) {}

  HttpRequest& request() override { return request_; }
  bool gone() const override { return gone_; }
  void reply(HttpReply reply) override {
    asio::post(connection_->stream_.get_executor(),
               [self = shared_from_this(), reply = std::move(reply)]() mutable {
                 if (self->reply_) return;
                 self->reply_ = std::move(reply);
                 self->replied_.cancel();
               });
  }

  // These belong to the connection's strand.
  asio::awaitable<HttpReply> wait() {
    while (!reply_) co_await replied_.async_wait(kNoThrow);
    co_return std::move(*reply_);
  }
  void leave() { gone_ = true; }
  bool is_answered() const { return reply_.has_value(); }

 private:
  std::shared_ptr<Connection> connection_;
  HttpRequest request_;
  std::optional<HttpReply> reply_;
  asio::steady_timer replied_;  // never expires; it is canceled
  std::atomic<bool> gone_ = false;
};

void HttpServer::State::Connection::cut() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (const auto waiting = self->current_.lock()) waiting->leave();
    self->stream_.close();
  });
}

// False: the connection ends here.
asio::awaitable<bool> HttpServer::State::Connection::read(Parser& parser, HttpRequest& request, Held& held) {
  if (buffer_.size() == 0) {
    idle_ = true;
    stream_.expires_after(from_seconds(server_.limits.idle_seconds));
    const auto [error, n] = co_await stream_.async_read_some(buffer_.prepare(4096), kNoThrow);
    idle_ = false;
    if (error) co_return false;
    buffer_.commit(n);
  }
  request.arrived = Clock::now();
  request.address = address_;
  // The stream's own deadline would close the socket, and the client would not learn why.
  stream_.expires_never();
  struct Progress {
    bool late = false, done = false;
  };
  const auto progress = std::make_shared<Progress>();
  asio::steady_timer deadline(stream_.get_executor(), from_seconds(server_.limits.request_seconds));
  deadline.async_wait([self = shared_from_this(), progress](const error_code& stopped) {
    if (!stopped && !progress->done) progress->late = true, self->stream_.cancel();
  });
  const bool whole = co_await read_body(parser, request, held, progress->late);
  progress->done = true;
  co_return whole;
}

asio::awaitable<bool> HttpServer::State::Connection::read_body(Parser& parser, HttpRequest& request,
                                                               Held& held, const bool& late) {
  parser.header_limit(std::uint32_t(server_.limits.header_bytes));
  parser.body_limit(server_.limits.body_bytes);
  const auto fail = [&](const error_code& error) -> asio::awaitable<void> {
    if (late)
      co_await refuse(Refused{408, "the request took too long to arrive"});
    else if (!has_left(error))
      co_await refuse(refusal_of(error));
  };
  if (const auto [error, n] = co_await http::async_read_header(stream_, buffer_, parser, kNoThrow); error) {
    co_await fail(error);
    co_return false;
  }
  const auto& head = parser.get();
  const std::string_view method(head.method_string().data(), head.method_string().size());
  request.method = head.method() == http::verb::head ? "GET" : method;
  const std::string_view target(head.target().data(), head.target().size());
  if (!has_path(target)) {
    co_await refuse(Refused{400, "the path must begin with / and be printable"});
    co_return false;
  }
  request.path = target.substr(0, target.find('?'));
  for (const auto& field : head) {
    std::string name(field.name_string().data(), field.name_string().size());
    std::ranges::transform(name, name.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    request.headers.emplace_back(std::move(name), std::string(field.value().data(), field.value().size()));
  }
  if (const std::optional<Refused> odd = refusal_of(request, head.version())) {
    co_await refuse(*odd);
    co_return false;
  }
  if (std::optional<HttpReply> reply = server_.admit(request)) {
    co_await refuse(std::move(*reply));
    co_return false;
  }
  if (!parser.is_done() && beast::iequals(head[http::field::expect], "100-continue")) {
    const http::response<http::empty_body> go_on{http::status::continue_, 11};
    if (const auto [error, n] = co_await http::async_write(stream_, go_on, kNoThrow); error) co_return false;
  }
  while (!parser.is_done()) {
    const auto [error, n] = co_await http::async_read_some(stream_, buffer_, parser, kNoThrow);
    if (error) {
      co_await fail(error);
      co_return false;
    }
    if (!held.grow_to(parser.get().body().size(), server_.limits.bodies_bytes)) {
      co_await refuse(Refused{503, "too many large requests at once"});
      co_return false;
    }
  }
  request.body = std::move(parser.get().body());
  co_return true;
}

asio::awaitable<void> HttpServer::State::Connection::refuse(HttpReply reply) {
  const auto message = whole(std::move(reply), 11, false);
  stream_.expires_after(std::chrono::seconds(5));
  if (const auto [error, n] = co_await http::async_write(stream_, message, kNoThrow); !error)
    co_await linger(stream_);
}

// False: it could not be written, or the connection ends after it.
asio::awaitable<bool> HttpServer::State::Connection::write(HttpReply reply, const Parser& parser, bool keep) {
  Held held(server_.replies);
  if (!held.grow_to(reply.body.size() + reply.holds, server_.limits.replies_bytes)) {
    co_await refuse(Refused{503, "too many large replies at once"});
    co_return false;
  }
  const bool head_only = parser.get().method() == http::verb::head;
  const unsigned version = parser.get().version();
  // JSON has some three times the bytes of the numbers.
  const double bytes = double(reply.body.size()) + 3 * double(reply.holds);
  stream_.expires_after(from_seconds(server_.limits.write_seconds + bytes / server_.limits.write_rate));
  if (!reply.more) {
    auto message = whole(std::move(reply), version, keep);
    http::response_serializer<http::string_body> serializer(message);
    if (head_only) {
      const auto [error, n] = co_await http::async_write_header(stream_, serializer, kNoThrow);
      co_return !error && keep;
    }
    const auto [error, n] = co_await http::async_write(stream_, serializer, kNoThrow);
    co_return !error && keep;
  }
  const bool chunked = version >= 11;  // HTTP/1.0 has no chunks: there the end of the connection is the end
  keep = keep && chunked;
  http::response<http::empty_body> message;
  set_fields(message, reply, version, keep);
  message.chunked(chunked);
  http::response_serializer<http::empty_body> serializer(message);
  if (const auto [error, n] = co_await http::async_write_header(stream_, serializer, kNoThrow); error)
    co_return false;
  if (head_only) co_return keep;
  for (std::string piece = std::move(reply.body);; piece.clear()) {
    try {
      if (piece.empty()) piece = reply.more();
    } catch (const std::exception&) {
      co_return false;  // the reply stays without its end, which the client sees
    }
    if (piece.empty()) break;
    if (chunked) {
      const auto [error, n] =
          co_await asio::async_write(stream_, http::make_chunk(asio::buffer(piece)), kNoThrow);
      if (error) co_return false;
    } else {
      const auto [error, n] = co_await asio::async_write(stream_, asio::buffer(piece), kNoThrow);
      if (error) co_return false;
    }
  }
  if (!chunked) co_return false;
  const auto [error, n] = co_await asio::async_write(stream_, http::make_chunk_last(), kNoThrow);
  co_return !error && keep;
}

// Notices that the client closes the connection while its request is worked on.
void HttpServer::State::Connection::watch(const std::shared_ptr<Conversation>& exchange) {
  stream_.socket().async_wait(
      tcp::socket::wait_read,
      [self = shared_from_this(), weak = std::weak_ptr(exchange)](const error_code& error) {
        const auto waiting = weak.lock();
        if (!waiting || waiting->is_answered() || error) return;
        char byte;
        const ssize_t n = self->peek(byte);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) waiting->leave();
      });
}

asio::awaitable<void> HttpServer::State::Connection::converse() {
  buffer_.max_size(server_.limits.header_bytes + (64 << 10));
  for (bool keep = true; keep;) {
    Parser parser;
    HttpRequest request;
    Held held(server_.bodies);
    if (!co_await read(parser, request, held)) break;
    keep = parser.get().keep_alive();
    auto exchange = std::make_shared<Conversation>(shared_from_this(), std::move(request));
    current_ = exchange;
    if (buffer_.size() == 0) watch(exchange);
    stream_.expires_never();
    server_.handler(exchange);
    HttpReply reply = co_await exchange->wait();
    keep = co_await write(std::move(reply), parser, keep && !server_.draining);
  }
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
}

asio::awaitable<void> HttpServer::State::turn_away(beast::tcp_stream stream) {
  const auto message = whole(refusal(503, "too many connections"), 11, false);
  stream.expires_after(std::chrono::seconds(1));
  if (const auto [error, n] = co_await http::async_write(stream, message, kNoThrow); !error)
    co_await linger(stream);
  --refusing;
}

void HttpServer::State::take(tcp::socket socket) {
  ++accepted;
  error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error) return;  // gone already
  socket.set_option(tcp::no_delay(true), error);
  const std::string address = peer.address().to_string();
  const auto strand = socket.get_executor();
  std::shared_ptr<Connection> connection;
  {
    std::lock_guard lock(mutex);
    const auto same = of_address.find(address);
    if (connections.size() < limits.connections &&
        (same == of_address.end() || same->second < limits.connections_per_address)) {
      connection = std::make_shared<Connection>(*this, std::move(socket), address);
      connection->enroll();
    }
  }
  if (!connection) {
    ++refused;
    if (++refusing > kMostRefusals)
      --refusing;
    else
      asio::co_spawn(strand, turn_away(beast::tcp_stream(std::move(socket))), asio::detached);
    return;
  }
  asio::co_spawn(
      strand, [connection]() -> asio::awaitable<void> { co_await connection->converse(); },
      [](std::exception_ptr) {});  // memory that could not be had ends the connection, not the server
}

asio::awaitable<void> HttpServer::State::accept() {
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(asio::make_strand(io), kNoThrow);
    if (!acceptor.is_open()) break;
    if (!error) try {
        take(std::move(socket));
        continue;
      } catch (const std::exception&) {  // no memory for one more
      }
    // Out of descriptors, perhaps: a moment later there may be some.
    asio::steady_timer pause(accepting, std::chrono::milliseconds(50));
    co_await pause.async_wait(kNoThrow);
  }
}

HttpServer::HttpServer(HttpLimits limits, Handler handler, Refusal refusal, Admit admit)
    : state_(std::make_unique<State>(limits, std::move(handler), std::move(refusal), std::move(admit))) {}

HttpServer::~HttpServer() {
  for (int i = 0; !drain(0) && i < 200; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
}

uint16_t HttpServer::listen(const std::string& address, uint16_t port) {
  error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  if (error)
    throw Error(fmt::format("{} is not an IP address", address), "127.0.0.1, 0.0.0.0, ::1 or ::", "address");
  const tcp::endpoint endpoint(parsed, port);
  tcp::acceptor& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(4096, error);
  if (error)
    throw Error(fmt::format("cannot listen on {} port {}: {}", address, port, error.message()),
                "another `port`, or 0 for any that is free", "port");
  return acceptor.local_endpoint().port();
}

uint16_t HttpServer::adopt(int listening_socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  int listens = 0;
  socklen_t listens_size = sizeof listens;
  if (getsockname(listening_socket, reinterpret_cast<sockaddr*>(&name), &size) != 0 ||
      (name.ss_family != AF_INET && name.ss_family != AF_INET6) ||
      getsockopt(listening_socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || !listens)
    throw Error("the socket that was handed over is not one that listens for TCP",
                "ListenStream=127.0.0.1:8080 in the .socket unit");
  state_->acceptor.assign(name.ss_family == AF_INET ? tcp::v4() : tcp::v6(), listening_socket);
  return state_->acceptor.local_endpoint().port();
}

void HttpServer::start(int threads) {
  asio::co_spawn(state_->accepting, state_->accept(), asio::detached);
  for (int i = 0; i < threads; ++i)
    state_->threads.emplace_back([state = state_.get()] {
      const auto keep = asio::make_work_guard(state->io);
      for (;;) try {
          state->io.run();
          return;
        } catch (const std::exception&) {  // of memory that could not be had: that connection ends
        }
    });
}

void HttpServer::post(std::function<void()> work) { asio::post(state_->io, std::move(work)); }

bool HttpServer::drain(double limit) {
  state_->draining = true;
  asio::post(state_->accepting, [state = state_.get()] {
    error_code ignored;
    state->acceptor.close(ignored);
  });
  const auto end = Clock::now() + from_seconds(limit);
  const auto each = [&](void (State::Connection::*call)()) {
    std::vector<std::shared_ptr<State::Connection>> alive;
    {
      std::lock_guard lock(state_->mutex);
      for (State::Connection* c : state_->connections)
        if (auto one = c->weak_from_this().lock()) alive.push_back(std::move(one));
    }
    for (const auto& one : alive) ((*one).*call)();
    return alive.empty();
  };
  for (;;) {
    if (each(&State::Connection::close_if_idle)) return true;
    if (Clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  each(&State::Connection::cut);
  return false;
}

HttpCounts HttpServer::counts() const {
  std::lock_guard lock(state_->mutex);
  return {.accepted = state_->accepted,
          .refused = state_->refused,
          .bad = state_->bad,
          .open = state_->connections.size()};
}

}  // namespace bertie::serve
