#pragma once
// Models behind HTTP: OpenAI's embeddings, text-embeddings-inference, Hugging Face's inference, and
// attention. docs/serving.md has the routes; GET /openapi.json describes them.
//
//   bertie::Server server({.models = {{"mini", "all-MiniLM-L6-v2"}}, .port = 8080});
//   …                      // it answers, on threads of its own
//   server.drain();        // what has come is answered, nothing more is taken
//
// What a text gets back does not depend on what else is asked at the same time, bit for bit.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bertie/export.h"
#include "bertie/files.h"
#include "bertie/weight_format.h"

namespace bertie {

// How much a client may ask for, and how many may. Whatever is beyond is refused with a reason.
struct ServeLimits {
  size_t header_bytes = 8 << 10;
  size_t body_bytes = 2 << 20;
  size_t connections = 4096;
  size_t connections_per_address = 1024;
  double request_seconds = 10;  // from a request's first byte until all of it has come
  double idle_seconds = 60;     // between requests of a connection
  double write_seconds = 30;    // for a client to take its reply,
  double write_rate = 100'000;  // and a second more for so many bytes of it
  size_t queue = 1024;          // requests that wait for a model
  double queue_seconds = 30;    // after which one that still waits is given up
  size_t pass_tokens = 512;     // that go through a model together
  size_t inputs = 2048;         // texts of a request
  size_t tokens = 131'072;      // of these
  size_t top_k = 1000;          // answers of any kind
};

struct ServeOptions {
  struct NamedModel {
    std::string name;
    ModelFiles files;
  };
  std::vector<NamedModel> models =
      {};  // the first that can do what is asked is the default. Empty: the embedded ones
  // Runs of training, by name: folders with a log.jsonl, whose curves the page shows while it grows.
  std::vector<std::pair<std::string, std::filesystem::path>> runs = {};
  std::string address = "127.0.0.1";  // an IP address; 0.0.0.0 and :: are all of them
  uint16_t port = 8080;               // 0: any that is free
  int socket = -1;                    // one that listens already (systemd's), instead of address and port
  int threads = 0;                    // that compute; 0: one for every core
  size_t max_length = 0;              // tokens of a text; 0: what the model's files say
  WeightFormat format = WeightFormat::kFloat32;
  std::string keys_file =
      {};  // bearer keys, one a line; a request needs one of them. Read again when it changes
  std::string cors_origin = {};  // of pages that may call from a browser; "*": any. Empty: none
  ServeLimits limits = {};
  // Told of each request that was answered, as a line of JSON, from any thread.
  std::function<void(std::string_view)> log = {};
};

// Throws Error where a model cannot be loaded, or the address cannot be had. Thread-safe.
class BERTIE_API Server {
 public:
  explicit Server(ServeOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  std::vector<std::string> models() const;  // their names
  // Loads the models' files again, and then uses these; requests that have begun end with what they began
  // with. Error: all stays as it was.
  void reload();
  // Takes no more, and answers what has come: /ready says no, connections end after their reply. False: some
  // were cut after `seconds`.
  bool drain(double seconds = 30);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bertie
