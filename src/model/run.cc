// The forward pass.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention/scaled_dot_product.h"
#include "bertie/error.h"
#include "bertie/model.h"
#include "core/arena.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "kernels/embedding.h"
#include "model/weights.h"

namespace bertie {

Matrix<const float> Output::attention(size_t layer, size_t sequence, size_t head) const {
  if (layer >= attention_.size() || !attention_[layer])
    throw Error(fmt::format("the attention of layer {} was not kept", layer),
                "ask for it in Capture::attention");
  if (head >= heads_ || sequence + 1 >= offsets_.size())
    throw Error(fmt::format("no head {} or no sequence {} in this output", head, sequence));
  const auto length = [&](size_t s) { return size_t(offsets_[s + 1] - offsets_[s]); };
  const float* weights = attention_[layer];
  for (size_t s = 0; s < sequence; ++s) weights += heads_ * length(s) * length(s);
  const size_t n = length(sequence);
  return {weights + head * n * n, n, n};
}

struct Run::State {
  State(const Model& m, int threads) : model(m), team(threads > 0 ? threads : available_threads()) {}
  Model model;
  Team team;
  Arena arena;
  Output output;
  std::vector<int32_t> offsets;  // the batch's, kept for Output::attention
};

Run::Run(const Model& model, int threads) : state_(std::make_unique<State>(model, threads)) {}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;
int Run::threads() const { return state_->team.threads(); }
size_t Run::memory() const { return state_->arena.capacity(); }

namespace {

void check(const Batch& b, const Config& c) {
  if (b.offsets.empty() || b.offsets.front() != 0 || size_t(b.offsets.back()) != b.ids.size())
    throw Error(fmt::format("batch: offsets must go from 0 to the number of ids, {}", b.ids.size()));
  if (!b.types.empty() && b.types.size() != b.ids.size())
    throw Error(fmt::format("batch: {} types for {} ids", b.types.size(), b.ids.size()));
  for (size_t s = 0; s < b.size(); ++s) {
    if (b.offsets[s] > b.offsets[s + 1])
      throw Error(fmt::format("batch: offsets go back at sequence {}: {} after {}", s, b.offsets[s + 1],
                              b.offsets[s]));
    if (size_t(b.offsets[s + 1] - b.offsets[s]) > c.positions)
      throw Error(fmt::format("sequence {} has {} tokens, but the model has positions for {}", s,
                              b.offsets[s + 1] - b.offsets[s], c.positions),
                  "truncate it (--max-length) or split it into windows");
  }
  for (size_t t = 0; t < b.ids.size(); ++t)
    if (b.ids[t] < 0 || size_t(b.ids[t]) >= c.vocabulary)
      throw Error(fmt::format("token id {} at {} is outside the vocabulary of {}", b.ids[t], t, c.vocabulary),
                  "the tokenizer and the model may not belong together");
  for (size_t t = 0; t < b.types.size(); ++t)
    if (b.types[t] < 0 || size_t(b.types[t]) >= c.types)
      throw Error(fmt::format("token type {} at {} is outside the model's {} types", b.types[t], t, c.types));
}

void embed(const Weights& w, const Batch& b, Matrix<float> y, Team& team) {
  constexpr size_t kRows = 32;
  const size_t hidden = w.config.hidden;
  team.parallel_for((y.rows() + kRows - 1) / kRows, [&](size_t chunk) {
    const size_t first = chunk * kRows, last = std::min(y.rows(), first + kRows);
    auto sequence =
        std::upper_bound(b.offsets.begin(), b.offsets.end(), int32_t(first)) - b.offsets.begin() - 1;
    for (size_t t = first; t < last; ++t) {
      while (size_t(b.offsets[sequence + 1]) <= t) ++sequence;
      const size_t position = t - size_t(b.offsets[sequence]),
                   type = b.types.empty() ? 0 : size_t(b.types[t]);
      io::to_float(w.word, size_t(b.ids[t]) * hidden, y[t]);
      kernels::add_position_and_type(w.position + position * hidden, w.type + type * hidden, y[t]);
    }
  });
  kernels::layer_norm_forward(y, w.embedding_norm, y, team);
}

}  // namespace

const Output& Run::forward(const Batch& batch, const Capture& capture) {
  State& s = *state_;
  const Weights& w = s.model.weights();
  const Config& c = w.config;
  Team& team = s.team;
  check(batch, c);
  if (capture.pooled && !w.has_pooler)
    throw Error("this checkpoint has no pooler",
                "use the hidden states, or mean pooling as `bertie embed` does");
  for (size_t layer : capture.attention)
    if (layer >= c.layers)
      throw Error(fmt::format("layer {} does not exist: the model has layers 0 to {}", layer, c.layers - 1));
  s.offsets.assign(batch.offsets.begin(), batch.offsets.end());

  const size_t tokens = batch.ids.size(), wide = std::max(3 * c.hidden, c.intermediate);
  dot_product::Batch attention{.q_offsets = batch.offsets,
                               .k_offsets = batch.offsets,
                               .heads = c.heads,
                               .scale = 1.0f / std::sqrt(float(c.head_size()))};
  attention.q = attention.k = attention.v = Matrix<const float>(nullptr, tokens, c.hidden, 3 * c.hidden);
  size_t kept_layers = 0;
  for (size_t l = 0; l < c.layers; ++l) kept_layers += capture.wants_attention(l);
  const size_t weights_size = dot_product::weights_size(attention);
  const size_t workspace_bytes = dot_product::workspace_bytes(attention, kept_layers > 0, team.threads());
  const size_t states = capture.hidden_states ? c.layers + 1 : 1;

  // One piece of memory for everything: x for each state kept, then what one layer needs.
  const Checked bytes = Checked(states + 2) * Arena::bytes_for<float>(tokens * c.hidden) +
                        Checked(Arena::bytes_for<float>(tokens * wide)) +
                        Checked(kept_layers) * Arena::bytes_for<float>(weights_size) +
                        Checked(2) * Arena::bytes_for<float>(batch.size() * c.hidden) +
                        Checked(workspace_bytes);
  s.arena.reset(bytes.value());
  Matrix<float> x = s.arena.take<float>(tokens, c.hidden), other = s.arena.take<float>(tokens, c.hidden);
  const Matrix<float> context = s.arena.take<float>(tokens, c.hidden);
  float* const wide_memory = s.arena.take<float>(tokens * wide);
  std::byte* const workspace = s.arena.take<std::byte>(workspace_bytes);
  const Matrix<float> qkv(wide_memory, tokens, 3 * c.hidden), inner(wide_memory, tokens, c.intermediate);
  attention.q = qkv.slice_cols(0, c.hidden);
  attention.k = qkv.slice_cols(c.hidden, c.hidden);
  attention.v = qkv.slice_cols(2 * c.hidden, c.hidden);

  Output& out = s.output;
  out.heads_ = c.heads;
  out.offsets_ = s.offsets;
  out.hidden_states.clear();
  out.attention_.assign(c.layers, nullptr);
  out.pooled = {};

  embed(w, batch, x, team);
  if (capture.hidden_states) out.hidden_states.push_back(x);
  for (size_t l = 0; l < c.layers; ++l) {
    const LayerWeights& layer = w.layers[l];
    kernels::linear_forward(x, layer.qkv, kernels::Activation::none, qkv, team);
    if (capture.wants_attention(l)) {
      float* weights = s.arena.take<float>(weights_size);
      dot_product::exact(attention, context, {weights, weights_size}, workspace, team);
      out.attention_[l] = weights;
    } else {
      dot_product::tiled(attention, context, {}, workspace, team);
    }
    kernels::linear_residual_layer_norm_forward(context, layer.attention_out, x, layer.attention_norm, other,
                                                team);
    kernels::linear_forward(other, layer.up, w.activation, inner, team);
    // A state that was handed out stays; otherwise x is free to take the next.
    if (capture.hidden_states) x = s.arena.take<float>(tokens, c.hidden);
    kernels::linear_residual_layer_norm_forward(inner, layer.down, other, layer.output_norm, x, team);
    if (capture.hidden_states) out.hidden_states.push_back(x);
  }
  out.last_hidden = x;

  if (capture.pooled) {
    const Matrix<float> first = s.arena.take<float>(batch.size(), c.hidden);
    const Matrix<float> pooled = s.arena.take<float>(batch.size(), c.hidden);
    for (size_t b = 0; b < batch.size(); ++b) {
      if (batch.offsets[b] == batch.offsets[b + 1])
        std::fill_n(first.row(b), c.hidden, 0.0f);
      else
        std::copy_n(x.row(size_t(batch.offsets[b])), c.hidden, first.row(b));
    }
    kernels::linear_forward(first, w.pooler, kernels::Activation::tanh, pooled, team);
    out.pooled = pooled;
  }
  return out;
}

}  // namespace bertie
