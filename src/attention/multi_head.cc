// MultiHead(X, Y) = Concat(headᵢ)·Wᴼ + bᴼ, headᵢ = Attention(X·Wᵢ^Q + b, Y·Wᵢ^K + b, Y·Wᵢ^V + b).
//   backward, with C the concatenation:  dC = dO·Wᴼ,  dWᴼ += dOᵀ·C,  dbᴼ += Σ dO;  attention's backward gives
//   dQ, dK, dV from dC;  dX = dQ·W^Q,  dW^Q += dQᵀ·X,  db^Q += Σ dQ, and so on;  dY = dK·W^K + dV·W^V.
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "attention/workspace.h"
#include "bertie/attention.h"
#include "bertie/error.h"
#include "kernels/matmul.h"

namespace bertie {
namespace {

using kernels::Accumulate, kernels::matmul, kernels::transposed;

template <class... Values>
void need(bool holds, fmt::format_string<Values...> format, Values&&... values) {
  if (!holds)
    throw Error(
        fmt::format("multi_head_attention: {}", fmt::format(format, std::forward<Values>(values)...)));
}

Matrix<float> resize(std::vector<float>& memory, size_t rows, size_t cols) {
  memory.resize(rows * cols);
  return {memory.data(), rows, cols};
}

Matrix<const float> view(const std::vector<float>& memory, size_t rows, size_t cols, const char* name) {
  need(memory.size() == rows * cols, "saved.{} holds {} numbers instead of {} × {}: it is another call's",
       name, memory.size(), rows, cols);
  return {memory.data(), rows, cols};
}

float* product_memory(Workspace::Parts& parts, size_t inner, size_t columns) {
  const size_t floats = kernels::matmul_workspace_floats(inner, columns);
  parts.arena.reset(Arena::bytes_for<float>(floats));
  return parts.arena.take<float>(floats);
}

// y = x·wᵀ + b
void linear(Matrix<const float> x, Matrix<const float> w, std::span<const float> b, Matrix<float> y,
            Workspace::Parts& parts) {
  matmul(x, transposed(w), y, product_memory(parts, x.cols(), w.rows()), parts.team);
  for (size_t r = 0; !b.empty() && r < y.rows(); ++r)
    for (size_t c = 0; c < y.cols(); ++c) y(r, c) += b[c];
}

// dx = or += dy·w,  dw += dyᵀ·x,  db += Σ dy
void linear_backward(Matrix<const float> x, Matrix<const float> w, Matrix<const float> dy, Matrix<float> dx,
                     Accumulate accumulate, Matrix<float> dw, std::span<float> db, Workspace::Parts& parts) {
  if (dx.data()) matmul(dy, w, dx, product_memory(parts, w.rows(), w.cols()), parts.team, accumulate);
  if (dw.data())
    matmul(transposed(dy), x, dw, product_memory(parts, dy.rows(), x.cols()), parts.team, Accumulate::kYes);
  for (size_t r = 0; !db.empty() && r < dy.rows(); ++r)
    for (size_t c = 0; c < dy.cols(); ++c) db[c] += dy(r, c);
}

void check_projection(Matrix<const float> x, const char* x_name, Matrix<const float> w,
                      std::span<const float> b, const char* name) {
  need(w.cols() == x.cols(), "w{} has {} columns but {} has {}", name, w.cols(), x_name, x.cols());
  need(b.empty() || b.size() == w.rows(), "b{} has {} numbers but w{} has {} rows", name, b.size(), name,
       w.rows());
}

void check(Matrix<const float> x, Matrix<const float> y, const MultiHead& w, Matrix<const float> out,
           const char* name, const AttentionOptions& o) {
  need(o.heads > 0, "heads is 0; it must be 1 or more");
  for (const auto& [matrix, matrix_name] : {std::pair(w.wq, "wq"), {w.wk, "wk"}, {w.wv, "wv"}})
    need(matrix.rows() % o.heads == 0, "{} has {} rows, which {} heads do not divide", matrix_name,
         matrix.rows(), o.heads);
  need(o.score.kind >= Score::Kind::kGeneral || w.wq.rows() == w.wk.rows(), "wq has {} rows but wk has {}",
       w.wq.rows(), w.wk.rows());
  check_projection(x, "x", w.wq, w.bq, "q");
  check_projection(y, "y", w.wk, w.bk, "k");
  check_projection(y, "y", w.wv, w.bv, "v");
  need(w.wo.cols() == w.wv.rows(), "wo has {} columns but wv has {} rows", w.wo.cols(), w.wv.rows());
  need(w.bo.empty() || w.bo.size() == w.wo.rows(), "bo has {} numbers but wo has {} rows", w.bo.size(),
       w.wo.rows());
  need(out.rows() == x.rows() && out.cols() == w.wo.rows(), "{} is {} × {}; it must be {} × {}", name,
       out.rows(), out.cols(), x.rows(), w.wo.rows());
}

template <class M>
void check_shape(const M& gradient, const char* name, size_t rows, size_t cols) {
  need(gradient.data() == nullptr || (gradient.rows() == rows && gradient.cols() == cols),
       "gradients.{} is {} × {}; it must be {} × {}", name, gradient.rows(), gradient.cols(), rows, cols);
}

}  // namespace

void multi_head_attention(Matrix<const float> x, Matrix<const float> y, const MultiHead& w, Matrix<float> out,
                          MultiHeadSaved& saved, const AttentionOptions& options) {
  check(x, y, w, out, "out", options);
  std::optional<Workspace> own;
  AttentionOptions inner = options;
  if (!inner.workspace) inner.workspace = &own.emplace();
  Workspace::Parts& parts = inner.workspace->parts();
  const Matrix<float> q = resize(saved.q, x.rows(), w.wq.rows()), k = resize(saved.k, y.rows(), w.wk.rows());
  const Matrix<float> v = resize(saved.v, y.rows(), w.wv.rows());
  const Matrix<float> context = resize(saved.context, x.rows(), w.wv.rows());
  linear(x, w.wq, w.bq, q, parts);
  linear(y, w.wk, w.bk, k, parts);
  linear(y, w.wv, w.bv, v, parts);
  attention(q, k, v, context, saved.attention, inner);
  linear(context, w.wo, w.bo, out, parts);
}

void multi_head_attention_backward(Matrix<const float> x, Matrix<const float> y, const MultiHead& w,
                                   const MultiHeadSaved& saved, Matrix<const float> d_out,
                                   const MultiHeadGradients& to, const AttentionOptions& options) {
  check(x, y, w, d_out, "d_out", options);
  check_shape(to.x, "x", x.rows(), x.cols()), check_shape(to.y, "y", y.rows(), y.cols());
  check_shape(to.wq, "wq", w.wq.rows(), w.wq.cols()), check_shape(to.wk, "wk", w.wk.rows(), w.wk.cols());
  check_shape(to.wv, "wv", w.wv.rows(), w.wv.cols()), check_shape(to.wo, "wo", w.wo.rows(), w.wo.cols());
  const auto bias = [](std::span<float> b, const char* name, size_t size) {
    need(b.empty() || b.size() == size, "gradients.{} has {} numbers instead of {}", name, b.size(), size);
  };
  bias(to.bq, "bq", w.wq.rows()), bias(to.bk, "bk", w.wk.rows()), bias(to.bv, "bv", w.wv.rows());
  bias(to.bo, "bo", w.wo.rows());
  // Self-attention: x is asked and answers, and gets both gradients. Otherwise an empty y is not wanted.
  const bool self = to.y.data() == nullptr && y.data() == x.data() && y.rows() == x.rows() &&
                    y.cols() == x.cols() && y.stride() == x.stride();

  std::optional<Workspace> own;
  AttentionOptions inner = options;
  if (!inner.workspace) inner.workspace = &own.emplace();
  Workspace::Parts& parts = inner.workspace->parts();
  const auto q = view(saved.q, x.rows(), w.wq.rows(), "q"), k = view(saved.k, y.rows(), w.wk.rows(), "k");
  const auto v = view(saved.v, y.rows(), w.wv.rows(), "v");
  const auto context = view(saved.context, x.rows(), w.wv.rows(), "context");
  Arena& arena = parts.outer;
  arena.reset(Arena::bytes_for<float>(saved.context.size()) + Arena::bytes_for<float>(saved.q.size()) +
              Arena::bytes_for<float>(saved.k.size()) + Arena::bytes_for<float>(saved.v.size()));
  const Matrix<float> dc = arena.take<float>(context.rows(), context.cols());
  AttentionGradients mechanism = to.mechanism;
  mechanism.q = arena.take<float>(q.rows(), q.cols());
  mechanism.k = arena.take<float>(k.rows(), k.cols());
  mechanism.v = arena.take<float>(v.rows(), v.cols());

  // What may still find a fault in the arguments comes before anything is added to.
  linear_backward(context, w.wo, d_out, dc, Accumulate::kNo, {}, {}, parts);
  attention_backward(q, k, v, context, saved.attention, dc, mechanism, inner);
  linear_backward(context, w.wo, d_out, {}, Accumulate::kNo, to.wo, to.bo, parts);
  const Matrix<float> dy = self ? to.x : to.y;
  linear_backward(x, w.wq, mechanism.q, to.x, Accumulate::kNo, to.wq, to.bq, parts);
  linear_backward(y, w.wk, mechanism.k, dy, self ? Accumulate::kYes : Accumulate::kNo, to.wk, to.bk, parts);
  linear_backward(y, w.wv, mechanism.v, dy, Accumulate::kYes, to.wv, to.bv, parts);
}

}  // namespace bertie
