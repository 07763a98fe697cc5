#include "model/cross_pass.h"

#include <algorithm>
#include <cmath>

namespace bertie {

using kernels::Accumulate, kernels::Activation;

namespace {

dot_product::Batch attention_batch(const CrossShape& shape, Matrix<const float> query,
                                   Matrix<const float> key_value, const Dropout& dropout) {
  const PassShape& t = shape.target;
  return {.q = query,
          .k = key_value.slice_cols(0, t.hidden),
          .v = key_value.slice_cols(t.hidden, t.hidden),
          .q_offsets = t.offsets,
          .k_offsets = shape.source_offsets,
          .heads = t.heads,
          .scale = 1 / std::sqrt(float(t.hidden / t.heads)),
          .dropout = dropout,
          .first_sequence = t.first_sequence};
}

}  // namespace

KeptCross take_cross(Arena& arena, const CrossShape& shape) {
  const size_t t = shape.target.tokens(), c = shape.target.hidden, h = shape.target.heads;
  return {.query = arena.take<float>(t, c),
          .key_value = arena.take<float>(shape.source_tokens(), 2 * c),
          .context = arena.take<float>(t, c),
          .log_sums = {arena.take<float>(t * h), t * h},
          .norm = take_normalised(arena, t, c)};
}

size_t kept_bytes(const CrossShape& shape) {
  const size_t t = shape.target.tokens(), c = shape.target.hidden;
  size_t bytes = Arena::bytes_for<float>(shape.source_tokens() * 2 * c);
  for (size_t floats : {c, c, shape.target.heads, c, size_t{1}}) bytes += Arena::bytes_for<float>(t * floats);
  return bytes;
}

size_t attention_workspace(const CrossShape& shape, int threads, bool backward) {
  const size_t c = shape.target.hidden;
  const dot_product::Batch batch = attention_batch(shape, {nullptr, shape.target.tokens(), c},
                                                   {nullptr, shape.source_tokens(), 2 * c}, {});
  const size_t forward = dot_product::workspace_bytes(batch, false, threads);
  return backward ? std::max(forward, dot_product::backward_workspace_bytes(batch, threads)) : forward;
}

size_t backward_workspace(const CrossWeights& w, const CrossShape& shape) {
  size_t most = kernels::layer_norm_backward_workspace(shape.target.tokens(), shape.target.hidden);
  for (const kernels::Linear* l : {&w.query, &w.key_value, &w.out}) {
    const size_t rows = l == &w.key_value ? shape.source_tokens() : shape.target.tokens();
    most = std::max({most, kernels::linear_backward_input_workspace(*l),
                     kernels::linear_backward_weights_workspace(*l, rows)});
  }
  return most;
}

size_t bf16_workspace(const CrossWeights& w, const CrossShape& shape) {
  const size_t target = shape.target.tokens();
  return std::max({kernels::mixed_workspace(w.query, target),
                   kernels::mixed_workspace(w.key_value, shape.source_tokens()),
                   kernels::mixed_workspace(w.out, target)});
}

void CrossPass::attend(Matrix<const float> a, Matrix<const float> memory, const KeptCross& kept,
                       Matrix<float> c) const {
  kernels::mixed_forward(a, w.query, Activation::none, kept.query, scratch.rounded, team);
  kernels::mixed_forward(memory, w.key_value, Activation::none, kept.key_value, scratch.rounded, team);
  dot_product::tiled(attention_batch(shape, kept.query, kept.key_value, masks.attention), kept.context,
                     kept.log_sums, scratch.attention, team);
  kernels::mixed_forward(kept.context, w.out, Activation::none, scratch.product, scratch.rounded, team);
  kernels::layer_norm_training_forward(scratch.product, masks.attention_out, a, w.norm, {}, kept.norm, c,
                                       team);
}

void CrossPass::attend_back(Matrix<const float> a, Matrix<const float> memory, const KeptCross& kept,
                            const CrossGradients& to) const {
  const size_t c = shape.target.hidden;
  const Matrix<const float> d_out =
      norm_backward(kept.norm, w.norm, gradient.norm, masks.attention_out, to.d, {}, scratch, team);
  kernels::mixed_backward_weights(kept.context, d_out, gradient.out, scratch.backward, scratch.rounded, team);
  const Matrix<float> d_context = scratch.more, d_query(scratch.wide.data(), to.d.rows(), c);
  kernels::mixed_backward_input(d_out, w.out, d_context, scratch.backward, scratch.rounded, team);
  dot_product::backward(
      attention_batch(shape, kept.query, kept.key_value, masks.attention), kept.context, kept.log_sums,
      d_context, {.q = d_query, .k = to.d_key_value.slice_cols(0, c), .v = to.d_key_value.slice_cols(c, c)},
      scratch.attention, team);
  kernels::mixed_backward_weights(a, d_query, gradient.query, scratch.backward, scratch.rounded, team);
  kernels::mixed_backward_input(d_query, w.query, to.d, scratch.backward, scratch.rounded, team,
                                Accumulate::yes);
  kernels::mixed_backward_weights(memory, to.d_key_value, gradient.key_value, scratch.backward,
                                  scratch.rounded, team);
  kernels::mixed_backward_input(to.d_key_value, w.key_value, to.d_memory, scratch.backward, scratch.rounded,
                                team, Accumulate::yes);
}

}  // namespace bertie
