#pragma once
// What routes work with: the request as a Call, and the Service with its models, queue and counters.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bertie/model.h"
#include "bertie/serve.h"
#include "serve/async.h"
#include "serve/attention_cache.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/queue.h"
#include "serve/request.h"
#include "serve/training.h"

namespace bertie::serve {

inline constexpr int kHttpThreads = 2;  // that read, parse, tokenize and write

// How errors look to clients of a kind.
enum class ErrorStyle { kOpenAi, kTei, kHuggingFace };  // our own routes have TEI's

struct Call;
struct Route {
  std::string_view method, path;  // a path ending in / takes what follows, too
  Async<HttpReply> (*run)(Call&);
  ErrorStyle style = ErrorStyle::kTei;
  bool open = false;      // needs no key
  bool has_body = false;  // a JSON object
};
std::span<const Route> openai_routes();
std::span<const Route> tei_routes();
std::span<const Route> pipeline_routes();
std::span<const Route> inside_routes();  // attention, explain, senses, score, next-sentence
std::span<const Route> heads_routes();   // rollout, gradient, heads
std::span<const Route> see_routes();     // atlas, mean, mechanisms
std::span<const Route> training_routes();
std::span<const Route> page_routes();    // the page at /
std::span<const Route> status_routes();  // health, metrics, openapi.json

struct Service {
  ServeOptions options;
  RequestLimits limits;
  Metrics metrics;
  Models models;
  AttentionCache attention_cache;
  TrainingLogs training;
  std::unique_ptr<Queue> queue;
  std::function<void(std::function<void()>)> post;
  std::function<bool()> is_ready;
  std::function<std::string()> metrics_text;
};

// One request on its way through a route.
struct Call {
  Service& service;
  std::shared_ptr<Exchange> exchange;
  const Route& route;
  nlohmann::json body;     // an empty object where the route has none
  std::string below = {};  // what followed the route's path
  std::string request_id = {};

  // For the headers of the reply, and the counters.
  size_t characters = 0, tokens = 0, inputs = 0;
  double tokenize_seconds = 0;
  Timing timing = {};

  const HttpRequest& request() const { return exchange->request(); }
  Fields fields() const { return Fields(body); }
  // Inputs through a model, together with what other requests want of it. `tokens` are those of each input,
  // which are counted and checked here.
  template <class Output, class Input, class Compute>
  Async<std::vector<Output>> run(ModelPointer model, std::string kind, std::vector<Input> all,
                                 std::vector<size_t> tokens_of, Compute compute);
  // Something that shares with nobody.
  template <class Output, class Compute>
  Async<Output> run_alone(ModelPointer model, size_t tokens_of, Compute compute);

  void count(std::string_view text);  // its characters
  void check_tokens(std::span<const size_t> tokens_of);
};

HttpReply json_reply(std::string body);

template <class Output, class Input, class Compute>
Async<std::vector<Output>> Call::run(ModelPointer model, std::string kind, std::vector<Input> all,
                                     std::vector<size_t> tokens_of, Compute compute) {
  check_tokens(tokens_of);
  Pass<Input, Output> pass(*service.queue, service.post, std::move(all), std::move(compute));
  pass.model = std::move(model), pass.kind = std::move(kind), pass.tokens = std::move(tokens_of);
  pass.client = exchange;
  std::vector<Output> out = co_await pass;
  timing.queue += pass.timing.queue, timing.compute += pass.timing.compute;
  co_return out;
}

template <class Output, class Compute>
Async<Output> Call::run_alone(ModelPointer model, size_t tokens_of, Compute compute) {
  // Lists in braces inside co_await are more than g++ 12 can compile.
  std::vector<int> input(1);
  std::vector<size_t> length(1, tokens_of);
  const auto compute_one = [compute = std::move(compute)](const TextModel& m, std::span<const int>) {
    std::vector<Output> one;
    one.push_back(compute(m));
    return one;
  };
  std::vector<Output> out =
      co_await run<Output, int>(std::move(model), "", std::move(input), std::move(length), compute_one);
  co_return std::move(out[0]);
}

}  // namespace bertie::serve
