#include "model/transformer_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "core/checked.h"

namespace bertie {
namespace {

constexpr double kEps = 1e-5;  // of every LayerNorm; config.json does not speak of it

void declare_layers(TensorTable& t, TrunkWeights& trunk, const std::string& prefix, bool cross) {
  const size_t hidden = trunk.shape.hidden;
  for (size_t i = 0; i < trunk.layers.size(); ++i) {
    LayerWeights& l = trunk.layers[i];
    const std::string layer = fmt::format("{}.layers.{}.", prefix, i);
    const auto rows = [&](const char* name, kernels::Linear& to, size_t part, size_t parts) {
      t.linear(layer + name, to, hidden, hidden, false, true, {part * hidden, parts * hidden});
    };
    rows("self_attn.q_proj", l.qkv, 0, 3);
    rows("self_attn.k_proj", l.qkv, 1, 3);
    rows("self_attn.v_proj", l.qkv, 2, 3);
    t.linear(layer + "self_attn.out_proj", l.attention_out, hidden, hidden);
    t.norm(layer + "self_attn_layer_norm", l.attention_norm, hidden, kEps);
    if (cross) {
      CrossWeights& c = l.cross;
      t.linear(layer + "encoder_attn.q_proj", c.query, hidden, hidden);
      rows("encoder_attn.k_proj", c.key_value, 0, 2);
      rows("encoder_attn.v_proj", c.key_value, 1, 2);
      t.linear(layer + "encoder_attn.out_proj", c.out, hidden, hidden);
      t.norm(layer + "encoder_attn_layer_norm", c.norm, hidden, kEps);
    }
    t.linear(layer + "fc1", l.up, trunk.shape.inner, hidden);
    t.linear(layer + "fc2", l.down, hidden, trunk.shape.inner);
    t.norm(layer + "final_layer_norm", l.output_norm, hidden, kEps);
  }
}

}  // namespace

TransformerWeights::TransformerWeights(const TransformerConfig& c, const std::string& file)
    : config(c), activation(activation_named(c.activation, file, "activation_function")) {
  const auto shape = [&](TrunkWeights& trunk, size_t layers, size_t heads, size_t ffn) {
    EmbeddingWeights& e = trunk.embeddings;
    e.word = &word;
    e.word_scale = c.scale_embedding ? std::sqrt(float(c.hidden)) : 1.0f;
    e.width = c.hidden, e.positions = c.positions;
    e.learns_positions = false;
    // Padding, which the decoder may begin with, is looked up but does not learn from that: as in
    // transformers.
    e.constant_word = c.pad_id;
    trunk.shape = {.hidden = c.hidden,
                   .heads = heads,
                   .inner = ffn,
                   .positions = c.positions,
                   .activation = activation,
                   .dropout = {.attention = float(c.attention_dropout),
                               .attention_out = float(c.dropout),
                               .activation = float(c.activation_dropout),
                               .feed_forward = float(c.dropout),
                               .embedding = float(c.dropout)}};
    trunk.layers.resize(layers);
    for (size_t l = 0; l < layers; ++l) trunk.order.push_back(l);
    trunk.scales.assign(layers, 1.0f / std::sqrt(float(c.hidden / heads)));
  };
  shape(encoder, c.encoder_layers, c.encoder_heads, c.encoder_ffn);
  shape(decoder, c.decoder_layers, c.decoder_heads, c.decoder_ffn);
  decoder.shape.attention.look = Look::causal();
  decoder.first_place = c.encoder_layers, decoder.embedding_place = 1;
}

void TransformerWeights::declare() {
  TensorTable t;
  t.format = format;
  output_.set_format(format);
  t.mapped("model.shared.weight", word, config.vocabulary, config.hidden);
  declare_layers(t, encoder, "model.encoder", false);
  declare_layers(t, decoder, "model.decoder", true);
  if (has_logits_bias) t.matrix("final_logits_bias", logits_bias, 1, config.vocabulary);
  tensors = std::move(t.tensors);
}

void TransformerWeights::place() {
  const size_t rows = config.positions, cols = config.hidden;
  position_memory = Block((Checked(rows) * cols * sizeof(float)).value());
  position = {position_memory.as<float>(), rows, cols};
  const size_t sines = (cols + 1) / 2;
  for (size_t c = 0; c < cols; ++c) {
    const size_t i = c < sines ? c : c - sines;
    const double wave = std::pow(10000.0, double(2 * i) / double(cols));
    for (size_t p = 0; p < rows; ++p) {
      const double angle = double(p) / wave;
      position(p, c) = float(c < sines ? std::sin(angle) : std::cos(angle));
    }
  }
  encoder.embeddings.position = decoder.embeddings.position = position.data();
}

}  // namespace bertie
