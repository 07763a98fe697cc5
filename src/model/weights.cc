#include "model/weights.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "bertie/error.h"
#include "io/json.h"

namespace bertie {

kernels::Activation activation_named(const std::string& name, const std::string& file, std::string_view key) {
  using kernels::Activation;
  constexpr std::pair<std::string_view, Activation> kNames[] = {
      {"gelu", Activation::kGelu},          {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"relu", Activation::kRelu},
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
      {"tanh", Activation::kTanh},
  };
  for (const auto& [known, activation] : kNames)
    if (known == name) return activation;
  throw Error(fmt::format("{}: {} is {}, which is not known", file, key, io::quote(name)),
              "known are gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish and tanh");
}

float score_scale(const Config& config, size_t layer) {
  const float by_size = config.scale_scores ? 1.0f / std::sqrt(float(config.head_size())) : 1.0f;
  return config.scale_by_layer ? by_size / float(layer + 1) : by_size;
}

Weights::Weights(const Config& c, const std::string& file)
    : config(c), family(&family_of(c.model_type, file)), activation(activation_named(c.activation, file)) {
  has_pooler = !family->pooler.empty();
  const auto own = [&](std::string_view name) {
    return name.empty() ? activation : activation_named(std::string(name), file);
  };
  language_model.activation = own(family->language_model.activation);
  classifier_activation = own(family->classifier.activation);

  EmbeddingWeights& e = trunk.embeddings;
  e.word = &word;
  e.width = c.embedding_size(), e.positions = c.positions, e.types = c.types;
  if (family->positions_after_pad) e.positions_after = c.pad_id;
  trunk.shape = {.hidden = c.hidden,
                 .heads = c.heads,
                 .inner = c.intermediate,
                 .positions = c.positions,
                 .activation = activation,
                 .norm_first = family->norm_first,
                 .attention = c.attention,
                 .dropout = {.attention = float(c.attention_dropout),
                             .attention_out = family->drops_attention ? float(c.dropout) : 0,
                             .feed_forward = family->drops_feed_forward ? float(c.dropout) : 0,
                             .embedding = float(c.embedding_dropout >= 0 ? c.embedding_dropout : c.dropout)}};
  if (c.causal() && c.attention.look.kind == Look::Kind::kFull) trunk.shape.attention.look = Look::causal();
  const bool groups = !family->layer_of_group.empty();
  trunk.layers.resize(groups ? c.groups * c.inner_layers : c.layers);
  for (size_t l = 0; l < c.depth(); ++l) {
    // As transformers rounds: the group of layer i is ⌊i / (layers / groups)⌋, in floating point.
    const size_t i = l / c.inner_layers;
    const auto group = size_t(double(i) / (double(c.layers) / double(c.groups)));
    trunk.order.push_back(groups ? group * c.inner_layers + l % c.inner_layers : l);
    trunk.scales.push_back(score_scale(c, l));
  }
}

const kernels::Linear& Weights::decoder() const {
  return decoder_.linear(config.tied ? word : language_model.decoder, language_model.bias);
}

Matrix<float> Weights::decoder_table() const {
  return {table_numbers(config.tied ? word : language_model.decoder), config.vocabulary,
          config.embedding_size()};
}

namespace {

// What the mechanism of a layer's attention learns.
void declare_mechanism(TensorTable& t, const std::string& layer, const Config& c, MechanismWeights& m) {
  const AttentionConfig& a = c.attention;
  const size_t d = c.head_size(), rows = c.heads * a.score_size;
  const auto name = [&](const char* what) { return layer + "attention.mechanism." + what; };
  if (a.look.kind == Look::Kind::kAdaptiveSpan)
    t.vector(name("spans"), m.spans, c.heads), t.tensors.back().initial = float(a.span);
  if (a.score == Score::Kind::kGeneral) t.matrix(name("w"), m.w, c.hidden, d);
  if (a.score == Score::Kind::kAdditive)
    t.matrix(name("w1"), m.w1, rows, d), t.matrix(name("w2"), m.w2, rows, d),
        t.matrix(name("v"), m.v, c.heads, a.score_size);
  if (a.compute.kind == Compute::Kind::kLinformer)
    t.matrix(name("e"), m.e, a.linformer_rows, c.positions),
        t.matrix(name("f"), m.f, a.linformer_rows, c.positions);
}

}  // namespace

void Weights::declare() {
  Weights& w = *this;
  EmbeddingWeights& e = w.trunk.embeddings;
  const Config& c = w.config;
  const Family& f = *w.family;
  const size_t hidden = c.hidden, embedding = c.embedding_size(), labels = c.labels.size();
  TensorTable t;
  decoder_.set_format(format);
  const auto base = [&](std::string_view name) { return std::string(f.prefix) + std::string(name); };
  const auto text = [](std::string_view name) { return std::string(name); };

  const auto table = [&](const std::string& name, io::TensorInfo& to, io::TensorInfo& scales) {
    if (format == WeightFormat::kInt8)
      t.mapped(name, to, scales, c.vocabulary, embedding);
    else
      t.mapped(name, to, c.vocabulary, embedding);
  };
  table(base(f.embeddings.word) + ".weight", w.word, w.word_scales);
  t.matrix(base(f.embeddings.position) + ".weight", e.position, c.positions, embedding);
  if (!f.embeddings.type.empty()) t.matrix(base(f.embeddings.type) + ".weight", e.type, c.types, embedding);
  if (!f.norm_first) t.norm(base(f.embeddings.norm), e.norm, embedding, c.layer_norm_eps);
  if (!f.embeddings.projection.empty())
    t.linear(base(f.embeddings.projection), e.projection, hidden, embedding);

  t.format = format;
  for (size_t i = 0; i < w.trunk.layers.size(); ++i) {
    LayerWeights& l = w.trunk.layers[i];
    const auto layer_name = [&](size_t number) {
      const std::string layer = base(f.layer);
      return f.layer_of_group.empty() ? fmt::format("{}{}.", layer, number)
                                      : fmt::format("{}{}.{}{}.", layer, number / c.inner_layers,
                                                    f.layer_of_group, number % c.inner_layers);
    };
    const std::string layer = layer_name(i);
    const auto linear = [&](std::string_view name, kernels::Linear& to, size_t rows, size_t cols,
                            TensorTable::Part part = {0, 0}) {
      t.linear(layer + text(name), to, rows, cols, f.weights_transposed, true, part);
    };
    const auto norm = [&](const std::string& name, kernels::LayerNorm& to) {
      t.norm(name, to, hidden, c.layer_norm_eps);
    };
    if (f.norm_first && i == 0) norm(layer + text(f.first_norm), e.norm);
    const size_t width = c.attention_size(i);
    if (!f.layers.qkv.empty()) {
      linear(f.layers.qkv, l.qkv, 3 * width, hidden);
    } else {
      linear(f.layers.query, l.qkv, width, hidden, {0, 3 * width});
      linear(f.layers.key, l.qkv, width, hidden, {width, 3 * width});
      linear(f.layers.value, l.qkv, width, hidden, {2 * width, 3 * width});
    }
    linear(f.layers.attention_out, l.attention_out, hidden, width);
    norm(layer + text(f.layers.attention_norm), l.attention_norm);
    declare_mechanism(t, layer, c, l.mechanism);
    linear(f.layers.up, l.up, c.intermediate, hidden);
    linear(f.layers.down, l.down, hidden, c.intermediate);
    if (!f.norm_first)
      norm(layer + text(f.layers.output_norm), l.output_norm);
    else if (i + 1 < w.trunk.layers.size())
      norm(layer_name(i + 1) + text(f.first_norm), l.output_norm);
    else
      norm(base(f.last_norm), l.output_norm);
  }
  t.format = WeightFormat::kFloat32;
  if (w.has_pooler) t.linear(base(f.pooler), w.pooler, hidden, hidden);

  if (w.has(Head::kMaskedLm) || w.has(Head::kCausalLm)) {
    const Family::LanguageModel& names = f.language_model;
    LanguageModelWeights& lm = w.language_model;
    if (!names.dense.empty()) {
      t.linear(text(names.dense), lm.dense, embedding, hidden);
      t.norm(text(names.norm), lm.norm, embedding, c.layer_norm_eps);
      // What is not tied is not shared either: transformers then adds the decoder's own bias.
      t.vector(c.tied ? text(names.bias) : text(names.decoder) + ".bias", lm.bias, c.vocabulary);
    }
    if (!c.tied) table(text(names.decoder) + ".weight", lm.decoder, lm.decoder_scales);
  }
  if (w.has(Head::kNextSentence)) t.linear(text(f.next_sentence), w.next_sentence, 2, hidden);
  if (w.has(Head::kClassify)) {
    if (!f.classifier.dense.empty()) t.linear(text(f.classifier.dense), w.classifier_dense, hidden, hidden);
    t.linear(text(f.classifier.out), w.classifier, labels, hidden, false, !f.causal);
  }
  if (w.has(Head::kTag)) t.linear(text(f.tagger), w.tagger, labels, hidden);
  if (w.has(Head::kAnswer)) t.linear(text(f.answerer), w.answerer, 2, hidden);
  tensors = std::move(t.tensors);
}

}  // namespace bertie
