#include "model/trunk.h"

#include <fmt/format.h>

#include <algorithm>

#include "bertie/error.h"
#include "kernels/embedding.h"
#include "model/tensors.h"

namespace bertie {
namespace {

size_t length_of(std::span<const int32_t> offsets, size_t s) { return size_t(offsets[s + 1] - offsets[s]); }

}  // namespace

void check_batch(const Batch& b, const EmbeddingWeights& w, size_t max_tokens, const KeyValues* cache) {
  if (b.offsets.empty() || b.offsets.front() != 0 || size_t(b.offsets.back()) != b.ids.size())
    throw Error(fmt::format("batch: offsets must go from 0 to the number of ids, {}", b.ids.size()));
  if (!b.types.empty() && b.types.size() != b.ids.size())
    throw Error(fmt::format("batch: {} types for {} ids", b.types.size(), b.ids.size()));
  if (cache && cache->most != max_tokens) throw Error("the cache was made for another model");
  if (cache && cache->sequences.size() != b.size())
    throw Error(fmt::format("batch: {} sequences, but the cache has {}", b.size(), cache->sequences.size()));
  for (size_t s = 0; s < b.size(); ++s) {
    if (b.offsets[s] > b.offsets[s + 1])
      throw Error(fmt::format("batch: offsets go back at sequence {}: {} after {}", s, b.offsets[s + 1],
                              b.offsets[s]));
    const size_t tokens = length_of(b.offsets, s) + (cache ? cache->sequences[s].length : 0);
    if (tokens > max_tokens)
      throw Error(
          fmt::format("sequence {} has {} tokens, but the model has positions for {}", s, tokens, max_tokens),
          "truncate it, or split it into windows");
  }
  const size_t vocabulary = w.word->shape.at(0);
  for (size_t t = 0; t < b.ids.size(); ++t)
    if (b.ids[t] < 0 || size_t(b.ids[t]) >= vocabulary)
      throw Error(fmt::format("token id {} at {} is outside the vocabulary of {}", b.ids[t], t, vocabulary),
                  "the tokenizer and the model may not belong together");
  for (size_t t = 0; t < b.types.size() && w.types > 1; ++t)
    if (b.types[t] < 0 || size_t(b.types[t]) >= w.types)
      throw Error(fmt::format("token type {} at {} is outside the model's {} types", b.types[t], t, w.types));
}

void check_rows(std::span<const int32_t> rows, size_t tokens) {
  for (int32_t row : rows)
    if (row < 0 || size_t(row) >= tokens)
      throw Error(fmt::format("Capture::rows: there is no token {} in a batch of {}", row, tokens));
}

void TrunkPass::start(const Batch& batch, const Options& options) {
  batch_ = batch, options_ = options;
  offsets_.assign(batch.offsets.begin(), batch.offsets.end());
  if (options.cache) {
    if (options.cache->depth != w_.depth() || options.cache->hidden != w_.shape.hidden)
      throw Error("the cache was made for another model");
    for (size_t s = 0; s < batch.size(); ++s)
      options.cache->grow(s, options.cache->sequences[s].length + length_of(offsets_, s));
  }
  types_.reserve(size_t(offsets_.back()));
  row_numbers_.clear();
  wanted_numbers_.clear();
  if (options.dropout_seed) {
    number_rows(offsets_, options.first_sequence, row_numbers_);
    for (const int32_t row : options.wanted) wanted_numbers_.push_back(row_numbers_[size_t(row)]);
  }
  find_positions();
}

// Which row of the position table each token adds: its place in the sequence, with a cache after what that
// holds.
void TrunkPass::find_positions() {
  const EmbeddingWeights& e = w_.embeddings;
  positions_.resize(offsets_.empty() ? 0 : size_t(offsets_.back()));
  if (positions_.size() != batch_.ids.size()) return;  // reserving: there are no ids
  for (size_t s = 0; s < batch_.size(); ++s) {
    int32_t next = options_.cache ? int32_t(options_.cache->sequences[s].length) : 0;
    if (e.positions_after) next = *e.positions_after + 1;
    for (auto t = size_t(offsets_[s]); t < size_t(offsets_[s + 1]); ++t)
      positions_[t] = e.positions_after && batch_.ids[t] == *e.positions_after ? *e.positions_after : next++;
  }
}

DropoutSeed TrunkPass::dropout() const {
  if (!options_.dropout_seed) return {.first_sequence = options_.first_sequence};
  return {*options_.dropout_seed, row_numbers_, options_.first_sequence};
}

// What does not learn drops nothing.
DropoutSeed TrunkPass::layer_dropout(size_t l) const {
  return l < options_.frozen_layers.value_or(0) ? DropoutSeed{.first_sequence = options_.first_sequence}
                                                : dropout();
}

RowDropout TrunkPass::embedding_mask() const {
  if (options_.frozen_layers) return {};
  return mask_for(dropout(), w_.shape.dropout.embedding, w_.embedding_place);
}

Layer TrunkPass::layer(size_t l) const {
  const bool narrow = l + 1 == w_.depth() && !options_.wanted.empty();
  DropoutSeed dropout = layer_dropout(l);
  if (narrow && !dropout.rows.empty()) dropout.rows = wanted_numbers_;
  CrossInput source = options_.source;
  if (!options_.source_key_values.empty()) source.key_value = options_.source_key_values[l];
  return {.shape = w_.shape,
          .w = w_.layer(l),
          .number = l,
          .scale = w_.scales[l],
          .offsets = offsets_,
          .source = source,
          .dropout = dropout,
          .wanted = narrow ? options_.wanted : std::span<const int32_t>(),
          .off = options_.off.empty() ? std::span<const size_t>() : options_.off[l],
          .place = w_.first_place + l,
          .cross_place = w_.first_place + w_.depth() + l,
          .cache = options_.cache,
          .pass = pass_};
}

void TrunkPass::take_states() {
  const size_t rows = size_t(offsets_.back());
  const auto state = [&] { return pass_.take(rows, w_.shape.hidden); };
  LayerStates& s = states_;
  const auto inside = [&] { return pass_.take_apart(rows, w_.shape.hidden); };  // nobody outside sees it
  s = {.x = state(), .y = {}, .h = inside(), .c = {}};
  s.y = s.x;
  s.c = !w_.layers.empty() && w_.layers[0].has_cross() ? state() : s.h;
  if (w_.shape.norm_first) s.sum = state(), s.middle = state(), s.next_sum = s.sum;
}

void TrunkPass::embed(Matrix<float> y) {
  if (pass_.counting()) return;
  const EmbeddingWeights& e = w_.embeddings;
  const bool types = e.types > 1 && !batch_.types.empty();
  constexpr size_t kRows = 32;
  pass_.team().parallel_for((y.rows() + kRows - 1) / kRows, [&](size_t chunk) {
    for (size_t t = chunk * kRows; t < std::min(y.rows(), (chunk + 1) * kRows); ++t) {
      io::to_float(*e.word, size_t(batch_.ids[t]) * e.width, y[t]);
      if (e.word_scale != 1)
        for (float& x : y[t]) x *= e.word_scale;
      const float* type = e.type ? e.type + (types ? size_t(batch_.types[t]) : 0) * e.width : nullptr;
      kernels::add_position_and_type(e.position + size_t(positions_[t]) * e.width, type, y[t]);
    }
  });
}

void TrunkPass::embeddings_forward() {
  const EmbeddingWeights& e = w_.embeddings;
  const bool norm_first = w_.shape.norm_first, projected = e.projection.outputs > 0;
  const LayerStates& s = states_;
  narrow_ = projected ? pass_.take(s.x.rows(), e.width) : s.x;
  if (!e.norm.gamma) {
    embed(s.x);
    return pass_.dropout(embedding_mask(), s.x);
  }
  const Matrix<float> embedded = norm_first ? s.sum : narrow_;
  embed(embedded);
  if (!options_.keep && !options_.dropout_seed) {
    pass_.norm(embedded, e.norm, norm_first ? s.x : embedded);
    if (projected) pass_.linear(embedded, e.projection, Activation::kNone, s.x);
    return;
  }
  embedded_ = pass_.take_normalized(s.x.rows(), e.width);
  const RowDropout mask = norm_first ? embedding_mask() : RowDropout{};
  if (!pass_.counting())
    kernels::layer_norm_training_forward(embedded, mask, {}, e.norm, norm_first ? s.sum : Matrix<float>(),
                                         embedded_, norm_first ? s.x : Matrix<float>(), pass_.team());
  if (!norm_first) embeddings_output(s.x);
}

// What goes into the first layer, from the normalized embeddings.
void TrunkPass::embeddings_output(Matrix<float> x) {
  const EmbeddingWeights& e = w_.embeddings;
  if (!e.norm.gamma) {
    embed(x);
    return pass_.dropout(embedding_mask(), x);
  }
  const bool projected = e.projection.outputs > 0;
  const Matrix<float> y = projected ? narrow_ : x;
  pass_.normalized_output(embedded_, e.norm, y);
  if (w_.shape.norm_first) return;
  pass_.dropout(embedding_mask(), y);
  if (projected) pass_.linear(y, e.projection, Activation::kNone, x);
}

std::span<float> TrunkPass::take_weights(size_t l, size_t heads, std::span<const int32_t> keys) {
  if (!options_.wants_attention || !options_.wants_attention(l)) return {};
  size_t size = 0;
  for (size_t s = 0; s + 1 < offsets_.size(); ++s)
    size += heads * length_of(offsets_, s) * length_of(keys, s);
  return {pass_.arena.take<float>(size), size};
}

// Whether backward looks at what layer l keeps: also the last frozen layer's, whose output the first one that
// learns begins with.
bool TrunkPass::keeps(size_t l) const { return options_.keep && l + 1 >= options_.frozen_layers.value_or(0); }

// For all layers before the first: so what a layer takes beside it is the same memory, still in the cache, in
// each.
void TrunkPass::take_kept() {
  kept_.assign(options_.keep ? w_.depth() : 0, {});
  const KeptLayer* first = nullptr;
  for (size_t l = 0; l < kept_.size(); ++l) {
    if (!keeps(l)) continue;
    // Recomputing, layers share all but what the next one begins with, where they are as wide.
    if (!first || !options_.recompute || first->attention.context.cols() != layer(l).width()) {
      kept_[l] = layer(l).take_kept();
      first = &kept_[l];
    } else {
      kept_[l] = layer(l).narrowed(*first);
      kept_[l].norm = pass_.take_normalized(kept_[l].up.rows(), states_.x.cols());
    }
    if (options_.recompute && w_.shape.norm_first)
      kept_[l].sum = pass_.take(states_.x.rows(), states_.x.cols());
  }
}

Matrix<const float> TrunkPass::forward() {
  const size_t depth = w_.depth();
  const bool norm_first = w_.shape.norm_first;
  LayerStates& s = states_;
  hidden_states.clear();
  attention.assign(depth, nullptr), cross_attention.assign(depth, nullptr);
  take_states();
  embeddings_forward();
  Matrix<float>& carried = norm_first ? s.sum : s.x;  // what goes from layer to layer
  Matrix<float>& next = norm_first ? s.next_sum : s.y;
  if (options_.hidden_states) hidden_states.push_back(carried);
  take_kept();
  for (size_t l = 0; l < depth; ++l) {
    const Layer one = layer(l);
    // A state that was handed out stays; otherwise the next goes where this one was.
    if (options_.hidden_states) next = pass_.take(s.x.rows(), s.x.cols());
    AttentionRoom room{.self = take_weights(l, one.heads(), offsets_)};
    if (one.w.has_cross()) room.cross = take_weights(l, w_.shape.heads, one.source.offsets);
    attention[l] = room.self.data(), cross_attention[l] = room.cross.data();
    one.forward(s, keeps(l) ? &kept_[l] : nullptr, room);
    carried = next;
    // What transformers calls the last hidden state went through the norm at the end.
    if (options_.hidden_states) hidden_states.push_back(l + 1 == depth ? s.y : carried);
  }
  if (KeyValues* cache = options_.cache; cache && !pass_.counting())
    for (size_t q = 0; q < batch_.size(); ++q) cache->sequences[q].length += length_of(offsets_, q);
  return depth > 0 ? layer(depth - 1).narrowed(s).y : s.y;
}

Matrix<float> TrunkPass::take_gradient() {
  const Matrix<float> d = pass_.take(states_.x.rows(), states_.x.cols());
  pass_.fill(d, 0);
  return d;
}

void TrunkPass::backward(const TrunkWeights& gradient, Matrix<float> d, Matrix<float> d_source,
                         const std::function<void(const LayerWeights&)>& layer_done) {
  const Arena::Scope scope(pass_.arena);
  const Matrix<float> carry = w_.shape.norm_first ? take_gradient() : Matrix<float>();
  for (size_t l = w_.depth(); l-- > options_.frozen_layers.value_or(0);) {
    if (l == 0)
      embeddings_output(states_.x);
    else
      pass_.normalized_output(kept_[l - 1].norm, w_.layer(l - 1).output_norm, states_.x);
    const LayerWeights& to = gradient.layer(l);
    Layer::Gradients gradients{.w = to, .d = d, .carry = carry, .d_source = d_source};
    if (options_.on_context)
      gradients.on_context = [&](Matrix<const float> d_context) {
        options_.on_context(l, d_context, kept_[l].attention);
      };
    layer(l).backward(states_, kept_[l], gradients, options_.recompute);
    if (layer_done && !pass_.counting()) layer_done(to);
  }
  if (!options_.frozen_layers) embeddings_backward(gradient.embeddings, d, carry);
}

// From d, the gradient of what goes into the first layer, to the tables. A batch has no padding, so there is
// no exception for it: a text that has "[PAD]" in it has a token of that name.
void TrunkPass::embeddings_backward(const EmbeddingWeights& g, Matrix<float> d, Matrix<float> carry) {
  const EmbeddingWeights& e = w_.embeddings;
  const RowDropout mask = embedding_mask();
  const bool drops = mask.dropout.rate > 0;
  if (e.projection.outputs > 0) {  // narrow_ holds what was projected: embeddings_output has just made it
    pass_.linear_backward(narrow_, d, e.projection, g.projection, narrow_);
    d = narrow_;
  }
  if (!e.norm.gamma) {
    pass_.dropout(mask, d);
  } else if (w_.shape.norm_first) {
    const Arena::Scope scope(pass_.arena);
    float* const workspace =
        pass_.arena.take<float>(kernels::layer_norm_backward_workspace(d.rows(), d.cols()));
    if (!pass_.counting())
      kernels::layer_norm_training_backward(d, embedded_, e.norm, carry, mask, carry,
                                            drops ? d : Matrix<float>(), g.norm, workspace, pass_.team());
    if (!drops) d = carry;
  } else {
    pass_.dropout(mask, d);
    pass_.norm_backward(d, embedded_, e.norm, d, g.norm);
  }
  if (pass_.counting()) return;
  if (e.constant_word)
    for (size_t t = 0; t < batch_.ids.size(); ++t)
      if (batch_.ids[t] == *e.constant_word) std::fill_n(d.row(t), d.cols(), 0.0f);
  Team& team = pass_.team();
  kernels::embedding_backward(batch_.ids, d, e.word_scale,
                              {table_numbers(*g.word), e.word->shape[0], e.width}, team);
  if (e.learns_positions)
    kernels::embedding_backward(positions_, d, 1, {g.position, e.positions, e.width}, team);
  if (!e.type) return;
  types_.assign(batch_.ids.size(), 0);
  if (e.types > 1 && !batch_.types.empty()) types_.assign(batch_.types.begin(), batch_.types.end());
  kernels::embedding_backward(types_, d, 1, {g.type, e.types, e.width}, team);
}

}  // namespace bertie
