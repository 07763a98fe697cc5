// The forward pass of a Model.
#include <fmt/format.h>

#include <numeric>

#include "bertie/error.h"
#include "bertie/model.h"
#include "model/cache.h"
#include "model/heads.h"
#include "model/pass.h"
#include "model/trunk.h"
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

void AttentionWeights::set(size_t heads, std::span<const int32_t> queries, std::span<const int32_t> keys,
                           std::span<const float* const> layers) {
  heads_ = heads, queries_ = queries, keys_ = keys;
  layers_.assign(layers.begin(), layers.end());
}

Matrix<const float> Output::attention(size_t layer, size_t sequence, size_t head) const {
  return weights_(layer, sequence, head);
}

struct Run::State {
  State(const Model& m, int threads) : model(m), pass(threads), trunk(m.weights().trunk, pass) {}
  Model model;
  Pass pass;
  TrunkPass trunk;
  RowsRead read;
  Output output;

  const Output& forward(const Batch& batch, const Capture& capture, KeyValues* cache);
};

Run::Run(const Model& model, int threads, bool bf16) : state_(std::make_unique<State>(model, threads)) {
  if (bf16) state_->pass.products = kernels::Products::kAmx;
}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;
int Run::threads() const { return state_->pass.team().threads(); }
size_t Run::memory() const { return state_->pass.memory(); }

size_t Run::bytes_per_token(const Model& model) {
  State state(model, 1);
  const auto count = [&](size_t tokens) {  // each a sequence of its own: any model takes those
    std::vector<int32_t> offsets(tokens + 1);
    std::iota(offsets.begin(), offsets.end(), 0);
    state.trunk.start({.ids = {}, .offsets = offsets}, {});
    return state.pass.arena.count([&] { state.trunk.forward(); });
  };
  constexpr size_t kTokens = 64;  // of any width they fill whole cache lines
  return (count(2 * kTokens) - count(kTokens)) / kTokens;
}

const Output& Run::State::forward(const Batch& batch, const Capture& capture, KeyValues* cache) {
  const Weights& w = model.weights();
  const size_t depth = w.config.depth();
  check_batch(batch, w.trunk.embeddings, w.config.max_tokens(), cache);
  check_heads(w, batch, capture);
  for (size_t layer : capture.attention)
    if (layer >= depth)
      throw Error(fmt::format("layer {} does not exist: the model has layers 0 to {}", layer, depth - 1));
  if (cache && (capture.all_attention || !capture.attention.empty()))
    throw Error("attention weights cannot be captured with a cache", "read the whole text without one");
  read.find(w, batch, capture);
  trunk.start(batch, {.cache = cache,
                      .wants_attention = [&](size_t layer) { return capture.wants_attention(layer); },
                      .hidden_states = capture.hidden_states,
                      .wanted = read.rows});
  pass.arena.run([&] {
    const Matrix<const float> hidden = trunk.forward();
    output.last_hidden = read.rows.empty() ? hidden : Matrix<const float>();
    const HeadOutputs heads = head_outputs(w, batch, capture, hidden, read.places, pass);
    output.pooled = heads.pooled, output.logits = heads.logits;
  });
  output.hidden_states = trunk.hidden_states;
  output.weights_.set(w.config.heads, trunk.offsets(), trunk.offsets(), trunk.attention);
  return output;
}

const Output& Run::forward(const Batch& batch, const Capture& capture) {
  return state_->forward(batch, capture, nullptr);
}

const Output& Run::forward(const Batch& batch, const Capture& capture, Cache& cache) {
  return state_->forward(batch, capture, cache.state_.get());
}

}  // namespace bertie
