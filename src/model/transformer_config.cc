#include <fmt/format.h>

#include "bertie/error.h"
#include "bertie/transformer.h"
#include "io/model_file_names.h"
#include "model/config_json.h"
#include "model/transformer_weights.h"

namespace bertie {

TransformerConfig TransformerConfig::big() {
  return {.hidden = 1024,
          .encoder_heads = 16,
          .decoder_heads = 16,
          .encoder_ffn = 4096,
          .decoder_ffn = 4096,
          .dropout = 0.3};
}

bool TransformerConfig::describes(const ModelFiles& files) {
  if (files.only().empty() && !files.has(io::kConfigFile)) return false;
  const auto [name, root] = read_config(files);
  return io::get_string(root, "model_type", name, "") == "marian";
}

TransformerConfig TransformerConfig::load(const ModelFiles& files) {
  const ConfigFile config = read_config(files);
  const std::string& name = config.name;
  const nlohmann::json& root = config.root;
  const std::string type = io::get_string(root, "model_type", name, "");
  if (type != "marian")
    throw Error(fmt::format("{}: model_type is {}; an encoder-decoder has \"marian\"", name, io::quote(type)),
                "bertie::Model, for the models that have one side only");
  const auto size = [&](const char* key, size_t standard) { return io::get_size(root, key, name, standard); };
  // Where a key is not there, what transformers' MarianConfig says.
  TransformerConfig c;
  c.encoder_layers = size("encoder_layers", 12), c.decoder_layers = size("decoder_layers", 12);
  c.hidden = size("d_model", 1024);
  c.encoder_heads = size("encoder_attention_heads", 16),
  c.decoder_heads = size("decoder_attention_heads", 16);
  c.encoder_ffn = size("encoder_ffn_dim", 4096), c.decoder_ffn = size("decoder_ffn_dim", 4096);
  c.vocabulary = size("vocab_size", 58101), c.positions = size("max_position_embeddings", 1024);
  c.activation = io::get_string(root, "activation_function", name, "gelu");
  c.scale_embedding = io::get_bool(root, "scale_embedding", name, false);
  c.pad_id = token_id(root, "pad_token_id", name, 58100);
  c.eos_id = token_id(root, "eos_token_id", name, 0);
  c.start_id = token_id(root, "decoder_start_token_id", name, 58100);
  c.dropout = io::get_number(root, "dropout", name, c.dropout);
  c.attention_dropout = io::get_number(root, "attention_dropout", name, c.attention_dropout);
  c.activation_dropout = io::get_number(root, "activation_dropout", name, c.activation_dropout);
  for (const char* key : {"share_encoder_decoder_embeddings", "tie_word_embeddings"})
    if (!io::get_bool(root, key, name, true))
      throw Error(fmt::format("{}: {} is false; both sides and the output share one table here", name, key));
  if (const size_t words = size("decoder_vocab_size", c.vocabulary); words != c.vocabulary)
    throw Error(fmt::format("{}: decoder_vocab_size is {} but vocab_size {}; both sides share one table here",
                            name, words, c.vocabulary));
  c.check(name);
  return c;
}

std::string TransformerConfig::to_json() const {
  const nlohmann::ordered_json out = {
      {"architectures", {"MarianMTModel"}},
      {"model_type", "marian"},
      {"is_encoder_decoder", true},
      {"encoder_layers", encoder_layers},
      {"decoder_layers", decoder_layers},
      {"d_model", hidden},
      {"encoder_attention_heads", encoder_heads},
      {"decoder_attention_heads", decoder_heads},
      {"encoder_ffn_dim", encoder_ffn},
      {"decoder_ffn_dim", decoder_ffn},
      {"vocab_size", vocabulary},
      {"decoder_vocab_size", vocabulary},
      {"max_position_embeddings", positions},
      {"activation_function", activation},
      {"scale_embedding", scale_embedding},
      {"share_encoder_decoder_embeddings", true},
      {"tie_word_embeddings", true},
      {"pad_token_id", id_or_null(pad_id)},
      {"eos_token_id", id_or_null(eos_id)},
      {"bos_token_id", nullptr},
      {"decoder_start_token_id", start_id},
      {"forced_eos_token_id", nullptr},
      {"dropout", dropout},
      {"attention_dropout", attention_dropout},
      {"activation_dropout", activation_dropout},
  };
  return out.dump(2) + "\n";
}

void TransformerConfig::check(const std::string& name) const {
  const auto within = [&](std::string_view key, size_t value, size_t most) {
    check_between(name, key, value, 1, most);
  };
  within("encoder_layers", encoder_layers, 1000);
  within("decoder_layers", decoder_layers, 1000);
  within("d_model", hidden, 65536);
  within("encoder_attention_heads", encoder_heads, 4096);
  within("decoder_attention_heads", decoder_heads, 4096);
  within("encoder_ffn_dim", encoder_ffn, 1 << 20);
  within("decoder_ffn_dim", decoder_ffn, 1 << 20);
  within("vocab_size", vocabulary, 1 << 24);
  within("max_position_embeddings", positions, 1 << 16);  // no tensor of the file vouches for it
  for (const auto& [key, heads] :
       {std::pair("encoder_attention_heads", encoder_heads), {"decoder_attention_heads", decoder_heads}})
    if (hidden % heads != 0)
      throw Error(fmt::format("{}: d_model {} is not a multiple of {} {}", name, hidden, key, heads));
  for (const auto& [key, id, least] : {std::tuple("pad_token_id", pad_id, -1),
                                       {"eos_token_id", eos_id, -1},
                                       {"decoder_start_token_id", start_id, 0}})
    if (id < least || (id >= 0 && size_t(id) >= vocabulary))
      throw Error(
          fmt::format("{}: {} is {}, which is no token of a vocabulary of {}", name, key, id, vocabulary));
  for (double p : {dropout, attention_dropout, activation_dropout}) check_dropout(name, p);
  activation_named(activation, name, "activation_function");
}

size_t TransformerConfig::parameters() const {
  TransformerWeights weights(*this, "config");
  weights.declare();
  return count_elements(weights.tensors);
}

}  // namespace bertie
