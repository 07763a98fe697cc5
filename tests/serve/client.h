#pragma once
// A client that can say anything to a server on this machine, well-formed or not.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bertie::test {

struct Reply {
  int status = 0;                                   // 0: none came
  std::map<std::string, std::string> headers = {};  // names in small letters
  std::string body = {};

  nlohmann::json json() const { return nlohmann::json::parse(body); }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// One connection.
class Client {
 public:
  explicit Client(uint16_t port) {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET, address.sin_port = htons(port),
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~Client() { hang_up(); }
  Client(const Client&) = delete;

  void hang_up() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }
  // False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(size_t(n));
    }
    return true;
  }
  void send_request(std::string_view method, std::string_view path, std::string_view body = {},
                    std::string_view headers = {}) {
    send(fmt::format("{} {} HTTP/1.1\r\nHost: here\r\n{}Content-Length: {}\r\n\r\n{}", method, path, headers,
                     body.size(), body));
  }
  // The next reply; interim ones (100) are passed over.
  Reply receive(bool to_head = false, double seconds = 20) {
    deadline_ =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(seconds));
    Reply reply;
    std::string line;
    do {
      reply.headers.clear();
      if (!read_line(line) || !line.starts_with("HTTP/1.")) return {};
      reply.status = std::stoi(line.substr(9, 3));
      while (read_line(line) && !line.empty()) {
        const size_t colon = line.find(':');
        std::string name = line.substr(0, colon);
        for (char& c : name) c = char(std::tolower(c));
        reply.headers[name] = line.substr(line.find_first_not_of(' ', colon + 1));
      }
    } while (reply.status == 100);
    if (to_head || reply.status == 204) return reply;
    if (reply.header("transfer-encoding") == "chunked") {
      for (;;) {
        if (!read_line(line)) return {};
        const size_t size = std::stoul(line, nullptr, 16);
        std::string chunk;
        if (!read(size, chunk) || !read_line(line)) return {};
        if (size == 0) break;
        reply.body += chunk;
      }
    } else if (!reply.header("content-length").empty()) {
      if (!read(std::stoul(reply.header("content-length")), reply.body)) return {};
    } else {
      while (fill()) {
      }
      reply.body = std::move(buffer_);
    }
    return reply;
  }
  // Whether the other side closes, within this time.
  bool is_closed(double seconds = 5) {
    deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(int(1000 * seconds));
    while (fill()) {
    }
    return closed_;
  }

 private:
  bool fill() {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    pollfd poller{socket_, POLLIN, 0};
    if (left.count() <= 0 || poll(&poller, 1, int(left.count())) <= 0) return false;
    char some[65536];
    const ssize_t n = recv(socket_, some, sizeof some, 0);
    if (n <= 0) return closed_ = true, false;
    buffer_.append(some, size_t(n));
    return true;
  }
  bool read(size_t size, std::string& out) {
    while (buffer_.size() < size)
      if (!fill()) return false;
    out = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return true;
  }
  bool read_line(std::string& line) {
    size_t end;
    while ((end = buffer_.find("\r\n")) == buffer_.npos)
      if (!fill()) return false;
    line = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    return true;
  }

  int socket_ = -1;
  bool closed_ = false;
  std::string buffer_;
  std::chrono::steady_clock::time_point deadline_;
};

inline Reply post(uint16_t port, std::string_view path, std::string_view body,
                  std::string_view headers = {}) {
  Client client(port);
  client.send_request("POST", path, body, headers);
  return client.receive();
}

inline Reply get(uint16_t port, std::string_view path, std::string_view headers = {}) {
  Client client(port);
  client.send_request("GET", path, {}, headers);
  return client.receive();
}

}  // namespace bertie::test
