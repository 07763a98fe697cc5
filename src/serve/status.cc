// How the service is: for people, for supervisors, for Prometheus.
#include "bertie/json_writer.h"
#include "serve/openapi.h"
#include "serve/service.h"

namespace bertie::serve {
namespace {

// The process lives. That it can work now is /ready's to say.
Async<HttpReply> live(Call&) { co_return HttpReply{.body = "alive\n", .type = "text/plain"}; }

Async<HttpReply> ready(Call& call) {
  if (!call.service.is_ready()) throw RequestError(503, "the server stops");
  co_return HttpReply{.body = "ready\n", .type = "text/plain"};
}

Async<HttpReply> metrics(Call& call) {
  co_return HttpReply{.body = call.service.metrics_text(), .type = "text/plain; version=0.0.4"};
}

Async<HttpReply> openapi(Call&) { co_return json_reply(std::string(openapi_document())); }

constexpr Route kRoutes[] = {
    {.method = "GET", .path = "/live", .run = live, .open = true},
    {.method = "GET", .path = "/ready", .run = ready, .style = ErrorStyle::kTei, .open = true},
    {.method = "GET", .path = "/health", .run = ready, .style = ErrorStyle::kTei, .open = true},
    {.method = "GET", .path = "/metrics", .run = metrics},
    {.method = "GET", .path = "/openapi.json", .run = openapi, .open = true},
};

}  // namespace

std::span<const Route> status_routes() { return kRoutes; }

}  // namespace bertie::serve
