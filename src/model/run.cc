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
#include "model/cache.h"
#include "model/heads.h"
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

namespace {

void check(const Batch& b, const Config& c, const KeyValues* cache) {
  if (b.offsets.empty() || b.offsets.front() != 0 || size_t(b.offsets.back()) != b.ids.size())
    throw Error(fmt::format("batch: offsets must go from 0 to the number of ids, {}", b.ids.size()));
  if (!b.types.empty() && b.types.size() != b.ids.size())
    throw Error(fmt::format("batch: {} types for {} ids", b.types.size(), b.ids.size()));
  if (cache && cache->sequences.size() != b.size())
    throw Error(fmt::format("batch: {} sequences, but the cache has {}", b.size(), cache->sequences.size()));
  if (cache && (cache->depth != c.depth() || cache->hidden != c.hidden))
    throw Error("the cache was made for another model");
  for (size_t s = 0; s < b.size(); ++s) {
    if (b.offsets[s] > b.offsets[s + 1])
      throw Error(fmt::format("batch: offsets go back at sequence {}: {} after {}", s, b.offsets[s + 1],
                              b.offsets[s]));
    const size_t tokens = size_t(b.offsets[s + 1] - b.offsets[s]) + (cache ? cache->sequences[s].length : 0);
    if (tokens > c.max_tokens())
      throw Error(fmt::format("sequence {} has {} tokens, but the model has positions for {}", s, tokens,
                              c.max_tokens()),
                  "truncate it (--max-length) or split it into windows");
  }
  for (size_t t = 0; t < b.ids.size(); ++t)
    if (b.ids[t] < 0 || size_t(b.ids[t]) >= c.vocabulary)
      throw Error(fmt::format("token id {} at {} is outside the vocabulary of {}", b.ids[t], t, c.vocabulary),
                  "the tokenizer and the model may not belong together");
  for (size_t t = 0; t < b.types.size() && c.types > 1; ++t)
    if (b.types[t] < 0 || size_t(b.types[t]) >= c.types)
      throw Error(fmt::format("token type {} at {} is outside the model's {} types", b.types[t], t, c.types));
}

// Which row of the position table each token adds: its place in the sequence. RoBERTa's places begin after
// the padding token's id, and padding, should a text hold it, stands at that id and does not count.
void find_positions(const Weights& w, const Batch& b, const KeyValues* cache,
                    std::vector<int32_t>& positions) {
  positions.resize(b.ids.size());
  for (size_t s = 0; s < b.size(); ++s) {
    int32_t next = cache ? int32_t(cache->sequences[s].length) : 0;
    if (w.family->positions_after_pad) next = w.config.pad_id + 1;
    for (auto t = size_t(b.offsets[s]); t < size_t(b.offsets[s + 1]); ++t)
      positions[t] = w.family->positions_after_pad && b.ids[t] == w.config.pad_id ? w.config.pad_id : next++;
  }
}

void embed(const Weights& w, const Batch& b, std::span<const int32_t> positions, Matrix<float> y,
           Team& team) {
  constexpr size_t kRows = 32;
  const size_t width = y.cols();
  const bool types = w.config.types > 1 && !b.types.empty();
  team.parallel_for((y.rows() + kRows - 1) / kRows, [&](size_t chunk) {
    for (size_t t = chunk * kRows; t < std::min(y.rows(), (chunk + 1) * kRows); ++t) {
      io::to_float(w.word, size_t(b.ids[t]) * width, y[t]);
      const float* type = w.type ? w.type + (types ? size_t(b.types[t]) : 0) * width : nullptr;
      kernels::add_position_and_type(w.position + size_t(positions[t]) * width, type, y[t]);
    }
  });
}

// Attention of the batch's queries: over the batch itself, or over a cache that holds its keys and values
// too, sequence by sequence.
struct Attending {
  const Batch& batch;
  const Config& config;
  KeyValues* cache;
  Matrix<const float> q, k, v;

  dot_product::Batch whole(size_t layer) const {
    dot_product::Batch a{.q = q,
                         .k = k,
                         .v = v,
                         .q_offsets = batch.offsets,
                         .k_offsets = batch.offsets,
                         .heads = config.heads,
                         .scale = score_scale(config, layer)};
    if (config.causal()) a.look = Look::causal();
    return a;
  }
  // Rows of one sequence and its cache; `offsets` has room for 4 numbers.
  dot_product::Batch cached(size_t layer, size_t s, int32_t* offsets) const {
    const auto first = size_t(batch.offsets[s]), count = size_t(batch.offsets[s + 1]) - first;
    const size_t keys = cache->sequences[s].length + count;
    offsets[0] = offsets[2] = 0, offsets[1] = int32_t(count), offsets[3] = int32_t(keys);
    dot_product::Batch a = whole(layer);
    a.q = q.slice_rows(first, count);
    a.k = cache->table(s, layer, 0, keys), a.v = cache->table(s, layer, 1, keys);
    a.q_offsets = {offsets, 2}, a.k_offsets = {offsets + 2, 2};
    a.look.queries_at_end = true;
    return a;
  }
  size_t workspace_bytes(bool exact, int threads) const {
    if (!cache) return dot_product::workspace_bytes(whole(0), exact, threads);
    size_t most = 0;
    int32_t offsets[4];
    for (size_t s = 0; s < batch.size(); ++s)
      most = std::max(most, dot_product::workspace_bytes(cached(0, s, offsets), exact, threads));
    return most;
  }
  void run_cached(size_t layer, Matrix<float> context, std::byte* workspace, Team& team) const {
    int32_t offsets[4];
    for (size_t s = 0; s < batch.size(); ++s) {
      const auto first = size_t(batch.offsets[s]), count = size_t(batch.offsets[s + 1]) - first;
      if (count == 0) continue;
      const size_t before = cache->sequences[s].length;
      for (size_t t = 0; t < count; ++t) {
        std::copy_n(k.row(first + t), config.hidden,
                    cache->table(s, layer, 0, before + count).row(before + t));
        std::copy_n(v.row(first + t), config.hidden,
                    cache->table(s, layer, 1, before + count).row(before + t));
      }
      dot_product::tiled(cached(layer, s, offsets), context.slice_rows(first, count), {}, workspace, team);
    }
  }
};

}  // namespace

const Output& Run::State::forward(const Batch& batch, const Capture& capture, KeyValues* cache) {
  const Weights& w = model.weights();
  const Config& c = w.config;
  const size_t depth = c.depth(), hidden = c.hidden;
  check(batch, c, cache);
  check_heads(w, batch, capture);
  for (size_t layer : capture.attention)
    if (layer >= depth)
      throw Error(fmt::format("layer {} does not exist: the model has layers 0 to {}", layer, depth - 1));
  if (cache && (capture.all_attention || !capture.attention.empty()))
    throw Error("attention weights cannot be captured with a cache", "read the whole text without one");
  offsets.assign(batch.offsets.begin(), batch.offsets.end());
  find_positions(w, batch, cache, positions);
  for (size_t s = 0; cache && s < batch.size(); ++s)
    cache->grow(s, cache->sequences[s].length + size_t(batch.offsets[s + 1] - batch.offsets[s]));

  const size_t tokens = batch.ids.size(), wide = std::max(3 * hidden, c.intermediate);
  const bool norm_first = w.family->norm_first, projected = w.projection.outputs > 0;
  const Matrix<const float> shape(nullptr, tokens, hidden, 3 * hidden);
  Attending attending{batch, c, cache, shape, shape, shape};
  size_t kept_layers = 0;
  for (size_t l = 0; l < depth; ++l) kept_layers += capture.wants_attention(l);
  const size_t weights_size = kept_layers ? dot_product::weights_size(attending.whole(0)) : 0;
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
  attending.q = qkv.slice_cols(0, hidden);
  attending.k = qkv.slice_cols(hidden, hidden);
  attending.v = qkv.slice_cols(2 * hidden, hidden);

  Output& out = output;
  out.heads_ = c.heads;
  out.offsets_ = offsets;
  out.hidden_states.clear();
  out.attention_.assign(depth, nullptr);

  const Matrix<float> embedded = projected ? arena.take<float>(tokens, c.embedding_size()) : sum;
  embed(w, batch, positions, embedded, team);
  kernels::layer_norm_forward(embedded, w.embedding_norm, norm_first ? x : embedded, team);
  if (projected) kernels::linear_forward(embedded, w.projection, kernels::Activation::none, x, team);

  if (capture.hidden_states) out.hidden_states.push_back(sum);
  for (size_t l = 0; l < depth; ++l) {
    const LayerWeights& layer = w.layer(l);
    kernels::linear_forward(x, layer.qkv, kernels::Activation::none, qkv, team);
    if (cache) {
      attending.run_cached(l, context, workspace, team);
    } else if (capture.wants_attention(l)) {
      float* weights = arena.take<float>(weights_size);
      dot_product::exact(attending.whole(l), context, {weights, weights_size}, workspace, team);
      out.attention_[l] = weights;
    } else {
      dot_product::tiled(attending.whole(l), context, {}, workspace, team);
    }
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
  for (size_t s = 0; cache && s < batch.size(); ++s)
    cache->sequences[s].length += size_t(batch.offsets[s + 1] - batch.offsets[s]);
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
