#include "serve/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>

namespace bertie::serve {
namespace {

using namespace prometheus;
using Buckets = Histogram::BucketBoundaries;

const Buckets kSeconds{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30};
const Buckets kTokens{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536};
const Buckets kRequests{1, 2, 4, 8, 16, 32, 64, 128, 256};

}  // namespace

struct Metrics::State {
  mutable Registry registry;
  Family<Counter>& requests = counter("te_request_count", "Requests");
  Family<Counter>& successes = counter("te_request_success", "Requests that were done");
  Family<Counter>& failures = counter("te_request_failure", "Requests that were not, by status");
  Counter& inputs = counter("bertie_inputs_total", "Texts").Add({});
  Counter& tokens = counter("bertie_tokens_total", "Tokens").Add({});
  Histogram& total =
      histogram("te_request_duration", "Seconds from a request's first byte to its reply", kSeconds);
  Histogram& tokenize = histogram("te_request_tokenization_duration", "Seconds of tokenizing", kSeconds);
  Histogram& queue = histogram("te_request_queue_duration", "Seconds in the queue", kSeconds);
  Histogram& compute = histogram("te_request_inference_duration", "Seconds of computing", kSeconds);
  Histogram& pass_requests = histogram("te_batch_next_size", "Requests that shared a pass", kRequests);
  Histogram& pass_tokens = histogram("te_batch_next_tokens", "Tokens of a pass", kTokens);
  Gauge& queue_requests = gauge("te_queue_size", "Requests that wait");
  Gauge& queue_tokens = gauge("bertie_queue_tokens", "Tokens that wait");
  Gauge& connections = gauge("bertie_connections", "Connections that are open");
  Counter& accepted = counter("bertie_connections_accepted_total", "Connections").Add({});
  Counter& refused = counter("bertie_connections_refused_total", "Connections beyond the limit").Add({});
  Counter& bad =
      counter("bertie_requests_bad_total", "Requests that were not HTTP, too large or too slow").Add({});
  mutable std::mutex reading;

  Family<Counter>& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry);
  }
  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
  }
  Gauge& gauge(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::request(const Request& r) {
  const Labels route{{"method", std::string(r.route)}};
  state_->requests.Add(route).Increment();
  if (r.status < 400)
    state_->successes.Add(route).Increment();
  else
    state_->failures.Add({{"err", std::to_string(r.status)}}).Increment();
  state_->inputs.Increment(double(r.inputs));
  state_->tokens.Increment(double(r.tokens));
  state_->total.Observe(r.total);
  if (r.inputs == 0) return;
  state_->tokenize.Observe(r.tokenize);
  state_->queue.Observe(r.queue);
  state_->compute.Observe(r.compute);
}

void Metrics::pass(size_t requests, size_t tokens) {
  state_->pass_requests.Observe(double(requests));
  state_->pass_tokens.Observe(double(tokens));
}

std::string Metrics::text(const Now& now) const {
  state_->queue_requests.Set(double(now.queue_requests));
  state_->queue_tokens.Set(double(now.queue_tokens));
  state_->connections.Set(double(now.connections));
  std::lock_guard lock(state_->reading);
  const auto raise = [](Counter& counter, uint64_t to) { counter.Increment(double(to) - counter.Value()); };
  raise(state_->accepted, now.accepted), raise(state_->refused, now.refused), raise(state_->bad, now.bad);
  return TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace bertie::serve
