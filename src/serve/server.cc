// The service put together: connections, routes, keys, models, queue.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <random>

#include "bertie/error.h"
#include "bertie/json_writer.h"
#include "bertie/serve.h"
#include "serve/keys.h"
#include "serve/service.h"

namespace bertie {

using namespace serve;

namespace {

constexpr int kRetrySeconds = 1;

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (std::span<const Route> some :
       {openai_routes(), tei_routes(), pipeline_routes(), inside_routes(), heads_routes(), see_routes(),
        training_routes(), page_routes(), status_routes()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

// TEI's words.
std::string_view tei_type(int status, std::string_view field) {
  switch (status) {
    case 400:
      return field.empty() ? "Validation" : "Empty";
    case 424:
    case 500:
      return "Backend";
    case 429:
      return "Overloaded";
    case 503:
      return "Unhealthy";
    default:
      return "Validation";
  }
}

std::string_view openai_type(int status) {
  return status == 401   ? "authentication_error"
         : status == 429 ? "rate_limit_error"
         : status >= 500 ? "server_error"
                         : "invalid_request_error";
}

HttpReply error_reply(ErrorStyle style, int status, std::string_view what, std::string_view field = {}) {
  std::string message(what);
  std::erase(message, '`');
  JsonWriter out;
  out.begin_object();
  if (style == ErrorStyle::kOpenAi) {
    out.key("error").begin_object().field("message", message).field("type", openai_type(status)).key("param");
    if (field.empty())
      out.null();
    else
      out.value(field);
    out.key("code");
    if (status == 404 && field == "model")
      out.value("model_not_found");
    else if (status == 401)
      out.value("invalid_api_key");
    else
      out.null();
    out.end_object();
  } else {
    out.field("error", message);
    if (style != ErrorStyle::kHuggingFace) out.field("error_type", tei_type(status, field));
    if (!field.empty()) out.field("field", field);
  }
  out.end_object();
  HttpReply reply{.status = status, .body = out.take()};
  if (status == 429 || status == 503)
    reply.headers.emplace_back("Retry-After", std::to_string(kRetrySeconds));
  if (status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

// What a client may give as its request's name: short, and nothing that could be more than a word in a log.
bool is_request_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

std::string new_request_id() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{:016x}", random());
}

// 00-<32 hex>-<16 hex>-<2 hex> (W3C trace context).
bool is_traceparent(std::string_view s) {
  if (s.size() != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-') return false;
  return std::ranges::all_of(
      s, [](char c) { return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// %41 is A. Nothing where it is no such code, or a byte that names do not have.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      unsigned value = 0;
      if (i + 2 >= text.size() ||
          std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr != text.data() + i + 3 ||
          value < 0x20)
        return {};
      c = char(value), i += 2;
    }
    out += c;
  }
  return out;
}

bool takes_more(const Route& route) { return route.path.ends_with('/') && route.path != "/"; }

bool matches(const Route& route, std::string_view path) {
  return takes_more(route) ? path.size() > route.path.size() && path.starts_with(route.path)
                           : path == route.path;
}

HttpLimits http_limits(const ServeLimits& l) {
  return {.header_bytes = l.header_bytes,
          .body_bytes = l.body_bytes,
          .connections = l.connections,
          .connections_per_address = l.connections_per_address,
          .request_seconds = l.request_seconds,
          .idle_seconds = l.idle_seconds,
          .write_seconds = l.write_seconds,
          .write_rate = l.write_rate};
}

}  // namespace

struct Server::State {
  explicit State(ServeOptions options);
  ~State() { service.queue->stop(); }  // gives up what waits, while there is still somebody to tell

  // Nothing, or a refusal: a key is needed, and asked for before a body is read.
  std::optional<HttpReply> admit(const HttpRequest& request);
  void handle(std::shared_ptr<Exchange> exchange);
  const Route* find(const HttpRequest& request, std::string& below) const;
  void finish(const std::shared_ptr<Call>& call, HttpReply reply);
  HttpReply failed(const Call& call, std::exception_ptr error) const;
  void add_common_headers(const HttpRequest& request, HttpReply& reply) const;

  Service service;
  Keys keys;
  const std::vector<Route> routes = all_routes();
  std::atomic<bool> ready = true;
  uint16_t port = 0;
  std::unique_ptr<HttpServer> http;  // the last, so that it ends first
};

Server::State::State(ServeOptions given) : keys(given.keys_file) {
  service.options = std::move(given);
  const ServeOptions& options = service.options;
  const ServeLimits& limits = options.limits;
  service.limits = {.inputs = limits.inputs, .tokens = limits.tokens, .top_k = limits.top_k};
  service.models.load(options);
  service.training = training_logs(options);
  const int workers = service.models.all().front()->all.threads();
  service.queue = std::make_unique<Queue>(
      QueueLimits{
          .requests = limits.queue, .pass_tokens = limits.pass_tokens, .wait_seconds = limits.queue_seconds},
      workers, [this](size_t requests, size_t tokens) { service.metrics.pass(requests, tokens); });
  http = std::make_unique<HttpServer>(
      http_limits(limits), [this](std::shared_ptr<Exchange> exchange) { handle(std::move(exchange)); },
      [](int status, std::string_view why) { return error_reply(ErrorStyle::kTei, status, why); },
      [this](const HttpRequest& request) { return admit(request); });
  service.post = [this](std::function<void()> work) { http->post(std::move(work)); };
  service.is_ready = [this] { return ready.load(); };
  service.metrics_text = [this] {
    const HttpCounts counts = http->counts();
    const Queue::Load load = service.queue->load();
    return service.metrics.text({.queue_requests = load.requests,
                                 .queue_tokens = load.tokens,
                                 .connections = counts.open,
                                 .accepted = counts.accepted,
                                 .refused = counts.refused,
                                 .bad = counts.bad});
  };
  port = options.socket >= 0 ? http->adopt(options.socket) : http->listen(options.address, options.port);
  http->start(kHttpThreads);
}

const Route* Server::State::find(const HttpRequest& request, std::string& below) const {
  std::string methods;  // that this path takes
  for (const Route& route : routes) {
    if (!matches(route, request.path)) continue;
    methods +=
        fmt::format("{}{}", methods.empty() ? "" : ", ", route.method == "GET" ? "GET, HEAD" : route.method);
    if (route.method != request.method) continue;
    if (takes_more(route)) {
      const auto decoded = percent_decoded(std::string_view(request.path).substr(route.path.size()));
      if (!decoded || decoded->empty()) break;
      below = *decoded;
    }
    return &route;
  }
  if (!methods.empty() && methods.find(request.method) == methods.npos)
    throw RequestError(405, fmt::format("this path takes {}", methods), {}, methods);
  throw RequestError(404, "there is nothing here; /openapi.json lists what there is");
}

void Server::State::add_common_headers(const HttpRequest& request, HttpReply& reply) const {
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  if (const std::string_view trace = request.header("traceparent"); is_traceparent(trace))
    for (const char* name : {"traceparent", "tracestate"})
      if (const std::string_view value = request.header(name); !value.empty())
        reply.headers.emplace_back(name, std::string(value));
  const std::string& allowed = service.options.cors_origin;
  if (const std::string_view origin = request.header("origin"); !allowed.empty() && !origin.empty())
    if (allowed == "*" || allowed == origin) {
      reply.headers.emplace_back("Access-Control-Allow-Origin", allowed);
      reply.headers.emplace_back("Vary", "Origin");
    }
}

std::optional<HttpReply> Server::State::admit(const HttpRequest& request) {
  if (keys.allow(request.header("authorization"))) return {};
  if (request.method == "OPTIONS" && !service.options.cors_origin.empty()) return {};
  ErrorStyle style = ErrorStyle::kTei;
  for (const Route& route : routes) {
    if (!matches(route, request.path)) continue;
    if (route.open) return {};
    style = route.style;
  }
  return error_reply(style, 401, "a key is needed: Authorization: Bearer KEY");
}

void Server::State::handle(std::shared_ptr<Exchange> exchange) {
  const HttpRequest& request = exchange->request();
  static constexpr Route kNone{.method = "", .path = "", .run = nullptr, .style = ErrorStyle::kTei};
  std::string below;
  const Route* route = &kNone;
  std::exception_ptr error;
  try {
    if (request.method == "OPTIONS" && !service.options.cors_origin.empty()) {
      HttpReply reply{.status = 204, .body = {}, .type = "text/plain"};
      add_common_headers(request, reply);
      reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
      reply.headers.emplace_back("Access-Control-Allow-Headers",
                                 "authorization, content-type, x-request-id, traceparent");
      reply.headers.emplace_back("Access-Control-Max-Age", "600");
      return exchange->reply(std::move(reply));
    }
    route = find(request, below);
  } catch (...) {
    error = std::current_exception();
  }
  auto call = std::make_shared<Call>(Call{.service = service,
                                          .exchange = exchange,
                                          .route = *route,
                                          .body = nlohmann::json::object(),
                                          .below = std::move(below)});
  const std::string_view id = request.header("x-request-id");
  call->request_id = is_request_id(id) ? std::string(id) : new_request_id();
  if (!error) try {
      if (route->has_body) {
        call->body = parse_body(request.body, service.limits);
        exchange->request().body = {};
      }
      // Where even the reply cannot be made, for want of memory, a short one goes out.
      const auto guarded = [exchange](const auto& work) {
        try {
          work();
        } catch (const std::exception&) {
          exchange->reply({.status = 500, .body = {}});
        }
      };
      start(
          route->run(*call),
          [this, call, guarded](HttpReply reply) { guarded([&] { finish(call, std::move(reply)); }); },
          [this, call, guarded](std::exception_ptr why) {
            guarded([&] { finish(call, failed(*call, why)); });
          });
      return;
    } catch (...) {
      error = std::current_exception();
    }
  finish(call, failed(*call, error));
}

HttpReply Server::State::failed(const Call& call, std::exception_ptr error) const {
  const ErrorStyle style = call.route.style;
  try {
    std::rethrow_exception(error);
  } catch (const RequestError& e) {
    HttpReply reply = error_reply(style, e.status, e.what(), e.field);
    if (!e.allow.empty()) reply.headers.emplace_back("Allow", e.allow);
    return reply;
  } catch (const Error& e) {  // the library's: what the input or an option is not fit for
    return error_reply(
        style, 422,
        e.hint().empty() ? std::string(e.what()) : fmt::format("{} (try: {})", e.what(), e.hint()),
        e.field());
  } catch (const std::bad_alloc&) {
    return error_reply(style, 503, "out of memory");
  } catch (const std::exception&) {
    return error_reply(style, 500, "something went wrong inside");
  }
}

void Server::State::finish(const std::shared_ptr<Call>& call, HttpReply reply) {
  const HttpRequest& request = call->request();
  const double total = to_seconds(Clock::now() - request.arrived);
  const auto add = [&](const char* name, std::string value) {
    reply.headers.emplace_back(name, std::move(value));
  };
  const auto milliseconds = [](double s) { return fmt::format("{:.0f}", 1000 * s); };  // whole ones, as TEI
  add("x-request-id", call->request_id);
  if (call->inputs > 0) {
    add("x-compute-type", "cpu");
    add("x-compute-time", milliseconds(total));
    add("x-compute-characters", std::to_string(call->characters));
    add("x-compute-tokens", std::to_string(call->tokens));
    add("x-total-time", milliseconds(total));
    add("x-tokenization-time", milliseconds(call->tokenize_seconds));
    add("x-queue-time", milliseconds(call->timing.queue));
    add("x-inference-time", milliseconds(call->timing.compute));
  }
  add_common_headers(request, reply);
  service.metrics.request({.route = call->route.path,
                           .status = reply.status,
                           .total = total,
                           .tokenize = call->tokenize_seconds,
                           .queue = call->timing.queue,
                           .compute = call->timing.compute,
                           .inputs = call->inputs,
                           .tokens = call->tokens});
  if (service.options.log) {
    JsonWriter line;
    line.begin_object().field(
        "time", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
    line.field("request_id", call->request_id)
        .field("address", request.address)
        .field("method", request.method);
    line.field("path", request.path).field("status", reply.status).field("seconds", total);
    line.field("queue_seconds", call->timing.queue).field("compute_seconds", call->timing.compute);
    line.field("inputs", call->inputs).field("tokens", call->tokens);
    if (const std::string_view trace = request.header("traceparent"); is_traceparent(trace))
      line.field("traceparent", trace);
    line.end_object();
    service.options.log(line.take());
  }
  call->exchange->reply(std::move(reply));
}

Server::Server(ServeOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Server::~Server() = default;

uint16_t Server::port() const { return state_->port; }

std::vector<std::string> Server::models() const {
  std::vector<std::string> names;
  for (const ModelPointer& model : state_->service.models.all()) names.push_back(model->name);
  return names;
}

void Server::reload() {
  state_->service.models.load(state_->service.options);
  state_->keys.reload();
}

bool Server::drain(double seconds) {
  state_->ready = false;
  return state_->http->drain(seconds);
}

}  // namespace bertie
