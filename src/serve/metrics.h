#pragma once
// Counters for Prometheus, under the names of text-embeddings-inference where it has them. prometheus-cpp is
// behind this file.
#include <memory>
#include <string>
#include <string_view>

namespace bertie::serve {

class Metrics {
 public:
  Metrics();
  ~Metrics();

  // Seconds of one request.
  struct Request {
    std::string_view route;
    int status = 200;
    double total = 0, tokenize = 0, queue = 0, compute = 0;
    size_t inputs = 0, tokens = 0;
  };
  void request(const Request& request);
  void pass(size_t requests, size_t tokens);

  // What is there now, asked for when it is read.
  struct Now {
    size_t queue_requests = 0, queue_tokens = 0, connections = 0;
    uint64_t accepted = 0, refused = 0, bad = 0;
  };
  std::string text(const Now& now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie::serve
