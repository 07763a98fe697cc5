#include "model/pass.h"

#include <algorithm>

#include "model/quantize.h"

namespace bertie {

void Pass::linear(Matrix<const float> x, const kernels::Linear& layer, Activation f, Matrix<float> y,
                  Matrix<float> before) {
  if (counting()) return;
  if (ranges) ranges->see(layer, x);
  kernels::linear_forward(x, layer, f, y, team(), before, products);
}

void Pass::linear_backward_weights(Matrix<const float> x, Matrix<const float> dy,
                                   const kernels::Linear& gradient) {
  if (!parameters_learn) return;
  const Arena::Scope scope(arena);
  float* const workspace = arena.take<float>(kernels::linear_backward_weights_workspace(gradient, x.rows()));
  if (!counting()) kernels::linear_backward_weights(x, dy, gradient, workspace, team(), products);
}

void Pass::linear_backward_input(Matrix<const float> dy, const kernels::Linear& layer, Matrix<float> dx,
                                 Accumulate accumulate) {
  const Arena::Scope scope(arena);
  float* const workspace = arena.take<float>(kernels::linear_backward_input_workspace(layer));
  if (!counting()) kernels::linear_backward_input(dy, layer, dx, workspace, team(), accumulate, products);
}

void Pass::linear_backward(Matrix<const float> x, Matrix<const float> dy, const kernels::Linear& layer,
                           const kernels::Linear& gradient, Matrix<float> dx, Accumulate accumulate) {
  linear_backward_weights(x, dy, gradient);
  linear_backward_input(dy, layer, dx, accumulate);
}

void Pass::residual_norm(const ResidualNorm& r) {
  if (!r.kept) {
    if (counting()) return;
    if (ranges) ranges->see(r.layer, r.x);
    kernels::linear_residual_layer_norm_forward(r.x, r.layer, r.residual, r.norm, r.y, team(), r.sum,
                                                products);
    return;
  }
  const Arena::Scope scope(arena);
  const Matrix<float> product = take(r.x.rows(), r.layer.outputs);
  linear(r.x, r.layer, Activation::kNone, product);
  if (!counting())
    kernels::layer_norm_training_forward(product, r.dropout, r.residual, r.norm, r.sum, *r.kept, r.y, team());
}

Matrix<const float> Pass::residual_norm_backward(const ResidualNorm& r, const kernels::LayerNorm& gradient,
                                                 Matrix<float> d, Matrix<float> carry, Matrix<float> masked) {
  const Arena::Scope scope(arena);
  float* const workspace = arena.take<float>(kernels::layer_norm_backward_workspace(d.rows(), d.cols()));
  const Matrix<float> sum = carry.empty() ? d : carry;
  if (r.dropout.dropout.rate == 0) masked = {};
  const kernels::LayerNorm to = norm_gradient(gradient, d.cols());
  if (!counting())
    kernels::layer_norm_training_backward(d, *r.kept, r.norm, carry, r.dropout, sum, masked, to, workspace,
                                          team());
  return masked.empty() ? sum : masked;
}

void Pass::norm(Matrix<const float> x, const kernels::LayerNorm& norm, Matrix<float> y) {
  if (!counting()) kernels::layer_norm_forward(x, norm, y, team());
}

void Pass::normalized_output(const kernels::Normalized& kept, const kernels::LayerNorm& norm,
                             Matrix<float> y) {
  if (!counting()) kernels::normalized_output(kept.x, norm, y, team());
}

void Pass::norm_backward(Matrix<const float> dy, const kernels::Normalized& kept,
                         const kernels::LayerNorm& norm, Matrix<float> dx,
                         const kernels::LayerNorm& gradient) {
  const Arena::Scope scope(arena);
  float* const workspace = arena.take<float>(kernels::layer_norm_backward_workspace(dy.rows(), dy.cols()));
  const kernels::LayerNorm to = norm_gradient(gradient, dy.cols());
  if (!counting())
    kernels::layer_norm_training_backward(dy, kept, norm, {}, {}, dx, {}, to, workspace, team());
}

// Where a norm's gradient goes: to scratch memory where nothing learns.
kernels::LayerNorm Pass::norm_gradient(const kernels::LayerNorm& gradient, size_t size) {
  if (parameters_learn) return gradient;
  const Matrix<float> scratch = take(2, size);
  fill(scratch, 0);
  return {.gamma = scratch.row(0), .beta = scratch.row(1)};
}

void Pass::dropout(const RowDropout& dropout, Matrix<float> x) {
  if (dropout.dropout.rate > 0 && !counting()) kernels::dropout_rows(x, dropout, x, team());
}

void Pass::fill(Matrix<float> x, float value) {
  for (size_t r = 0; r < x.rows() && !counting(); ++r) std::fill_n(x.row(r), x.cols(), value);
}

void Pass::copy(Matrix<const float> from, Matrix<float> to) {
  for (size_t r = 0; r < from.rows() && !counting(); ++r) std::copy_n(from.row(r), from.cols(), to.row(r));
}

Matrix<float> Pass::gather_rows(Matrix<const float> from, std::span<const int32_t> rows) {
  const Matrix<float> x = take(rows.size(), from.cols());
  for (size_t i = 0; i < rows.size() && !counting(); ++i)
    if (rows[i] >= 0)
      std::copy_n(from.row(size_t(rows[i])), from.cols(), x.row(i));
    else
      std::fill_n(x.row(i), from.cols(), 0.0f);
  return x;
}

void Pass::attention(const Attention& a, Matrix<float> out, std::span<float> log_sums,
                     std::span<float> weights) {
  AttentionOptions options = a.options;
  options.workspace = &attention_;
  Call call(a.q, a.k, a.v, out, options);
  call.batch.first_sequence = a.first_sequence;
  if (!counting()) return attention_forward(call, out, log_sums, weights);
  reserve_attention(call, Reserve::kForward);  // in any case: the next batch may not want the weights
  if (!weights.empty()) reserve_attention(call, Reserve::kWeights);
}

void Pass::attention_backward(const Attention& a, Matrix<const float> out, std::span<const float> log_sums,
                              Matrix<const float> d_out, const AttentionGradients& gradients) {
  AttentionOptions options = a.options;
  options.workspace = &attention_;
  Call call(a.q, a.k, a.v, out, options);
  call.batch.first_sequence = a.first_sequence;
  if (counting())
    reserve_attention(call, Reserve::kBackward);
  else
    bertie::attention_backward(call, out, log_sums, d_out, gradients);
}

}  // namespace bertie
