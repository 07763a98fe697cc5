#include "model/layer_pass.h"

#include <algorithm>

#include "core/random.h"

namespace bertie {

using kernels::Accumulate, kernels::Activation, kernels::RowDropout;

namespace {

enum Site : uint32_t { kAttention, kAttentionOut, kActivation, kFeedForward, kElsewhere };

Dropout dropout_at(float rate, uint64_t seed, size_t place, Site site) {
  const auto words = philox({uint32_t(place), site, 0x4D61736B, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
  return {rate, uint64_t{words[0]} << 32 | words[1]};
}

RowDropout rows_at(const PassShape& shape, float rate, uint64_t seed, size_t place, Site site) {
  if (shape.rows.empty() || rate == 0) return {};
  return {dropout_at(rate, seed, place, site), shape.rows};
}

dot_product::Batch attention_batch(const PassShape& shape, Matrix<const float> qkv, float scale,
                                   const Dropout& dropout) {
  const size_t c = shape.hidden;
  return {.q = qkv.slice_cols(0, c),
          .k = qkv.slice_cols(c, c),
          .v = qkv.slice_cols(2 * c, c),
          .q_offsets = shape.offsets,
          .k_offsets = shape.offsets,
          .heads = shape.heads,
          .scale = scale,
          .look = shape.look,
          .dropout = dropout,
          .first_sequence = shape.first_sequence};
}

// Columns 0..cols-1 of the scratch memory, close together.
Matrix<float> narrow(Matrix<float> wide, size_t cols) { return {wide.data(), wide.rows(), cols}; }

}  // namespace

void number_rows(std::span<const int32_t> offsets, uint32_t first_sequence, std::vector<uint64_t>& rows) {
  rows.resize(size_t(offsets.back()));
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int32_t t = offsets[s]; t < offsets[s + 1]; ++t)
      rows[size_t(t)] = uint64_t{first_sequence + s} << 32 | uint32_t(t - offsets[s]);
}

LayerMasks masks_for(const PassShape& shape, uint64_t seed, size_t layer) {
  LayerMasks masks;
  if (!shape.rows.empty() && shape.attention_rate > 0)
    masks.attention = dropout_at(shape.attention_rate, seed, layer, kAttention);
  masks.attention_out = rows_at(shape, shape.attention_out_rate, seed, layer, kAttentionOut);
  masks.activation = rows_at(shape, shape.activation_rate, seed, layer, kActivation);
  masks.feed_forward = rows_at(shape, shape.feed_forward_rate, seed, layer, kFeedForward);
  return masks;
}

RowDropout mask_for(const PassShape& shape, float rate, uint64_t seed, size_t place) {
  return rows_at(shape, rate, seed, place, kElsewhere);
}

size_t attention_workspace(const PassShape& shape, int threads, bool backward) {
  const Matrix<const float> qkv(nullptr, shape.tokens(), 3 * shape.hidden);
  const dot_product::Batch batch = attention_batch(shape, qkv, 1, {});
  const size_t forward = dot_product::workspace_bytes(batch, false, threads);
  return backward ? std::max(forward, dot_product::backward_workspace_bytes(batch, threads)) : forward;
}

size_t backward_workspace(const LayerWeights& layer, size_t tokens) {
  size_t most = kernels::layer_norm_backward_workspace(tokens, layer.down.outputs);
  for (const kernels::Linear* l : {&layer.qkv, &layer.attention_out, &layer.up, &layer.down})
    most = std::max({most, kernels::linear_backward_input_workspace(*l),
                     kernels::linear_backward_weights_workspace(*l, tokens)});
  return most;
}

size_t bf16_workspace(const LayerWeights& layer, size_t tokens) {
  size_t most = 0;
  for (const kernels::Linear* l : {&layer.qkv, &layer.attention_out, &layer.up, &layer.down})
    most = std::max(most, kernels::mixed_workspace(*l, tokens));
  return most;
}

kernels::Normalised take_normalised(Arena& arena, size_t tokens, size_t width) {
  return {arena.take<float>(tokens, width), {arena.take<float>(tokens), tokens}};
}

KeptAttention take_attention(Arena& arena, const PassShape& shape) {
  const size_t t = shape.tokens();
  return {.qkv = arena.take<float>(t, 3 * shape.hidden),
          .context = arena.take<float>(t, shape.hidden),
          .log_sums = {arena.take<float>(t * shape.heads), t * shape.heads},
          .norm = take_normalised(arena, t, shape.hidden)};
}

KeptFeedForward take_feed_forward(Arena& arena, const PassShape& shape) {
  return {.up = arena.take<float>(shape.tokens(), shape.inner),
          .norm = take_normalised(arena, shape.tokens(), shape.hidden)};
}

size_t kept_bytes(const PassShape& shape) {
  const size_t t = shape.tokens(), c = shape.hidden;
  size_t bytes = 0;
  for (size_t floats : {3 * c, c, shape.heads, c, size_t{1}, shape.inner, c, size_t{1}})
    bytes += Arena::bytes_for<float>(t * floats);
  return bytes;
}

void LayerPass::attend(Matrix<const float> x, Matrix<float> sum, const KeptAttention& kept,
                       Matrix<float> h) const {
  kernels::mixed_forward(x, w.qkv, Activation::none, kept.qkv, scratch.rounded, team);
  dot_product::tiled(attention_batch(shape, kept.qkv, scale, masks.attention), kept.context, kept.log_sums,
                     scratch.attention, team);
  kernels::mixed_forward(kept.context, w.attention_out, Activation::none, scratch.product, scratch.rounded,
                         team);
  kernels::layer_norm_training_forward(scratch.product, masks.attention_out, sum, w.attention_norm,
                                       shape.norm_first ? sum : Matrix<float>(), kept.norm, h, team);
}

void LayerPass::feed_forward(Matrix<const float> h, Matrix<float> sum, const KeptFeedForward& kept,
                             Matrix<float> y) const {
  const Matrix<float> inner = narrow(scratch.wide, shape.inner);
  kernels::mixed_forward(h, w.up, shape.activation, inner, scratch.rounded, team, kept.up);
  if (masks.activation.dropout.rate > 0) kernels::dropout_rows(inner, masks.activation, inner, team);
  kernels::mixed_forward(inner, w.down, Activation::none, scratch.product, scratch.rounded, team);
  kernels::layer_norm_training_forward(scratch.product, masks.feed_forward, sum, w.output_norm,
                                       shape.norm_first ? sum : Matrix<float>(), kept.norm, y, team);
}

Matrix<const float> norm_backward(const kernels::Normalised& kept, const kernels::LayerNorm& norm,
                                  const kernels::LayerNorm& gradient, const RowDropout& mask, Matrix<float> d,
                                  Matrix<float> carry, const PassScratch& scratch, Team& team) {
  const Matrix<float> sum = carry.empty() ? d : carry;
  const Matrix<float> masked = mask.dropout.rate > 0 ? scratch.product : Matrix<float>();
  kernels::layer_norm_training_backward(d, kept, norm, carry, mask, sum, masked, gradient, scratch.backward,
                                        team);
  return masked.empty() ? sum : masked;
}

void LayerPass::feed_back(Matrix<const float> h, const KeptFeedForward& kept, Matrix<float> d,
                          Matrix<float> carry) const {
  const Matrix<const float> d_out = norm_backward(kept.norm, w.output_norm, gradient.output_norm,
                                                  masks.feed_forward, d, carry, scratch, team);
  const Matrix<float> d_inner = narrow(scratch.wide, shape.inner);
  kernels::mixed_backward_input(d_out, w.down, d_inner, scratch.backward, scratch.rounded, team);
  if (masks.activation.dropout.rate > 0) kernels::dropout_rows(d_inner, masks.activation, d_inner, team);
  kernels::activation_backward(shape.activation, kept.up, d_inner, kept.up, team);  // kept.up is f(u) now
  if (masks.activation.dropout.rate > 0) kernels::dropout_rows(kept.up, masks.activation, kept.up, team);
  kernels::mixed_backward_weights(kept.up, d_out, gradient.down, scratch.backward, scratch.rounded, team);
  kernels::mixed_backward_weights(h, d_inner, gradient.up, scratch.backward, scratch.rounded, team);
  kernels::mixed_backward_input(d_inner, w.up, d, scratch.backward, scratch.rounded, team,
                                carry.empty() ? Accumulate::yes : Accumulate::no);
}

void LayerPass::attend_back(Matrix<const float> x, const KeptAttention& kept, Matrix<float> d,
                            Matrix<float> carry) const {
  const Matrix<const float> d_out = norm_backward(kept.norm, w.attention_norm, gradient.attention_norm,
                                                  masks.attention_out, d, carry, scratch, team);
  kernels::mixed_backward_weights(kept.context, d_out, gradient.attention_out, scratch.backward,
                                  scratch.rounded, team);
  const Matrix<float> d_context = scratch.more;
  kernels::mixed_backward_input(d_out, w.attention_out, d_context, scratch.backward, scratch.rounded, team);
  const size_t c = shape.hidden;
  const Matrix<float> d_qkv = narrow(scratch.wide, 3 * c);
  dot_product::backward(
      attention_batch(shape, kept.qkv, scale, masks.attention), kept.context, kept.log_sums, d_context,
      {.q = d_qkv.slice_cols(0, c), .k = d_qkv.slice_cols(c, c), .v = d_qkv.slice_cols(2 * c, c)},
      scratch.attention, team);
  kernels::mixed_backward_weights(x, d_qkv, gradient.qkv, scratch.backward, scratch.rounded, team);
  kernels::mixed_backward_input(d_qkv, w.qkv, d, scratch.backward, scratch.rounded, team,
                                carry.empty() ? Accumulate::yes : Accumulate::no);
}

}  // namespace bertie
