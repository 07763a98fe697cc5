// OpenAI's API, as far as it is about vectors: /v1/embeddings and /v1/models.
#include <fmt/format.h>

#include "bertie/json_writer.h"
#include "io/base64.h"
#include "serve/texts.h"

namespace bertie::serve {
namespace {

Async<HttpReply> embeddings(Call& call) {
  const Fields fields = call.fields();
  const ModelPointer model = call.service.models.with_vectors(fields.string("model", ""));
  const std::string format = fields.choice("encoding_format", "float", {"float", "base64"});
  const size_t dimensions = fields.whole("dimensions", 0, 1, 1'000'000);
  std::vector<Ids> ids = ids_of(call, model->all, fields.at("input"), "input", {.allowed = true});
  const auto rows =
      co_await vectors(call, model, std::move(ids), {.normalize = true, .dimensions = dimensions});
  JsonWriter out;
  out.begin_object().field("object", "list").key("data").begin_array();
  for (size_t i = 0; i < rows.size(); ++i) {
    out.begin_object().field("object", "embedding").field("index", i).key("embedding");
    if (format == "base64")
      out.value(io::base64(std::as_bytes(std::span(rows[i]))));
    else
      out.value(rows[i]);
    out.end_object();
  }
  out.end_array().field("model", model->name).key("usage").begin_object();
  out.field("prompt_tokens", call.tokens).field("total_tokens", call.tokens).end_object().end_object();
  co_return json_reply(out.take());
}

void write_model(JsonWriter& out, const ServedModel& model) {
  out.begin_object().field("id", model.name).field("object", "model").field("created", model.loaded_at);
  out.field("owned_by", "bertie").end_object();
}

Async<HttpReply> list_models(Call& call) {
  JsonWriter out;
  out.begin_object().field("object", "list").key("data").begin_array();
  for (const ModelPointer& model : call.service.models.all()) write_model(out, *model);
  out.end_array().end_object();
  co_return json_reply(out.take());
}

Async<HttpReply> one_model(Call& call) {
  JsonWriter out;
  write_model(out, *call.service.models.find(call.below));
  co_return json_reply(out.take());
}

constexpr Route kRoutes[] = {
    {.method = "POST",
     .path = "/v1/embeddings",
     .run = embeddings,
     .style = ErrorStyle::kOpenAi,
     .has_body = true},
    {.method = "POST",
     .path = "/embeddings",
     .run = embeddings,
     .style = ErrorStyle::kOpenAi,
     .has_body = true},
    {.method = "GET", .path = "/v1/models", .run = list_models, .style = ErrorStyle::kOpenAi},
    {.method = "GET", .path = "/v1/models/", .run = one_model, .style = ErrorStyle::kOpenAi},
};

}  // namespace

std::span<const Route> openai_routes() { return kRoutes; }

}  // namespace bertie::serve
