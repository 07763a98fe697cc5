// What attention adds up to, and what it does to a prediction: rollout, and gradient × attention. What heads
// do over many sentences, where a model's files say it.
#include "serve/heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "bertie/explain.h"
#include "bertie/json_writer.h"

namespace bertie::serve {

using nlohmann::json;

std::vector<WhichHead> heads_off_of(const Fields& fields, const Config& config) {
  std::vector<WhichHead> heads;
  if (!fields.has("without")) return heads;
  const std::string field = fields.path("without");
  const auto wrong = [&] {
    throw RequestError(422,
                       fmt::format("`{}` must be a list of [layer, head], from [1, 1] to [{}, {}]", field,
                                   config.depth(), config.heads),
                       field);
  };
  const json& list = fields.at("without");
  if (!list.is_array()) wrong();
  check_count(field, list.size(), config.depth() * config.heads);
  for (const json& item : list) {
    if (!item.is_array() || item.size() != 2) wrong();
    const auto number = [&](const json& value, size_t most) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > most) wrong();
      return value.get<size_t>() - 1;
    };
    heads.push_back({number(item[0], config.depth()), number(item[1], config.heads)});
  }
  return heads;
}

TextModel model_for(const TextModel& model, const Fields& fields) {
  return model.without(heads_off_of(fields, model.model().config()));
}

std::string kind_of(const std::vector<WhichHead>& off) {
  std::string kind = off.empty() ? "" : " without";
  for (const WhichHead& which : off) kind += fmt::format(" {}-{}", which.layer, which.head);
  return kind;
}

std::string attention_key(const Fields& fields) {
  json key = json::array();
  for (const char* name : {"text", "pair", "without"})
    key.push_back(fields.has(name) ? fields.at(name) : json());
  return key.dump();
}

namespace {

Async<HttpReply> rollout_of_text(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "layer", "without", "format", "precision"});
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const Config& config = model->all.model().config();
  const std::string text = fields.string("text");
  const auto pair = pair_of(fields);
  const size_t layers = fields.whole("layer", config.depth(), 1, config.depth());
  const NumberFormat format = number_format_of(fields, {"float32", "float16"});
  const std::vector<WhichHead> off = heads_off_of(fields, config);
  const size_t n = length_of(call, model->all, text, pair);
  check_weights(layers, config.heads, n);
  AttendOptions options;
  for (size_t layer = 0; layer < layers; ++layer) options.layers.push_back(layer);
  const AttentionCache::Pointer known = call.service.attention_cache.find({model, attention_key(fields)});
  co_return co_await call.run_alone<HttpReply>(model, n, [&](const TextModel& m) {
    const TextModel used = m.without(off);
    const Attention made = known  ? Attention()
                           : pair ? used.attend(text, *pair, options)
                                  : used.attend(text, options);
    const Attention& a = known ? *known : made;
    const Grid all = rollout(a, layers);
    if (format.npy) return npy_reply(all, format.precision);
    JsonWriter out;
    out.begin_object().field("model", model->name).field("tokens", a.tokens).field("ids", a.encoding.ids);
    out.field("types", a.encoding.types).key("offsets").begin_array();
    for (Offset offset : a.encoding.offsets)
      out.begin_array().value(offset.begin).value(offset.end).end_array();
    out.end_array().field("layer", layers).field("weights", Matrix<const float>(all)).end_object();
    return json_reply(out.take());
  });
}

// {"task": "fill-mask", "mask": 1, "token": "river"} or {"task": "classify", "label": "positive"}; without
// `token` or `label` the likeliest is meant.
Prediction prediction_of(const Fields& target) {
  Prediction prediction;
  if (target.choice("task", "fill-mask", {"fill-mask", "classify"}) == "classify") {
    target.only({"task", "label"});
    prediction.head = Head::kClassify;
    prediction.name = target.string("label", "");
  } else {
    target.only({"task", "mask", "token"});
    prediction.mask = target.whole("mask", 1, 1, 100'000) - 1;
    prediction.name = target.string("token", "");
  }
  return prediction;
}

Async<HttpReply> gradient(Call& call) {
  const Fields fields = call.fields();
  fields.only({"model", "text", "pair", "layers", "heads", "target", "without", "format", "precision"});
  fields.at("target");
  const Prediction prediction = prediction_of(fields.object("target"));
  const ModelPointer model = call.service.models.with_head(prediction.head, fields.string("model", ""));
  const Config& config = model->all.model().config();
  const std::string text = fields.string("text");
  const auto pair = pair_of(fields);
  const GradientOptions options{.layers = numbers_of(fields, "layers", config.depth())};
  AttentionReply reply{.attention = {},
                       .layers = options.layers,
                       .heads = numbers_of(fields, "heads", config.heads),
                       .model = model->name};
  reply.format = number_format_of(fields, {"float32", "float16"});
  const std::vector<WhichHead> off = heads_off_of(fields, config);
  const size_t n = length_of(call, model->all, text, pair);
  check_weights(config.depth(), config.heads, n);
  AttentionGradient found;
  try {
    // Back is twice the work of forward.
    found = co_await call.run_alone<AttentionGradient>(model, 3 * n, [&](const TextModel& m) {
      const TextModel used = m.without(off);
      return pair ? attention_gradient(used, TextPair{text, *pair}, prediction, options)
                  : attention_gradient(used, text, prediction, options);
    });
  } catch (const Error& error) {
    constexpr std::string_view kOfTarget[] = {"mask", "token", "label"};
    if (error.field().empty()) throw;
    const bool inside = std::ranges::find(kOfTarget, error.field()) != std::end(kOfTarget);
    const std::string field = (inside ? "target." : "") + error.field();
    throw RequestError(422, fmt::format("`{}`: {}", field, error.what()), field);
  }
  JsonWriter more;
  more.begin_object().field("prediction", found.name).field("logit", found.logit).end_object();
  const std::string fields_of_it = more.take();
  reply.more_fields = fields_of_it.substr(1, fields_of_it.size() - 2) + ",";
  reply.attention = std::make_shared<const Attention>(std::move(found.attention));
  co_return attention_reply(std::move(reply));
}

// Models that brought along what `bertie heads` found in them.
Async<HttpReply> report_names(Call& call) {
  json names = json::array();
  for (const ModelPointer& model : call.service.models.all())
    if (!model->heads.empty()) names.push_back(model->name);
  co_return json_reply(json{{"models", names}}.dump());
}

Async<HttpReply> report(Call& call) {
  const ModelPointer model = call.service.models.find(call.below);
  if (model->bad_heads)
    throw RequestError(404, "the heads.json of this model is not what `bertie heads --json` prints of it");
  if (model->heads.empty()) throw RequestError(404, "nothing is known of this model's heads");
  co_return json_reply(model->heads);
}

constexpr Route route(std::string_view path, Async<HttpReply> (*run)(Call&)) {
  return {.method = "POST", .path = path, .run = run, .style = ErrorStyle::kTei, .has_body = true};
}
constexpr Route kRoutes[] = {route("/rollout", rollout_of_text),
                             route("/gradient", gradient),
                             {.method = "GET", .path = "/heads", .run = report_names},
                             {.method = "GET", .path = "/heads/", .run = report}};

}  // namespace

std::span<const Route> heads_routes() { return kRoutes; }

}  // namespace bertie::serve
