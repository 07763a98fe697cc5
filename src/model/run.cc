// The forward pass.
#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "bertie/model.h"
#include "core/arena.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "model/attending.h"
#include "model/batch.h"
#include "model/cache.h"
#include "model/embed.h"
#include "model/heads.h"
#include "model/weights.h"

namespace bertie {

Matrix<const float> AttentionWeights::operator()(size_t layer, size_t sequence, size_t head) const {
  if (layer >= layers_.size() || !layers_[layer])
    throw Error(fmt::format("the attention of layer {} was not kept", layer), "ask for it in the capture");
  if (head >= heads_ || sequence + 1 >= queries_.size())
    throw Error(fmt::format("no head {} or no sequence {} in this output", head, sequence));
  const auto length = [](std::span<const int32_t> offsets, size_t s) {
    return size_t(offsets[s + 1] - offsets[s]);
  };
  const float* weights = layers_[layer];
  for (size_t s = 0; s < sequence; ++s) weights += heads_ * length(queries_, s) * length(keys_, s);
  const size_t n = length(queries_, sequence), m = length(keys_, sequence);
  return {weights + head * n * m, n, m};
}

void AttentionWeights::start(size_t layers, size_t heads, std::span<const int32_t> queries,
                             std::span<const int32_t> keys) {
  heads_ = heads, queries_ = queries, keys_ = keys;
  layers_.assign(layers, nullptr);
}

Matrix<const float> Output::attention(size_t layer, size_t sequence, size_t head) const {
  return weights_(layer, sequence, head);
}

struct Run::State {
  State(const Model& m, int threads) : model(m), team(threads > 0 ? threads : available_threads()) {}
  Model model;
  Team team;
  Arena arena;
  Output output;
  std::vector<int32_t> offsets;    // the batch's, kept for Output::attention
  std::vector<int32_t> positions;  // of each token

  const Output& forward(const Batch& batch, const Capture& capture, KeyValues* cache);
};

Run::Run(const Model& model, int threads) : state_(std::make_unique<State>(model, threads)) {}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;
int Run::threads() const { return state_->team.threads(); }
size_t Run::memory() const { return state_->arena.capacity(); }

const Output& Run::State::forward(const Batch& batch, const Capture& capture, KeyValues* cache) {
  const Weights& w = model.weights();
  const Config& c = w.config;
  const size_t depth = c.depth(), hidden = c.hidden;
  check_tokens(batch, c, cache);
  check_heads(w, batch, capture);
  for (size_t layer : capture.attention)
    if (layer >= depth)
      throw Error(fmt::format("layer {} does not exist: the model has layers 0 to {}", layer, depth - 1));
  if (cache && (capture.all_attention || !capture.attention.empty()))
    throw Error("attention weights cannot be captured with a cache", "read the whole text without one");
  offsets.assign(batch.offsets.begin(), batch.offsets.end());
  find_positions(w, batch, cache, positions);
  if (cache) grow(*cache, batch);

  const size_t tokens = batch.ids.size(), wide = std::max(3 * hidden, c.intermediate);
  const bool norm_first = w.family->norm_first, projected = w.projection.outputs > 0;
  const Matrix<const float> shape(nullptr, tokens, hidden, 3 * hidden);
  Attending attending{{.q = shape,
                       .k = shape,
                       .v = shape,
                       .q_offsets = batch.offsets,
                       .k_offsets = batch.offsets,
                       .heads = c.heads,
                       .look = c.causal() ? Look::causal() : Look()},
                      cache};
  size_t kept_layers = 0;
  for (size_t l = 0; l < depth; ++l) kept_layers += capture.wants_attention(l);
  const size_t weights_size = kept_layers ? dot_product::weights_size(attending.batch) : 0;
  const size_t workspace_bytes = attending.workspace_bytes(kept_layers > 0, team.threads());

  // One piece of memory for everything: the states to keep, what one layer needs, and what comes after.
  const size_t states = (capture.hidden_states ? depth + 1 : 1) + (norm_first ? 2 : 0);
  const Checked bytes = Checked(states + 2) * Arena::bytes_for<float>(tokens * hidden) +
                        Checked(Arena::bytes_for<float>(tokens * wide)) +
                        Checked(projected ? Arena::bytes_for<float>(tokens * c.embedding_size()) : 0) +
                        Checked(kept_layers) * Arena::bytes_for<float>(weights_size) +
                        Checked(finish_bytes(w, batch, capture)) + Checked(workspace_bytes);
  arena.reset(bytes.value());
  const auto state = [&] { return arena.take<float>(tokens, hidden); };
  // x is what a layer looks at and h what its second half looks at. Where norms come first, what they add to
  // is another thing: sum, and between a layer's halves middle.
  Matrix<float> x = state(), sum = norm_first ? state() : x;
  const Matrix<float> h = state(), middle = norm_first ? state() : Matrix<float>();
  const Matrix<float> context = state();
  float* const wide_memory = arena.take<float>(tokens * wide);
  std::byte* const workspace = arena.take<std::byte>(workspace_bytes);
  const Matrix<float> qkv(wide_memory, tokens, 3 * hidden), inner(wide_memory, tokens, c.intermediate);
  attending.batch.q = qkv.slice_cols(0, hidden);
  attending.batch.k = qkv.slice_cols(hidden, hidden);
  attending.batch.v = qkv.slice_cols(2 * hidden, hidden);

  Output& out = output;
  out.hidden_states.clear();
  out.weights_.start(depth, c.heads, offsets, offsets);

  const Matrix<float> embedded = projected ? arena.take<float>(tokens, c.embedding_size()) : sum;
  embed(w, batch, positions, embedded, team);
  kernels::layer_norm_forward(embedded, w.embedding_norm, norm_first ? x : embedded, team);
  if (projected) kernels::linear_forward(embedded, w.projection, kernels::Activation::none, x, team);

  if (capture.hidden_states) out.hidden_states.push_back(sum);
  for (size_t l = 0; l < depth; ++l) {
    const LayerWeights& layer = w.layer(l);
    kernels::linear_forward(x, layer.qkv, kernels::Activation::none, qkv, team);
    float* const weights = capture.wants_attention(l) ? arena.take<float>(weights_size) : nullptr;
    attending.batch.scale = score_scale(c, l);
    attending.run(l, context, weights, workspace, team);
    out.weights_.set(l, weights);
    kernels::linear_residual_layer_norm_forward(context, layer.attention_out, sum, layer.attention_norm, h,
                                                team, middle);
    kernels::linear_forward(h, layer.up, w.activation, inner, team);
    // A state that was handed out stays; otherwise there is room for the next where this one was.
    Matrix<float>& next = norm_first ? sum : x;
    if (capture.hidden_states) next = state();
    kernels::linear_residual_layer_norm_forward(inner, layer.down, norm_first ? middle : h, layer.output_norm,
                                                x, team, norm_first ? sum : Matrix<float>());
    if (!norm_first) sum = x;
    // What transformers calls the last hidden state went through the norm at the end.
    if (capture.hidden_states) out.hidden_states.push_back(l + 1 == depth ? x : sum);
  }
  if (cache) advance(*cache, batch);
  out.last_hidden = x;
  const Finished finished = finish(w, batch, capture, x, arena, team);
  out.pooled = finished.pooled, out.logits = finished.logits;
  return out;
}

const Output& Run::forward(const Batch& batch, const Capture& capture) {
  return state_->forward(batch, capture, nullptr);
}

const Output& Run::forward(const Batch& batch, const Capture& capture, Cache& cache) {
  return state_->forward(batch, capture, cache.state_.get());
}

}  // namespace bertie
