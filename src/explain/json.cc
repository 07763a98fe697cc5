// AttentionSteps and Senses as JSON: layers and heads are counted from 1, as people do.
#include "bertie/json.h"

#include "bertie/json_writer.h"

namespace bertie {

std::string to_json(const AttentionSteps& steps, const JsonInput& input) {
  std::string out;
  write_json(steps, input, [&](std::string_view piece) { out += piece; });
  return out;
}

void write_json(const AttentionSteps& s, const JsonInput& input, const JsonSink& sink) {
  JsonWriter json(&sink);
  json.begin_object().fields(input);
  json.field("tokens", s.tokens);
  if (!s.ids.empty()) json.field("ids", s.ids);
  json.field("layer", s.layer + 1).field("layers", s.layers);
  json.field("head", s.head + 1).field("place", s.place + 1).field("heads", s.heads).field("d_k", s.q.cols);
  json.key("head_numbers").begin_array();
  for (const size_t number : s.numbers) json.value(number + 1);
  json.end_array();
  json.field("causal", s.causal).field("scale", s.scale);
  const auto add = [&](std::string_view name, Matrix<const float> matrix) { json.field(name, matrix); };
  add("x", s.x);
  add("w_q", s.w_q), add("w_k", s.w_k), add("w_v", s.w_v);
  json.field("b_q", s.b_q).field("b_k", s.b_k).field("b_v", s.b_v);
  add("q", s.q), add("k", s.k), add("v", s.v);
  add("scores", s.scores), add("scaled", s.scaled), add("weights", s.weights);
  add("output", s.output);
  add("concatenated", s.concatenated);
  add("w_o", s.w_o), json.field("b_o", s.b_o);
  add("result", s.result);
  json.end_object().finish();
}

std::string rollout_to_json(const Attention& a, const Grid& weights, size_t layers, const JsonInput& input) {
  JsonWriter json;
  json.begin_object().fields(input);
  json.field("tokens", a.tokens).field("ids", a.encoding.ids).field("types", a.encoding.types);
  json.field("layer", layers).field("weights", Matrix<const float>(weights));
  return json.end_object().take();
}

void write_json(const AttentionGradient& g, const JsonInput& input, const JsonSink& sink) {
  const Attention& a = g.attention;
  JsonWriter json(&sink);
  json.begin_object().fields(input);
  json.field("prediction", g.name).field("logit", g.logit);
  json.field("tokens", a.tokens).field("ids", a.encoding.ids).field("types", a.encoding.types);
  json.key("kept_layers").begin_array();
  for (const size_t layer : a.kept) json.value(layer + 1);
  json.end_array().field("shape", std::vector<size_t>{a.kept.size(), a.heads, a.n(), a.n()});
  json.key("weights").begin_array();
  for (const size_t layer : a.kept) {
    json.begin_array();
    for (size_t head = 0; head < a.heads; ++head) json.value(a.at(layer, head));
    json.end_array();
  }
  json.end_array().end_object().finish();
}

std::string to_json(const HeadsReport& r, std::string_view model) {
  JsonWriter json;
  json.begin_object().field("model", model).field("layers", r.layers).field("heads", r.heads);
  json.field("sentences", r.sentences).field("tokens", r.tokens).field("too_long", r.too_long);
  json.key("shares").begin_array();
  for (size_t i = 0; i < r.shares.size(); ++i) {
    const HeadShares& s = r.shares[i];
    json.begin_object().field("layer", i / r.heads + 1).field("head", i % r.heads + 1);
    json.field("cls", s.cls).field("sep", s.sep).field("punctuation", s.punctuation);
    json.field("previous", s.previous).field("next", s.next).field("self", s.self);
    json.field("entropy", s.entropy).field("distance", s.distance);
    if (s.pruned) json.field("pruned", true);
    if (r.ablation) json.field("loss_without", r.ablation->without[i]);
    json.end_object();
  }
  json.end_array().key("relations").begin_array();
  for (const RelationScore& s : r.relations) {
    json.begin_object().field("relation", s.relation).field("count", s.count);
    json.field("layer", s.head.layer + 1).field("head", s.head.head + 1).field("from_head", s.from_head);
    json.field("accuracy", s.accuracy).field("offset", s.offset).field("offset_accuracy", s.offset_accuracy);
    if (s.random_accuracy) json.field("random_accuracy", *s.random_accuracy);
    json.field("by_head", s.by_head).end_object();
  }
  json.end_array();
  if (r.ablation) json.field("loss", r.ablation->loss).field("masked_tokens", r.ablation->tokens);
  const size_t n = r.layers * r.heads;
  if (!r.divergence.empty()) json.field("divergence", Matrix<const float>(r.divergence.data(), n, n));
  return json.end_object().take();
}

std::string to_json(const Senses& s, std::string_view word, size_t layer) {
  JsonWriter json;
  json.begin_object().field("word", word);
  const std::vector<size_t> groups = s.clusters(layer);
  const std::vector<float> plane = s.plane(layer);
  json.key("places").begin_array();
  for (size_t i = 0; i < s.places.size(); ++i) {
    const Senses::Place& place = s.places[i];
    json.begin_object().field("text", place.text).field("word", place.word);
    json.field("start", place.offset.begin).field("end", place.offset.end).field("group", groups[i]);
    json.field("x", plane[2 * i]).field("y", plane[2 * i + 1]).end_object();
  }
  json.end_array().field("layer", layer).field("silhouette", s.silhouette(layer, groups));
  json.key("cosines").begin_array();  // layer 0, the embeddings, first
  for (size_t l = 0; l <= s.layers; ++l)
    json.value(Matrix<const float>(s.cosines(l).data(), s.places.size(), s.places.size()));
  return json.end_array().end_object().take();
}

}  // namespace bertie
