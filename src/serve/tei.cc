// The routes of text-embeddings-inference (TEI), with its parameters and replies.
#include <fmt/format.h>

#include <algorithm>

#include "bertie/info.h"
#include "bertie/json_writer.h"
#include "bertie/similarity.h"
#include "bertie/utf8.h"
#include "serve/texts.h"

namespace bertie::serve {
namespace {

using nlohmann::json;

std::vector<std::string> texts_of(Call& call, const Fields& fields, const char* name,
                                  const std::string& prompt = {}) {
  std::vector<std::string> texts = fields.strings(name, call.service.limits.inputs);
  if (texts.empty()) throw RequestError(400, fmt::format("`{}` is empty", name), name);
  check_product(call, texts.size(), prompt.size(), name);
  for (std::string& text : texts) text.insert(0, prompt);
  return texts;
}

Async<HttpReply> embed(Call& call) {
  const Fields fields = call.fields();
  const ModelPointer model = call.service.models.with_vectors(fields.string("model", ""));
  const VectorOptions options{fields.boolean("normalize", true), fields.whole("dimensions", 0, 1, 1'000'000)};
  std::vector<Ids> ids = ids_of(call, model->all, fields.at("inputs"), "inputs", cut_of(fields, false),
                                prompt_of(*model, fields));
  const auto rows = co_await vectors(call, model, std::move(ids), options);
  JsonWriter out;
  out.begin_array();
  for (const std::vector<float>& row : rows) out.value(row);
  out.end_array();
  co_return json_reply(out.take());
}

Async<HttpReply> embed_all(Call& call) {
  const Fields fields = call.fields();
  const ModelPointer model = call.service.models.with_vectors(fields.string("model", ""));
  const std::vector<std::string> texts = texts_of(call, fields, "inputs", prompt_of(*model, fields));
  const Cut cut = cut_of(fields, false);
  if (cut.from_start)
    throw RequestError(422, "`truncation_direction` must be right here", "truncation_direction");
  std::vector<size_t> lengths;
  for (const Ids& ids : tokenize(call, model->all, texts, cut)) lengths.push_back(ids.size());
  std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto compute = [](const TextModel& m, std::span<const std::string_view> all) {
    return m.token_vectors(all);
  };
  auto rows = std::make_shared<std::vector<TokenVectors>>(co_await call.run<TokenVectors, std::string_view>(
      model, "token vectors", std::move(views), std::move(lengths), compute));
  // Thousands of numbers for each token: a text at a time.
  const auto more = [rows, next = size_t{0}]() mutable -> std::string {
    if (next == rows->size() || rows->empty()) return {};
    const TokenVectors text = std::move((*rows)[next]);  // it is not needed again
    JsonWriter out;
    out.value(Matrix<const float>(text.values.data(), text.tokens,
                                  text.tokens ? text.values.size() / text.tokens : 0));
    const bool first = next == 0, last = ++next == rows->size();
    return fmt::format("{}{}{}", first ? "[" : ",", out.take(), last ? "]" : "");
  };
  HttpReply reply{.body = {}, .more = more};
  for (const TokenVectors& text : *rows) reply.holds += text.values.size() * sizeof(float);
  co_return reply;
}

// "a", ["a", "b"] (a pair) or [["a"], ["a", "b"]].
struct Predictables {
  std::vector<std::vector<std::string>> texts;
  bool many = false;
};
Predictables predictables(Call& call, const json& inputs) {
  Predictables out;
  const auto one = [&](const json& item) {
    if (item.is_array() && item.size() > 2)
      throw RequestError(422, "`inputs` must be texts, or pairs of texts in lists of two", "inputs");
    std::vector<std::string> texts = strings_of(item, "inputs", 2);
    if (texts.empty()) throw RequestError(400, "`inputs` is empty", "inputs");
    out.texts.push_back(std::move(texts));
  };
  out.many = inputs.is_array() && !inputs.empty() && inputs[0].is_array();
  if (!out.many) return one(inputs), out;
  check_count("inputs", inputs.size(), call.service.limits.inputs);
  for (const json& item : inputs) one(item);
  return out;
}

Async<HttpReply> predict(Call& call) {
  const Fields fields = call.fields();
  const ModelPointer model = call.service.models.with_head(Head::kClassify, fields.string("model", ""));
  const Predictables inputs = predictables(call, fields.at("inputs"));
  const Apply apply = fields.boolean("raw_scores", false) ? Apply::kNothing : Apply::kByProblem;
  const Cut cut = cut_of(fields, false);
  // Single texts and pairs go apart, and come back in their order.
  std::vector<Classification> all(inputs.texts.size());
  for (const size_t parts : {size_t{1}, size_t{2}}) {
    std::vector<TextPair> pairs;
    std::vector<size_t> places;
    for (size_t i = 0; i < inputs.texts.size(); ++i) {
      const std::vector<std::string>& texts = inputs.texts[i];
      if (texts.size() != parts) continue;
      pairs.push_back({texts[0], parts == 2 ? std::string_view(texts[1]) : std::string_view()});
      places.push_back(i);
    }
    if (pairs.empty()) continue;
    std::vector<Classification> some = co_await labels(call, model, pairs, apply, cut);
    for (size_t i = 0; i < some.size(); ++i) all[places[i]] = std::move(some[i]);
  }
  JsonWriter out;
  if (inputs.many) out.begin_array();
  for (const Classification& one : all) {
    out.begin_array();
    for (const Scored& s : one.labels)
      out.begin_object().field("score", s.score).field("label", s.label).end_object();
    out.end_array();
  }
  if (inputs.many) out.end_array();
  co_return json_reply(out.take());
}

// TEI's `texts`, or the `documents` of Cohere and Jina: strings, or objects with a `text`.
std::vector<std::string> documents_of(Call& call, const Fields& fields) {
  if (fields.has("texts")) return texts_of(call, fields, "texts");
  const json& documents = fields.at(fields.has("documents") ? "documents" : "texts");
  if (!documents.is_array() || documents.empty())
    throw RequestError(422, "`documents` must be a list of texts", "documents");
  check_count("documents", documents.size(), call.service.limits.inputs);
  std::vector<std::string> texts;
  for (const json& item : documents)
    texts.push_back(item.is_object() ? Fields(item, "documents").string("text")
                                     : string_of(item, "documents"));
  return texts;
}

// How well each text fits the query: by a model that reads both (one label), or else by the cosine of their
// vectors.
Async<std::vector<float>> fits(Call& call, std::string query, std::vector<std::string> texts, bool raw,
                               Cut cut) {
  const std::string name = call.fields().string("model", "");
  const auto& models = call.service.models;
  ModelPointer model = name.empty() ? nullptr : models.find(name);
  for (const ModelPointer& one : models.all())
    if (!model && one->reranks()) model = one;
  if (!model) model = models.with_vectors();
  if (!model->reranks() && !model->embeds)
    throw RequestError(422, fmt::format("the model {} is not one for ranking", model->name), "model");
  std::vector<float> scores;
  if (model->reranks()) {
    check_product(call, texts.size(), query.size(), "query");
    std::vector<TextPair> pairs;
    for (const std::string& text : texts) pairs.push_back({query, text});
    for (const Classification& one :
         co_await labels(call, model, pairs, raw ? Apply::kNothing : Apply::kSigmoid, cut))
      scores.push_back(one.labels[0].score);
    co_return scores;
  }
  texts.push_back(std::move(query));
  std::vector<Ids> ids = tokenize(call, model->all, texts, cut);
  const auto rows = co_await vectors(call, model, std::move(ids), {.normalize = {}});
  for (size_t i = 0; i + 1 < rows.size(); ++i) scores.push_back(cosine(rows.back(), rows[i]));
  co_return scores;
}

// TEI answers with a list; Cohere and Jina, who say `documents`, expect {"results": […]} with a
// relevance_score.
Async<HttpReply> rerank(Call& call) {
  const Fields fields = call.fields();
  const bool documents = fields.has("documents");
  std::vector<std::string> texts = documents_of(call, fields);
  const bool with_text = fields.boolean(documents ? "return_documents" : "return_text", false);
  const size_t top = fields.whole("top_n", texts.size(), 1, SIZE_MAX);
  const Cut cut = cut_of(fields, documents);
  const std::vector<float> scores =
      co_await fits(call, fields.string("query"), texts, fields.boolean("raw_scores", false), cut);
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return scores[i]; });
  order.resize(std::min(order.size(), top));
  JsonWriter out;
  if (documents) {
    out.begin_object().field("id", call.request_id).key("results");
  }
  out.begin_array();
  for (size_t i : order) {
    out.begin_object().field("index", i).field(documents ? "relevance_score" : "score", scores[i]);
    if (with_text && documents)
      out.key("document").begin_object().field("text", texts[i]).end_object();
    else if (with_text)
      out.field("text", texts[i]);
    out.end_object();
  }
  out.end_array();
  if (documents) {
    out.key("usage").begin_object().field("total_tokens", call.tokens).end_object();
    out.key("meta").begin_object().key("api_version").begin_object().field("version", "2").end_object();
    out.end_object().end_object();
  }
  co_return json_reply(out.take());
}

Async<HttpReply> tokenize_texts(Call& call) {
  const Fields fields = call.fields();
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const std::vector<std::string> texts = texts_of(call, fields, "inputs", prompt_of(*model, fields));
  const bool special = fields.boolean("add_special_tokens", true);
  const Tokenizer& tokenizer = model->all.tokenizer();
  JsonWriter out;
  out.begin_array();
  size_t tokens = 0;
  for (const std::string& text : texts) {
    const Encoding e = tokenizer.encode(text, {.add_special_tokens = special});
    if ((tokens += e.size()) > call.service.limits.tokens)
      throw RequestError(413, fmt::format("a request may have {} tokens", call.service.limits.tokens),
                         "inputs");
    const CodePoints points(text);
    out.begin_array();
    for (size_t i = 0; i < e.size(); ++i) {
      const bool added = e.special(i);
      const std::string_view piece = added ? tokenizer.token(e.ids[i]) : points.at(e.offsets[i]);
      out.begin_object().field("id", e.ids[i]).field("text", piece).field("special", added);
      if (added)
        out.key("start").null().key("stop").null();
      else
        out.field("start", e.offsets[i].begin).field("stop", e.offsets[i].end);
      out.end_object();
    }
    out.end_array();
  }
  out.end_array();
  co_return json_reply(out.take());
}

Async<HttpReply> decode(Call& call) {
  const Fields fields = call.fields();
  const ModelPointer model = call.service.models.find(fields.string("model", ""));
  const json& ids = fields.at("ids");
  const bool skip_special = fields.boolean("skip_special_tokens", true);
  if (!ids.is_array() || ids.empty())
    throw RequestError(422, "`ids` must be a list of ids, or of such lists", "ids");
  JsonWriter out;
  out.begin_array();
  const auto one = [&](const json& list) {
    Ids tokens;
    if (!list.is_array()) throw RequestError(422, "`ids` must be a list of ids, or of such lists", "ids");
    for (const json& id : list) tokens.push_back(token_of(id, "ids"));
    out.value(model->all.tokenizer().decode(tokens, skip_special));
  };
  if (ids[0].is_array())
    for (const json& list : ids) one(list);
  else
    one(ids);
  out.end_array();
  co_return json_reply(out.take());
}

Async<HttpReply> info(Call& call) {
  const Service& service = call.service;
  const ModelPointer model = service.models.find("");
  JsonWriter out;
  out.begin_object().field("model_id", model->name).key("model_sha").null();
  out.field("model_dtype", service.options.format == WeightFormat::kFloat32 ? "float32" : "bfloat16");
  out.key("model_type").begin_object();
  const Config& config = model->all.model().config();
  if (model->all.can(Head::kClassify)) {
    out.key(model->reranks() ? "reranker" : "classifier").begin_object().key("id2label").begin_object();
    for (size_t i = 0; i < config.labels.size(); ++i) out.field(std::to_string(i), config.labels[i]);
    out.end_object().key("label2id").begin_object();
    for (size_t i = 0; i < config.labels.size(); ++i) out.field(config.labels[i], i);
    out.end_object().end_object();
  } else {
    out.key("embedding").begin_object().field("pooling", pooling_name(model->all.pooling())).end_object();
  }
  out.end_object();
  out.field("max_concurrent_requests", service.options.limits.queue);
  out.field("max_input_length", model->all.max_length());
  out.field("max_batch_tokens", service.options.limits.pass_tokens).key("max_batch_requests").null();
  out.field("max_client_batch_size", service.limits.inputs).field("auto_truncate", false);
  out.field("tokenization_workers", kHttpThreads)
      .field("version", BERTIE_VERSION)
      .field("server", "bertie")
      .key("models");
  out.begin_array();
  for (const ModelPointer& one : service.models.all()) {
    out.begin_object().field("name", one->name).key("can").begin_array();
    if (one->embeds) out.value("vectors");
    for (Head head :
         {Head::kMaskedLm, Head::kNextSentence, Head::kClassify, Head::kTag, Head::kAnswer, Head::kCausalLm})
      if (one->all.can(head)) out.value(head_name(head));
    out.end_array()
        .field("layers", one->all.model().config().depth())
        .field("heads", one->all.model().config().heads);
    out.field("hidden_size", one->all.model().config().hidden)
        .field("max_length", one->all.task_max_length());
    out.end_object();
  }
  out.end_array().end_object();
  co_return json_reply(out.take());
}

constexpr Route route(std::string_view path, Async<HttpReply> (*run)(Call&)) {
  return {.method = "POST", .path = path, .run = run, .style = ErrorStyle::kTei, .has_body = true};
}
constexpr Route kRoutes[] = {
    route("/embed", embed),
    route("/embed_all", embed_all),
    route("/predict", predict),
    route("/rerank", rerank),
    route("/v1/rerank", rerank),
    route("/v2/rerank", rerank),
    route("/tokenize", tokenize_texts),
    route("/decode", decode),
    {.method = "GET", .path = "/info", .run = info, .style = ErrorStyle::kTei},
};

}  // namespace

std::span<const Route> tei_routes() { return kRoutes; }

}  // namespace bertie::serve
