#include "model/transformer_weights.h"

#include <fmt/format.h>

#include <cmath>

#include "core/checked.h"

namespace bertie {
namespace {

constexpr double kEps = 1e-5;  // of every LayerNorm; config.json does not speak of it

SideWeights side(size_t layers, size_t heads, size_t ffn, bool cross) {
  return {heads, ffn, std::vector<LayerWeights>(layers), std::vector<CrossWeights>(cross ? layers : 0)};
}

void declare_side(TensorTable& t, SideWeights& side, const std::string& prefix, size_t hidden) {
  for (size_t i = 0; i < side.layers.size(); ++i) {
    LayerWeights& l = side.layers[i];
    const std::string layer = fmt::format("{}.layers.{}.", prefix, i);
    const auto rows = [&](const char* name, kernels::Linear& to, size_t part, size_t parts) {
      t.linear(layer + name, to, hidden, hidden, false, true, {part * hidden, parts * hidden});
    };
    rows("self_attn.q_proj", l.qkv, 0, 3);
    rows("self_attn.k_proj", l.qkv, 1, 3);
    rows("self_attn.v_proj", l.qkv, 2, 3);
    t.linear(layer + "self_attn.out_proj", l.attention_out, hidden, hidden);
    t.norm(layer + "self_attn_layer_norm", l.attention_norm, hidden, kEps);
    if (!side.cross.empty()) {
      CrossWeights& c = side.cross[i];
      t.linear(layer + "encoder_attn.q_proj", c.query, hidden, hidden);
      rows("encoder_attn.k_proj", c.key_value, 0, 2);
      rows("encoder_attn.v_proj", c.key_value, 1, 2);
      t.linear(layer + "encoder_attn.out_proj", c.out, hidden, hidden);
      t.norm(layer + "encoder_attn_layer_norm", c.norm, hidden, kEps);
    }
    t.linear(layer + "fc1", l.up, side.ffn, hidden);
    t.linear(layer + "fc2", l.down, hidden, side.ffn);
    t.norm(layer + "final_layer_norm", l.output_norm, hidden, kEps);
  }
}

}  // namespace

TransformerWeights::TransformerWeights(const TransformerConfig& c, const std::string& file)
    : config(c),
      activation(activation_named(c.activation, file, "activation_function")),
      encoder(side(c.encoder_layers, c.encoder_heads, c.encoder_ffn, false)),
      decoder(side(c.decoder_layers, c.decoder_heads, c.decoder_ffn, true)) {}

void TransformerWeights::declare() {
  TensorTable t;
  t.mapped("model.shared.weight", word, config.vocabulary, config.hidden);
  declare_side(t, encoder, "model.encoder", config.hidden);
  declare_side(t, decoder, "model.decoder", config.hidden);
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
}

}  // namespace bertie
