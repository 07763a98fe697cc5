// Encoding, decoding, and writing greedily.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bertie/error.h"
#include "bertie/transformer.h"
#include "core/arena.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "model/attending.h"
#include "model/batch.h"
#include "model/cache.h"
#include "model/embed.h"
#include "model/transformer_weights.h"

namespace bertie {

using kernels::Activation;

struct TransformerRun::State {
  State(const Transformer& m, int threads) : model(m), team(threads > 0 ? threads : available_threads()) {}
  Transformer model;
  Team team;

  // What a side computes with and leaves.
  struct Side {
    Arena arena;
    TransformerOutput output;
    std::vector<int32_t> offsets, positions;  // the batch's
  };
  Side source, target;
  bool encoded = false;
  std::vector<Matrix<const float>> cross;  // for each of the decoder's layers, the sources' (Ts, 2·C)
  std::optional<Cache> written;            // generate's

  const TransformerOutput& encode(const Batch& batch, const TransformerCapture& capture);
  const TransformerOutput& decode(const Batch& batch, const TransformerCapture& capture, KeyValues* cache);
  Matrix<const float> run(Side& side, const SideWeights& weights, const Batch& batch,
                          const TransformerCapture& capture, KeyValues* cache, Checked more_bytes);
  std::vector<std::vector<int32_t>> generate(const Batch& sources, size_t max_new_tokens);
};

TransformerRun::TransformerRun(const Transformer& model, int threads)
    : state_(std::make_unique<State>(model, threads)) {}
TransformerRun::TransformerRun(TransformerRun&&) noexcept = default;
TransformerRun& TransformerRun::operator=(TransformerRun&&) noexcept = default;
TransformerRun::~TransformerRun() = default;
int TransformerRun::threads() const { return state_->team.threads(); }
size_t TransformerRun::memory() const {
  return state_->source.arena.capacity() + state_->target.arena.capacity() +
         (state_->written ? state_->written->memory() : 0);
}

// One side's embeddings and layers; the last hidden states. Leaves `more_bytes` of the arena for what comes
// after.
Matrix<const float> TransformerRun::State::run(Side& side, const SideWeights& weights, const Batch& batch,
                                               const TransformerCapture& capture, KeyValues* cache,
                                               Checked more_bytes) {
  const TransformerWeights& w = model.weights();
  const size_t depth = weights.layers.size(), hidden = w.config.hidden;
  const bool decoder = !weights.cross.empty();
  const size_t tokens = batch.ids.size(), wide = std::max(3 * hidden, weights.ffn);
  side.offsets.assign(batch.offsets.begin(), batch.offsets.end());

  const Matrix<const float> q_shape(nullptr, tokens, hidden, 3 * hidden);
  Attending self{{.q = q_shape,
                  .k = q_shape,
                  .v = q_shape,
                  .q_offsets = side.offsets,
                  .k_offsets = side.offsets,
                  .heads = weights.heads,
                  .scale = 1.0f / std::sqrt(float(hidden / weights.heads)),
                  .look = decoder ? Look::causal() : Look()},
                 cache};
  Attending over_source{self.batch};
  if (decoder) {
    over_source.batch.k_offsets = source.offsets;
    over_source.batch.k = cross[0].slice_cols(0, hidden);
    over_source.batch.v = cross[0].slice_cols(hidden, hidden);
    over_source.batch.look = {};
  }
  const bool kept = capture.attention;
  const size_t self_size = kept ? dot_product::weights_size(self.batch) : 0,
               cross_size = kept && decoder ? dot_product::weights_size(over_source.batch) : 0;
  const size_t workspace_bytes =
      std::max(self.workspace_bytes(kept, team.threads()),
               decoder ? over_source.workspace_bytes(kept, team.threads()) : size_t{0});

  // One piece of memory for everything: the states to keep, what one layer needs, and what comes after.
  const size_t states = capture.hidden_states ? depth + 1 : 1;
  const Checked bytes = Checked(states + 3) * Arena::bytes_for<float>(tokens * hidden) +
                        Checked(Arena::bytes_for<float>(tokens * wide)) +
                        Checked(depth) * (Checked(Arena::bytes_for<float>(self_size)) +
                                          Checked(Arena::bytes_for<float>(cross_size))) +
                        Checked(workspace_bytes) + more_bytes;
  Arena& arena = side.arena;
  arena.reset(bytes.value());
  const auto state = [&] { return arena.take<float>(tokens, hidden); };
  Matrix<float> x = state();
  const Matrix<float> after_self = state(), after_cross = decoder ? state() : after_self, context = state();
  float* const wide_memory = arena.take<float>(tokens * wide);
  std::byte* const workspace = arena.take<std::byte>(workspace_bytes);
  const Matrix<float> qkv(wide_memory, tokens, 3 * hidden), query(wide_memory, tokens, hidden),
      inner(wide_memory, tokens, weights.ffn);
  self.batch.q = qkv.slice_cols(0, hidden);
  self.batch.k = qkv.slice_cols(hidden, hidden);
  self.batch.v = qkv.slice_cols(2 * hidden, hidden);
  over_source.batch.q = query;

  TransformerOutput& out = side.output;
  out.hidden_states.clear();
  out.logits = {};
  out.attention.start(depth, weights.heads, side.offsets, side.offsets);
  out.cross.start(decoder ? depth : 0, weights.heads, side.offsets, source.offsets);
  const auto room = [&](size_t size) { return kept ? arena.take<float>(size) : nullptr; };

  find_positions(batch, cache, side.positions);
  embed(w, batch, side.positions, x, team);
  if (capture.hidden_states) out.hidden_states.push_back(x);
  for (size_t l = 0; l < depth; ++l) {
    const LayerWeights& layer = weights.layers[l];
    kernels::linear_forward(x, layer.qkv, Activation::none, qkv, team);
    float* const self_weights = room(self_size);
    self.run(l, context, self_weights, workspace, team);
    out.attention.set(l, self_weights);
    kernels::linear_residual_layer_norm_forward(context, layer.attention_out, x, layer.attention_norm,
                                                after_self, team);
    if (decoder) {
      const CrossWeights& c = weights.cross[l];
      kernels::linear_forward(after_self, c.query, Activation::none, query, team);
      over_source.batch.k = cross[l].slice_cols(0, hidden);
      over_source.batch.v = cross[l].slice_cols(hidden, hidden);
      float* const cross_weights = room(cross_size);
      over_source.run(l, context, cross_weights, workspace, team);
      out.cross.set(l, cross_weights);
      kernels::linear_residual_layer_norm_forward(context, c.out, after_self, c.norm, after_cross, team);
    }
    kernels::linear_forward(after_cross, layer.up, w.activation, inner, team);
    // A state that was handed out stays; otherwise there is room for the next where this one was.
    if (capture.hidden_states) x = state();
    kernels::linear_residual_layer_norm_forward(inner, layer.down, after_cross, layer.output_norm, x, team);
    if (capture.hidden_states) out.hidden_states.push_back(x);
  }
  out.last_hidden = x;
  return x;
}

const TransformerOutput& TransformerRun::State::encode(const Batch& batch,
                                                       const TransformerCapture& capture) {
  const TransformerWeights& w = model.weights();
  const size_t hidden = w.config.hidden, tokens = batch.ids.size(), layers = w.decoder.layers.size();
  check_batch(batch, w.config.vocabulary, w.config.positions, nullptr);
  encoded = false;  // what decode looks at is about to go
  const Matrix<const float> read = run(source, w.encoder, batch, capture, nullptr,
                                       Checked(layers) * Arena::bytes_for<float>(tokens * 2 * hidden));
  cross.clear();
  for (const CrossWeights& c : w.decoder.cross) {
    const Matrix<float> key_value = source.arena.take<float>(tokens, 2 * hidden);
    kernels::linear_forward(read, c.key_value, Activation::none, key_value, team);
    cross.push_back(key_value);
  }
  encoded = true;
  return source.output;
}

const TransformerOutput& TransformerRun::State::decode(const Batch& batch, const TransformerCapture& capture,
                                                       KeyValues* cache) {
  const TransformerWeights& w = model.weights();
  const TransformerConfig& c = w.config;
  if (!encoded) throw Error("there is nothing to decode for", "encode the sources first");
  if (cache) check_cache(*cache, batch.size(), c.decoder_layers, c.hidden);
  check_batch(batch, c.vocabulary, c.positions, cache);
  if (batch.size() + 1 != source.offsets.size())
    throw Error(fmt::format("{} targets for the {} sources that were encoded", batch.size(),
                            source.offsets.size() - 1));
  if (cache && capture.attention)
    throw Error("attention weights cannot be captured with a cache", "read the whole target without one");
  check_rows(capture.rows, batch.ids.size());
  if (cache) grow(*cache, batch);

  const size_t some = capture.rows.size(), rows = some ? some : batch.ids.size();
  const Checked logits_bytes = Checked(Arena::bytes_for<float>(some * c.hidden)) +
                               Arena::bytes_for<float>((Checked(rows) * c.vocabulary).value());
  Matrix<const float> x =
      run(target, w.decoder, batch, capture, cache, capture.logits ? logits_bytes : Checked(0));
  if (cache) advance(*cache, batch);
  if (capture.logits) {
    if (some) {
      const Matrix<float> chosen = target.arena.take<float>(some, c.hidden);
      for (size_t i = 0; i < some; ++i) std::copy_n(x.row(size_t(capture.rows[i])), c.hidden, chosen.row(i));
      x = chosen;
    }
    const Matrix<float> logits = target.arena.take<float>(rows, c.vocabulary);
    kernels::linear_forward(x, w.output(), Activation::none, logits, team);
    target.output.logits = logits;
  }
  return target.output;
}

std::vector<std::vector<int32_t>> TransformerRun::State::generate(const Batch& sources,
                                                                  size_t max_new_tokens) {
  const TransformerConfig& c = model.config();
  if (max_new_tokens > c.positions)
    throw Error(fmt::format("{} new tokens, but the model has positions for {}", max_new_tokens, c.positions),
                "a smaller max_new_tokens");
  encode(sources, {});
  const size_t count = sources.size();
  if (!written || written->sequences() != count) written.emplace(model, count);
  for (size_t s = 0; s < count; ++s) written->keep(s, 0);

  // The sequences that go on have one token in the next batch, those that ended none.
  std::vector<std::vector<int32_t>> texts(count);
  std::vector<int32_t> next(count, c.start_id), ids, offsets;
  for (size_t step = 0; step < max_new_tokens; ++step) {
    ids.clear();
    offsets.assign(1, 0);
    for (int32_t id : next) {
      if (id >= 0) ids.push_back(id);
      offsets.push_back(int32_t(ids.size()));
    }
    if (ids.empty()) break;
    const Matrix<const float> logits =
        decode({.ids = ids, .offsets = offsets}, {}, written->state_.get()).logits;
    for (size_t s = 0; s < count; ++s) {
      if (next[s] < 0) continue;
      const std::span<const float> row = logits[size_t(offsets[s])];
      size_t best = c.pad_id == 0 && row.size() > 1 ? 1 : 0;
      for (size_t id = best + 1; id < row.size(); ++id)
        if (row[id] > row[best] && int32_t(id) != c.pad_id) best = id;
      texts[s].push_back(int32_t(best));
      next[s] = int32_t(best) == c.eos_id ? -1 : int32_t(best);
    }
  }
  return texts;
}

const TransformerOutput& TransformerRun::encode(const Batch& sources, const TransformerCapture& capture) {
  return state_->encode(sources, capture);
}

const TransformerOutput& TransformerRun::decode(const Batch& targets, const TransformerCapture& capture) {
  return state_->decode(targets, capture, nullptr);
}

const TransformerOutput& TransformerRun::decode(const Batch& targets, const TransformerCapture& capture,
                                                Cache& cache) {
  return state_->decode(targets, capture, cache.state_.get());
}

std::vector<std::vector<int32_t>> TransformerRun::generate(const Batch& sources, size_t max_new_tokens) {
  return state_->generate(sources, max_new_tokens);
}

}  // namespace bertie
