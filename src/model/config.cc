#include "bertie/config.h"

#include <fmt/format.h>

#include "bertie/error.h"
#include "core/checked.h"
#include "io/file.h"
#include "io/json.h"
#include "model/weights.h"

namespace bertie {

Config Config::load(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  const std::string name = file.string();
  const io::MappedFile mapped(file);
  const nlohmann::json json = io::parse_json(mapped.text(), name);
  const std::string type = io::get_string(json, "model_type", name, "bert");
  if (type != "bert")
    throw Error(fmt::format("{}: model_type is {}; this version runs \"bert\"", name, io::quote(type)),
                "point it at a BERT checkpoint, such as bert-base-uncased or all-MiniLM-L6-v2");
  const std::string position = io::get_string(json, "position_embedding_type", name, "absolute");
  if (position != "absolute")
    throw Error(fmt::format("{}: position_embedding_type is {}; only \"absolute\" is supported", name,
                            io::quote(position)));
  if (io::get_bool(json, "is_decoder", name, false))
    throw Error(fmt::format("{}: is_decoder is true; this version runs encoders", name));
  // A key that is not there has transformers' default, which is bert-base's value.
  Config c;
  c.layers = io::get_size(json, "num_hidden_layers", name, c.layers);
  c.hidden = io::get_size(json, "hidden_size", name, c.hidden);
  c.heads = io::get_size(json, "num_attention_heads", name, c.heads);
  c.intermediate = io::get_size(json, "intermediate_size", name, c.intermediate);
  c.vocabulary = io::get_size(json, "vocab_size", name, c.vocabulary);
  c.positions = io::get_size(json, "max_position_embeddings", name, c.positions);
  c.types = io::get_size(json, "type_vocab_size", name, c.types);
  c.layer_norm_eps = io::get_number(json, "layer_norm_eps", name, c.layer_norm_eps);
  c.activation = io::get_string(json, "hidden_act", name, c.activation);
  c.check(name);
  return c;
}

void Config::check(const std::string& name) const {
  const auto within = [&](const char* key, size_t value, size_t max) {
    if (value == 0 || value > max)
      throw Error(fmt::format("{}: {} is {}; it must be between 1 and {}", name, key, value, max));
  };
  within("num_hidden_layers", layers, 1000);
  within("hidden_size", hidden, 65536);
  within("num_attention_heads", heads, 4096);
  within("intermediate_size", intermediate, 1 << 20);
  within("vocab_size", vocabulary, 1 << 24);
  within("max_position_embeddings", positions, 1 << 20);
  within("type_vocab_size", types, 1024);
  if (hidden % heads != 0)
    throw Error(
        fmt::format("{}: hidden_size {} is not a multiple of num_attention_heads {}", name, hidden, heads));
  if (!(layer_norm_eps > 0 && layer_norm_eps < 1))
    throw Error(fmt::format("{}: layer_norm_eps is {}; it must be between 0 and 1", name, layer_norm_eps));
  activation_named(activation, name);
}

size_t Config::parameters(bool pooler) const {
  Weights weights;
  weights.config = *this;
  weights.has_pooler = pooler;
  size_t count = 0;
  for_each_tensor(weights, [&](const TensorSpec& tensor) { count += tensor.rows * tensor.cols; });
  return count;
}

}  // namespace bertie
