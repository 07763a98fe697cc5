// The forward pass of a Model.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bertie/error.h"
#include "bertie/model.h"
#include "model/cache.h"
#include "model/heads.h"
#include "model/pass.h"
#include "model/trunk.h"
#include "model/weights.h"

namespace bertie {

void check_heads_exist(std::span<const WhichHead> heads, const Config& config) {
  for (const WhichHead& which : heads)
    if (which.layer >= config.depth() || which.head >= config.heads)
      throw Error(fmt::format("there is no layer {}, head {}: the model has layers 0 to {} of heads 0 to {}",
                              which.layer, which.head, config.depth() - 1, config.heads - 1));
}

std::vector<std::vector<size_t>> places_of_heads(std::span<const WhichHead> heads, const Config& config) {
  if (heads.empty()) return {};
  std::vector<std::vector<size_t>> places(config.depth());
  for (const WhichHead& which : heads) {
    const std::vector<size_t> there = config.heads_of(which.layer);
    const auto found = std::find(there.begin(), there.end(), which.head);
    if (found != there.end()) places[which.layer].push_back(size_t(found - there.begin()));
  }
  return places;
}

Matrix<const float> AttentionWeights::operator()(size_t layer, size_t sequence, size_t head) const {
  if (layer >= layers_.size() || !layers_[layer])
    throw Error(fmt::format("the attention of layer {} was not kept", layer), "ask for it in the capture");
  if (head >= heads_ || sequence + 1 >= queries_.size())
    throw Error(fmt::format("no head {} or no sequence {} in this output", head, sequence));
  const auto length = [](std::span<const int32_t> offsets, size_t s) {
    return size_t(offsets[s + 1] - offsets[s]);
  };
  const std::span<const size_t> gone =
      layer < pruned_.size() ? std::span<const size_t>(pruned_[layer]) : std::span<const size_t>();
  const auto place = std::lower_bound(gone.begin(), gone.end(), head);
  if (place != gone.end() && *place == head)
    throw Error(fmt::format("head {} of layer {} was pruned: it looks at nothing", head, layer));
  const float* weights = layers_[layer];
  for (size_t s = 0; s < sequence; ++s)
    weights += (heads_ - gone.size()) * length(queries_, s) * length(keys_, s);
  const size_t n = length(queries_, sequence), m = length(keys_, sequence);
  return {weights + (head - size_t(place - gone.begin())) * n * m, n, m};
}

void AttentionWeights::set(size_t heads, std::span<const int32_t> queries, std::span<const int32_t> keys,
                           std::span<const float* const> layers,
                           std::span<const std::vector<size_t>> pruned) {
  heads_ = heads, queries_ = queries, keys_ = keys, pruned_ = pruned;
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
  std::vector<std::vector<size_t>> off;  // heads, by layer; empty: none
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

void Run::switch_off(std::span<const WhichHead> heads) {
  const Config& config = state_->model.config();
  check_heads_exist(heads, config);
  state_->off = places_of_heads(heads, config);
}

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
                      .wanted = read.rows,
                      .off = off});
  pass.arena.run([&] {
    const Matrix<const float> hidden = trunk.forward();
    output.last_hidden = read.rows.empty() ? hidden : Matrix<const float>();
    const HeadOutputs heads = head_outputs(w, batch, capture, hidden, read.places, pass);
    output.pooled = heads.pooled, output.logits = heads.logits;
  });
  output.hidden_states = trunk.hidden_states;
  output.weights_.set(w.config.heads, trunk.offsets(), trunk.offsets(), trunk.attention,
                      w.config.pruned_heads);
  return output;
}

const Output& Run::forward(const Batch& batch, const Capture& capture) {
  return state_->forward(batch, capture, nullptr);
}

const Output& Run::forward(const Batch& batch, const Capture& capture, Cache& cache) {
  return state_->forward(batch, capture, cache.state_.get());
}

}  // namespace bertie
