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
  json.field("head", s.head + 1).field("heads", s.heads).field("d_k", s.q.cols);
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
