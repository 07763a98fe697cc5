// Encoding, decoding, and writing greedily.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bertie/error.h"
#include "bertie/transformer.h"
#include "model/cache.h"
#include "model/heads.h"
#include "model/pass.h"
#include "model/transformer_weights.h"
#include "model/trunk.h"

namespace bertie {

// Two passes: what the decoder reads of the sources stays while it decodes, more than once.
struct TransformerRun::State {
  State(const Transformer& m, int threads)
      : model(m),
        source(threads),
        target(threads),
        encoder(m.weights().encoder, source),
        decoder(m.weights().decoder, target) {}
  Transformer model;
  Pass source, target;
  TrunkPass encoder, decoder;
  TransformerOutput read, written;
  bool encoded = false;
  std::vector<Matrix<const float>> key_values;  // for each of the decoder's layers, the sources' (Ts, 2·C)
  std::optional<Cache> cache;                   // generate's

  const TransformerOutput& encode(const Batch& batch, const TransformerCapture& capture);
  const TransformerOutput& decode(const Batch& batch, const TransformerCapture& capture, KeyValues* past);
  std::vector<std::vector<int32_t>> generate(const Batch& sources, size_t max_new_tokens);
};

TransformerRun::TransformerRun(const Transformer& model, int threads)
    : state_(std::make_unique<State>(model, threads)) {}
TransformerRun::TransformerRun(TransformerRun&&) noexcept = default;
TransformerRun& TransformerRun::operator=(TransformerRun&&) noexcept = default;
TransformerRun::~TransformerRun() = default;
int TransformerRun::threads() const { return state_->source.team().threads(); }
size_t TransformerRun::memory() const {
  return state_->source.memory() + state_->target.memory() + (state_->cache ? state_->cache->memory() : 0);
}

const TransformerOutput& TransformerRun::State::encode(const Batch& batch,
                                                       const TransformerCapture& capture) {
  const TransformerWeights& w = model.weights();
  check_batch(batch, w.encoder.embeddings, w.config.positions, nullptr);
  encoded = false;  // what decode looks at is about to go
  encoder.start(batch, {.wants_attention = [&](size_t) { return capture.attention; },
                        .hidden_states = capture.hidden_states});
  source.arena.run([&] {
    read.last_hidden = encoder.forward();
    key_values.clear();
    for (const LayerWeights& layer : w.decoder.layers) {
      const Matrix<float> key_value = source.take(read.last_hidden.rows(), 2 * w.config.hidden);
      source.linear(read.last_hidden, layer.cross.key_value, Activation::kNone, key_value);
      key_values.push_back(key_value);
    }
  });
  read.hidden_states = encoder.hidden_states;
  read.attention.set(w.encoder.shape.heads, encoder.offsets(), encoder.offsets(), encoder.attention);
  encoded = true;
  return read;
}

const TransformerOutput& TransformerRun::State::decode(const Batch& batch, const TransformerCapture& capture,
                                                       KeyValues* past) {
  const TransformerWeights& w = model.weights();
  if (!encoded) throw Error("there is nothing to decode for", "encode the sources first");
  check_batch(batch, w.decoder.embeddings, w.config.positions, past);
  if (batch.size() + 1 != encoder.offsets().size())
    throw Error(fmt::format("{} targets for the {} sources that were encoded", batch.size(),
                            encoder.offsets().size() - 1));
  if (past && capture.attention)
    throw Error("attention weights cannot be captured with a cache", "read the whole target without one");
  check_rows(capture.rows, batch.ids.size());
  decoder.start(batch, {.cache = past,
                        .wants_attention = [&](size_t) { return capture.attention; },
                        .hidden_states = capture.hidden_states,
                        .source = {.offsets = encoder.offsets()},
                        .source_key_values = key_values});
  target.arena.run([&] {
    Matrix<const float> x = written.last_hidden = decoder.forward();
    written.logits = {};
    if (!capture.logits) return;
    if (!capture.rows.empty()) x = target.gather_rows(x, capture.rows);
    const Matrix<float> logits = target.take(x.rows(), w.config.vocabulary);
    target.linear(x, w.output(), Activation::kNone, logits);
    written.logits = logits;
  });
  written.hidden_states = decoder.hidden_states;
  const size_t heads = w.decoder.shape.heads;
  written.attention.set(heads, decoder.offsets(), decoder.offsets(), decoder.attention);
  written.cross.set(heads, decoder.offsets(), encoder.offsets(), decoder.cross_attention);
  return written;
}

std::vector<std::vector<int32_t>> TransformerRun::State::generate(const Batch& sources,
                                                                  size_t max_new_tokens) {
  const TransformerConfig& c = model.config();
  if (max_new_tokens > c.positions)
    throw Error(fmt::format("{} new tokens, but the model has positions for {}", max_new_tokens, c.positions),
                "a smaller max_new_tokens");
  encode(sources, {});
  const size_t count = sources.size();
  if (!cache || cache->sequences() != count) cache.emplace(model, count);
  for (size_t s = 0; s < count; ++s) cache->keep(s, 0);

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
        decode({.ids = ids, .offsets = offsets}, {}, cache->state_.get()).logits;
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
