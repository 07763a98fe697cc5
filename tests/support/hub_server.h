#pragma once
// A hub on this machine, for tests: it lists a model's files, describes and serves them as the real one does,
// and misbehaves on demand. Every request is remembered.
//
//   HubServer server;
//   server.add("org/model", "config.json", "{}");
//   server.intercept = [&](const HubRequest& r, HubReply& reply) { if (...) reply.cut_after = 100; };
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "io/sha.h"

namespace bertie::test {

struct HubRequest {
  std::string method, path;                    // the path as it was sent, query included
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

struct HubReply {
  int status = 200;
  std::map<std::string, std::string> headers = {};
  std::string body = {};
  size_t cut_after = SIZE_MAX;         // bytes of the body, then the connection ends
  size_t stall_after = SIZE_MAX;       // bytes of the body, then nothing more comes
  std::function<void()> at_half = {};  // called when half the body is out
  bool silent = false;                 // no reply at all, the connection stays open
};

class HubServer {
 public:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  HubServer() {
    // A proxy of the machine's is not for us.
    setenv("no_proxy", "127.0.0.1", 1);
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port to listen at");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HubServer() {
    stopping_ = true;
    thread_.join();
    for (std::thread& t : connections_) t.join();
    close(listener_);
  }
  HubServer(const HubServer&) = delete;

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

  void add(const std::string& model, const std::string& file, const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    models_[model][file] = bytes;
    blobs_[sha256(bytes)] = bytes;
  }
  // May change what is about to be sent. Called by several threads; set at any time.
  class Intercept {
   public:
    using Function = std::function<void(const HubRequest&, HubReply&)>;
    void operator=(Function function) {
      const std::lock_guard lock(mutex_);
      function_ = std::move(function);
    }
    Function get() const {
      const std::lock_guard lock(mutex_);
      return function_;
    }

   private:
    mutable std::mutex mutex_;
    Function function_;
  } intercept;
  std::string cdn;  // where large files are; empty: here

  std::vector<HubRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // How many requests began so: "GET /cdn/".
  size_t count(const std::string& beginning) const {
    size_t n = 0;
    for (const HubRequest& r : requests()) n += (r.method + " " + r.path).starts_with(beginning);
    return n;
  }
  static std::string sha256(const std::string& bytes) {
    io::Sha256 sha;
    sha.add(std::as_bytes(std::span(bytes)));
    return sha.hex();
  }
  static std::string git_sha1(const std::string& bytes) {
    io::Sha1 sha = io::git_blob_sha1(bytes.size());
    sha.add(std::as_bytes(std::span(bytes)));
    return sha.hex();
  }
  static bool is_large(const std::string& file) { return file.ends_with(".safetensors"); }

 private:
  void serve() {
    while (!stopping_) {
      pollfd wait{.fd = listener_, .events = POLLIN, .revents = 0};
      if (poll(&wait, 1, 20) <= 0) continue;
      const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection >= 0) connections_.emplace_back([this, connection] { talk(connection); });
    }
  }

  // One request, one reply, and the connection ends.
  void talk(int connection) {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == text.npos) {
      const ssize_t count = recv(connection, buffer, sizeof buffer, 0);
      if (count <= 0) return void(close(connection));
      text.append(buffer, size_t(count));
    }
    const HubRequest request = parse(text);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    HubReply reply = usual(request);
    if (const Intercept::Function function = intercept.get()) function(request, reply);
    if (reply.silent) return wait_for_the_end(connection);
    std::string head = fmt::format("HTTP/1.1 {} Whatever\r\nConnection: close\r\n", reply.status);
    if (!reply.headers.contains("Content-Length"))
      reply.headers["Content-Length"] = fmt::format("{}", reply.body.size());
    for (const auto& [name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
    send_all(connection, head + "\r\n");
    if (request.method != "HEAD") {
      const size_t size = std::min({reply.body.size(), reply.cut_after, reply.stall_after});
      send_all(connection, reply.body.substr(0, size / 2));
      if (reply.at_half) reply.at_half();
      send_all(connection, reply.body.substr(size / 2, size - size / 2));
      if (reply.stall_after < reply.body.size()) return wait_for_the_end(connection);
    }
    close(connection);
  }

  void wait_for_the_end(int connection) {
    pollfd wait{.fd = connection, .events = POLLIN, .revents = 0};
    while (!stopping_ && poll(&wait, 1, 20) == 0) continue;
    close(connection);
  }

  static void send_all(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      bytes.remove_prefix(size_t(count));
    }
  }

  static HubRequest parse(const std::string& text) {
    HubRequest request;
    const size_t first = text.find(' '), second = text.find(' ', first + 1);
    request.method = text.substr(0, first);
    request.path = text.substr(first + 1, second - first - 1);
    for (size_t begin = text.find("\r\n") + 2; begin < text.size();) {
      const size_t end = text.find("\r\n", begin);
      const std::string line = text.substr(begin, end - begin);
      begin = end + 2;
      const size_t colon = line.find(": ");
      if (colon == line.npos) break;
      std::string name = line.substr(0, colon);
      for (char& c : name) c = char(tolower(c));
      request.headers[name] = line.substr(colon + 2);
    }
    return request;
  }

  // What a hub that behaves would say.
  HubReply usual(const HubRequest& request) const {
    const std::string path = request.path.substr(0, request.path.find('?'));
    if (path.starts_with("/cdn/")) {
      const auto blob = blobs_.find(path.substr(5));
      return blob == blobs_.end() ? HubReply{.status = 404} : content(request, blob->second);
    }
    for (const auto& [model, files] : models_) {
      if (path.starts_with("/api/models/" + model + "/revision/")) {
        const std::string revision = path.substr(path.rfind('/') + 1);
        if (revision != "main" && revision != kCommit)
          return {.status = 404, .headers = {{"X-Error-Code", "RevisionNotFound"}}};
        nlohmann::json listing = {{"id", model}, {"sha", kCommit}, {"siblings", nlohmann::json::array()}};
        for (const auto& [file, bytes] : files)
          listing["siblings"].push_back({{"rfilename", file}, {"size", bytes.size()}});
        return {.headers = {{"Content-Type", "application/json"}}, .body = listing.dump()};
      }
      const std::string resolve = "/" + model + "/resolve/" + kCommit + "/";
      if (!path.starts_with(resolve)) continue;
      const auto file = files.find(path.substr(resolve.size()));
      if (file == files.end()) return {.status = 404, .headers = {{"X-Error-Code", "EntryNotFound"}}};
      HubReply reply;
      if (is_large(file->first)) {
        const std::string sum = sha256(file->second);
        reply = {.status = 302,
                 .headers = {{"Location", fmt::format("{}/cdn/{}", cdn, sum)},
                             {"X-Linked-Etag", '"' + sum + '"'},
                             {"X-Linked-Size", fmt::format("{}", file->second.size())}},
                 .body = "Found. Redirecting"};
      } else {
        reply = content(request, file->second);
        reply.headers["ETag"] = '"' + git_sha1(file->second) + '"';
      }
      reply.headers["X-Repo-Commit"] = kCommit;
      return reply;
    }
    return {.status = 401, .headers = {{"X-Error-Code", "RepoNotFound"}}, .body = "Repository not found"};
  }

  static HubReply content(const HubRequest& request, const std::string& bytes) {
    const std::string range = request.header("range");
    if (range.empty()) return {.body = bytes};
    const size_t from = std::stoul(range.substr(range.find('=') + 1));
    if (from >= bytes.size()) return {.status = 416};
    return {
        .status = 206,
        .headers = {{"Content-Range", fmt::format("bytes {}-{}/{}", from, bytes.size() - 1, bytes.size())}},
        .body = bytes.substr(from)};
  }

  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::map<std::string, std::map<std::string, std::string>> models_;
  std::map<std::string, std::string> blobs_;
  mutable std::mutex mutex_;
  std::vector<HubRequest> requests_;
  std::thread thread_;
  std::vector<std::thread> connections_;
};

}  // namespace bertie::test
