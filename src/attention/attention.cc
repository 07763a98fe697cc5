#include "bertie/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "attention/call.h"
#include "attention/linear.h"
#include "attention/linformer.h"
#include "attention/nystrom.h"
#include "attention/scaled_dot_product.h"
#include "bertie/error.h"

namespace bertie {
namespace {

void approximate(const AttentionBatch& batch, const Compute& compute, Matrix<float> out,
                 Workspace::Parts& parts) {
  switch (compute.kind) {
    case Compute::Kind::kLinformer:
      return linformer::forward(batch, compute, out, parts);
    case Compute::Kind::kNystrom:
      return nystrom::forward(batch, compute, out, parts);
    default:
      return linear_attention::forward(batch, compute, out, parts);
  }
}

// Their output is linear in v, so the weights are what becomes of the identity: kColumns of it at a time.
void weights_of_approximation(const Call& call, std::span<float> weights) {
  constexpr size_t kColumns = 64;
  const AttentionBatch& b = call.batch;
  float* to = weights.data();
  for (size_t s = 0; s < b.sequences(); ++s) {
    const size_t n = b.queries(s), m = b.keys(s), width = std::min(m, kColumns), columns = b.heads * width;
    const int32_t q_offsets[] = {0, int32_t(n)}, k_offsets[] = {0, int32_t(m)};
    Arena& arena = call.parts->outer;
    arena.reset(Arena::bytes_for<float>(m * columns) + Arena::bytes_for<float>(n * columns));
    const Matrix<float> identity = arena.take<float>(m, columns), out = arena.take<float>(n, columns);
    AttentionBatch one = b;
    one.q = b.q.slice_rows(size_t(b.q_offsets[s]), n), one.k = b.k.slice_rows(size_t(b.k_offsets[s]), m);
    one.v = identity;
    one.q_offsets = q_offsets, one.k_offsets = k_offsets;
    for (size_t j0 = 0; j0 < m; j0 += width) {
      const size_t count = std::min(width, m - j0);
      std::fill_n(identity.data(), m * columns, 0.0f);
      for (size_t h = 0; h < b.heads; ++h)
        for (size_t j = 0; j < count; ++j) identity(j0 + j, h * width + j) = 1;
      approximate(one, call.compute, out, *call.parts);
      for (size_t h = 0; h < b.heads; ++h)
        for (size_t i = 0; i < n; ++i) std::copy_n(out.row(i) + h * width, count, to + (h * n + i) * m + j0);
    }
    to += b.heads * n * m;
  }
}

// Bytes of the arena for a softmax.
size_t softmax_bytes(const Call& call, Reserve what) {
  const int threads = call.parts->team.threads();
  const bool back = what == Reserve::kBackward;
  const AttentionBatch shape = call.kernel_shape();
  const size_t kernel = back ? dot_product::backward_workspace_bytes(shape, threads)
                             : dot_product::workspace_bytes(shape, what == Reserve::kWeights, threads);
  return (back ? 2 : 1) * call.projection_bytes() + Arena::bytes_for<std::byte>(kernel);
}

template <class M>
void check_gradient(const M& gradient, const char* name, size_t rows, size_t cols, bool wanted = true) {
  if (!wanted && gradient.empty()) return;
  if (gradient.rows() != rows || gradient.cols() != cols)
    throw Error(fmt::format("attention: gradients.{} is {} × {}; it must be {} × {}", name, gradient.rows(),
                            gradient.cols(), rows, cols));
}

void check_gradients(const Call& call, Matrix<const float> v, const AttentionGradients& to) {
  const Score& score = call.score;
  check_gradient(to.q, "q", call.q.rows(), call.q.cols());
  check_gradient(to.k, "k", call.k.rows(), call.k.cols());
  check_gradient(to.v, "v", v.rows(), v.cols());
  check_gradient(to.w, "w", score.w.rows(), score.w.cols(), false);
  check_gradient(to.w1, "w1", score.w1.rows(), score.w1.cols(), false);
  check_gradient(to.w2, "w2", score.w2.rows(), score.w2.cols(), false);
  check_gradient(to.additive_v, "additive_v", score.v.rows(), score.v.cols(), false);
  check_gradient(to.e, "e", call.compute.e.rows(), call.compute.e.cols(), false);
  check_gradient(to.f, "f", call.compute.f.rows(), call.compute.f.cols(), false);
  if (!to.spans.empty() && to.spans.size() != call.batch.look.spans.size())
    throw Error(fmt::format("attention: gradients.spans has {} numbers, but look.spans has {}",
                            to.spans.size(), call.batch.look.spans.size()));
}

}  // namespace

void reserve_attention(const Call& call, Reserve what) {
  if (call.compute.kind == Compute::Kind::kSoftmax) call.parts->arena.reset(softmax_bytes(call, what));
}

void attention_forward(Call& call, Matrix<float> out, std::span<float> log_sums, std::span<float> weights) {
  assert(log_sums.empty() || weights.empty());  // the kernel for weights leaves no sums for a way back
  if (call.compute.kind != Compute::Kind::kSoftmax) {
    if (!weights.empty()) weights_of_approximation(call, weights);
    return approximate(call.batch, call.compute, out, *call.parts);
  }
  Arena& arena = call.parts->arena;
  Team& team = call.parts->team;
  arena.reset(softmax_bytes(call, weights.empty() ? Reserve::kForward : Reserve::kWeights));
  call.project();
  std::byte* const workspace =
      arena.take<std::byte>(dot_product::workspace_bytes(call.batch, !weights.empty(), team.threads()));
  if (weights.empty())
    dot_product::tiled(call.batch, out, log_sums, workspace, team);
  else
    dot_product::exact(call.batch, out, weights, workspace, team);
}

void attention_backward(Call& call, Matrix<const float> out, std::span<const float> log_sums,
                        Matrix<const float> d_out, const AttentionGradients& gradients) {
  switch (call.compute.kind) {
    case Compute::Kind::kLinear:
    case Compute::Kind::kPerformer:
      return linear_attention::backward(call.batch, call.compute, out, d_out, gradients, *call.parts);
    case Compute::Kind::kLinformer:
      return linformer::backward(call.batch, call.compute, out, d_out, gradients, *call.parts);
    case Compute::Kind::kNystrom:
      return nystrom::backward(call.batch, call.compute, out, d_out, gradients, *call.parts);
    case Compute::Kind::kSoftmax:
      break;
  }
  Team& team = call.parts->team;
  Arena& arena = call.parts->arena;
  arena.reset(softmax_bytes(call, Reserve::kBackward));
  call.project();
  dot_product::Gradients to{.q = gradients.q,
                            .k = gradients.k,
                            .v = gradients.v,
                            .additive = gradients.additive_v,
                            .spans = gradients.spans};
  const size_t columns = call.projected_columns();
  if (call.projects()) to.q = arena.take<float>(call.q.rows(), columns);
  if (call.score.kind == Score::Kind::kAdditive) to.k = arena.take<float>(call.k.rows(), columns);
  const size_t bytes = dot_product::backward_workspace_bytes(call.batch, team.threads());
  dot_product::backward(call.batch, out, log_sums, d_out, to, arena.take<std::byte>(bytes), team);
  if (call.projects()) call.project_backward(to.q, to.k, gradients);
}

Workspace::Workspace(int threads) {
  if (threads < 1) throw Error(fmt::format("Workspace: threads is {}; it must be 1 or more", threads));
  parts_ = std::make_unique<Parts>(threads);
}
Workspace::Parts& Workspace::parts() const {
  if (!parts_) throw Error("attention: workspace has been moved from");
  return *parts_;
}
size_t Workspace::memory() const {
  const Parts& own = parts();
  return own.arena.capacity() + own.outer.capacity();
}

Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               const AttentionOptions& options) {
  Call call(q, k, v, out, options);
  attention_forward(call, out, {}, {});
}

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               AttentionSaved& saved, const AttentionOptions& options) {
  Call call(q, k, v, out, options);
  saved.log_sums.resize(call.compute.kind == Compute::Kind::kSoftmax ? q.rows() * options.heads : 0);
  attention_forward(call, out, saved.log_sums, {});
}

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               std::span<float> weights, const AttentionOptions& options) {
  Call call(q, k, v, out, options);
  const size_t needed = dot_product::weights_size(call.batch);
  if (weights.size() != needed)
    throw Error(
        fmt::format("attention: weights has {} numbers; Σ heads·queries·keys is {}", weights.size(), needed));
  attention_forward(call, out, {}, weights);
}

void attention_backward(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v,
                        Matrix<const float> out, const AttentionSaved& saved, Matrix<const float> d_out,
                        const AttentionGradients& gradients, const AttentionOptions& options) {
  Call call(q, k, v, out, options);
  check_gradients(call, v, gradients);
  if (d_out.rows() != out.rows() || d_out.cols() != out.cols())
    throw Error(fmt::format("attention: d_out is {} × {} but out is {} × {}", d_out.rows(), d_out.cols(),
                            out.rows(), out.cols()));
  if (call.compute.kind == Compute::Kind::kSoftmax && saved.log_sums.size() != q.rows() * options.heads)
    throw Error(
        fmt::format("attention: saved holds {} numbers for {} queries and {} heads", saved.log_sums.size(),
                    q.rows(), options.heads),
        "pass the AttentionSaved that attention(q, k, v, out, saved, options) filled for the same inputs");
  attention_backward(call, out, saved.log_sums, d_out, gradients);
}

float adaptive_span_penalty(std::span<const float> spans, float lambda, std::span<float> gradient) {
  if (spans.empty()) return 0;
  if (!gradient.empty() && gradient.size() != spans.size())
    throw Error(fmt::format("adaptive_span_penalty: gradient has {} numbers for {} spans", gradient.size(),
                            spans.size()));
  float sum = 0;
  for (float z : spans) sum += z;
  for (float& g : gradient) g += lambda / float(spans.size());
  return lambda * sum / float(spans.size());
}

}  // namespace bertie
