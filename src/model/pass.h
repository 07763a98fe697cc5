#pragma once
// What a pass through a model works with: threads, memory, and the operations that layers and heads are made
// of.
//
// A pass is written once and run twice (Arena::run): first on memory that is only counted, where operations
// do nothing, then for real. So the memory of a pass is never added up by hand.
#include <cstdint>
#include <span>

#include "attention/call.h"
#include "attention/workspace.h"
#include "core/arena.h"
#include "core/parallel.h"
#include "kernels/gemm.h"
#include "kernels/layer_norm.h"

namespace bertie {

class InputRanges;
using kernels::Accumulate;
using kernels::Activation;
using kernels::RowDropout;

class Pass {
 public:
  explicit Pass(int threads) : attention_(threads > 0 ? threads : available_threads()) {}

  Team& team() const { return attention_.parts().team; }
  bool counting() const { return arena.counting(); }
  // Bytes held for activations and scratch.
  size_t memory() const { return arena.capacity() + attention_.memory(); }

  Matrix<float> take(size_t rows, size_t cols) { return arena.take<float>(rows, cols); }
  // The same for what a product reads. Rows that are whole pages apart share a few lines of L1, where a tile
  // of 14 has no room: those go a line further apart.
  Matrix<float> take_apart(size_t rows, size_t cols) {
    constexpr size_t kPage = 1024, kLine = 16;  // floats
    const size_t stride = cols % kPage == 0 ? cols + kLine : cols;
    return {arena.take<float>(rows * stride), rows, cols, stride};
  }
  // What a LayerNorm leaves for its backward pass.
  kernels::Normalized take_normalized(size_t rows, size_t cols) {
    return {take(rows, cols), {arena.take<float>(rows), rows}};
  }

  // y = f(x·Wᵀ + b). `before`, if not empty, gets x·Wᵀ + b.
  void linear(Matrix<const float> x, const kernels::Linear& layer, Activation f, Matrix<float> y,
              Matrix<float> before = {});
  // dW += dyᵀ·x and db += Σ dy
  void linear_backward_weights(Matrix<const float> x, Matrix<const float> dy,
                               const kernels::Linear& gradient);
  // dx = dy·W, or dx += dy·W
  void linear_backward_input(Matrix<const float> dy, const kernels::Linear& layer, Matrix<float> dx,
                             Accumulate accumulate = Accumulate::kNo);
  // Both.
  void linear_backward(Matrix<const float> x, Matrix<const float> dy, const kernels::Linear& layer,
                       const kernels::Linear& gradient, Matrix<float> dx,
                       Accumulate accumulate = Accumulate::kNo);

  // s = residual + dropout(x·Wᵀ + b),  y = LayerNorm(s): the end of both halves of a layer. `sum`, if not
  // empty, gets s. `kept`, if there, gets what the backward pass needs; without it nothing is dropped out.
  // Neither y nor sum is x or residual.
  struct ResidualNorm {
    Matrix<const float> x;
    const kernels::Linear& layer;
    Matrix<const float> residual;
    const kernels::LayerNorm& norm;
    Matrix<float> y, sum = {};
    RowDropout dropout = {};
    const kernels::Normalized* kept = nullptr;
  };
  void residual_norm(const ResidualNorm& r);
  // Back through the norm of it. d, the gradient of y, becomes that of s; where s has another gradient too
  // (`carry` is not empty), carry does. Gives the gradient of the product x·Wᵀ + b: that of s, masked, which
  // may be in `masked`'s memory.
  Matrix<const float> residual_norm_backward(const ResidualNorm& r, const kernels::LayerNorm& gradient,
                                             Matrix<float> d, Matrix<float> carry, Matrix<float> masked);

  // y = LayerNorm(x); y may be x.
  void norm(Matrix<const float> x, const kernels::LayerNorm& norm, Matrix<float> y);
  // y once more, from what the backward pass keeps.
  void normalized_output(const kernels::Normalized& kept, const kernels::LayerNorm& norm, Matrix<float> y);
  // dx of a LayerNorm without residual; dx may be dy.
  void norm_backward(Matrix<const float> dy, const kernels::Normalized& kept, const kernels::LayerNorm& norm,
                     Matrix<float> dx, const kernels::LayerNorm& gradient);

  void dropout(const RowDropout& dropout, Matrix<float> x);  // in place; nothing where the rate is 0
  void fill(Matrix<float> x, float value);
  void copy(Matrix<const float> from, Matrix<float> to);
  // Rows of `from`, one after the other; zeros for rows below 0.
  Matrix<float> gather_rows(Matrix<const float> from, std::span<const int32_t> rows);

  // Attention as bertie/attention.h has it, with sequences numbered from `first_sequence` for dropout.
  // log_sums for the backward pass, weights for who wants to see them, or empty.
  struct Attention {
    Matrix<const float> q, k, v;
    AttentionOptions options;
    uint32_t first_sequence = 0;
  };
  void attention(const Attention& a, Matrix<float> out, std::span<float> log_sums, std::span<float> weights);
  void attention_backward(const Attention& a, Matrix<const float> out, std::span<const float> log_sums,
                          Matrix<const float> d_out, const AttentionGradients& gradients);

  Arena arena;
  kernels::Products products = kernels::Products::kFloat32;  // of linear layers
  InputRanges* ranges = nullptr;                             // sees what linear layers read, if there
  // False: on the way back gradients of parameters are not computed, and where they would go is not looked
  // at. For who wants the gradient of something inside of a constant model.
  bool parameters_learn = true;

 private:
  kernels::LayerNorm norm_gradient(const kernels::LayerNorm& gradient, size_t size);

  Workspace attention_;  // the threads, and attention's own memory
};

}  // namespace bertie
