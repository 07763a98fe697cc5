#include "attention/call.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "bertie/error.h"
#include "kernels/matmul.h"

namespace bertie {
namespace {

template <class... Values>
void need(bool holds, fmt::format_string<Values...> format, Values&&... values) {
  if (!holds) throw Error(fmt::format("attention: {}", fmt::format(format, std::forward<Values>(values)...)));
}

constexpr size_t kMaxRows = std::numeric_limits<int32_t>::max();

const char* name_of(Compute::Kind kind) {
  switch (kind) {
    case Compute::Kind::kSoftmax:
      return "softmax";
    case Compute::Kind::kLinear:
      return "linear";
    case Compute::Kind::kPerformer:
      return "performer";
    case Compute::Kind::kLinformer:
      return "linformer";
    case Compute::Kind::kNystrom:
      return "nystrom";
  }
  return "";
}

void check_one(std::span<const int32_t> offsets, const char* name, size_t rows, const char* what) {
  need(offsets.size() >= 2 || rows == 0, "{} must hold the beginning of every sequence and the end", name);
  need(!offsets.empty() && offsets[0] == 0, "{} must begin with 0", name);
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    need(offsets[s] <= offsets[s + 1], "{} decreases at {}: {} after {}", name, s + 1, offsets[s + 1],
         offsets[s]);
  need(size_t(offsets.back()) == rows, "{} ends at {}, but {} has {} rows", name, offsets.back(), what, rows);
}

}  // namespace

Call::Call(Matrix<const float> user_q, Matrix<const float> user_k, Matrix<const float> v,
           Matrix<const float> out, const AttentionOptions& o)
    : q(user_q), k(user_k), score(o.score), compute(o.compute) {
  need(o.heads > 0, "heads is 0; it must be 1 or more");
  batch.heads = o.heads;
  check_shapes(v, out);
  batch.q = q, batch.k = k, batch.v = v;
  batch.look = o.look, batch.dropout = o.dropout;
  switch (score.kind) {
    case Score::Kind::kScaledDot:
      batch.scale = 1.0f / std::sqrt(float(std::max<size_t>(1, batch.head_size())));
      break;
    case Score::Kind::kDot:
      batch.scale = score.scale;
      break;
    case Score::Kind::kAdditive:
      batch.additive = score.v;
      [[fallthrough]];
    case Score::Kind::kGeneral:
      batch.scale = 1;
  }
  check_offsets(o);
  check_look();
  need(o.dropout.rate >= 0 && o.dropout.rate < 1, "dropout.rate is {}; it must be at least 0 and below 1",
       o.dropout.rate);
  check_compute();
  if (!o.workspace) own_.emplace(1);
  parts = o.workspace ? &o.workspace->parts() : &own_->parts();
}

void Call::check_shapes(Matrix<const float> v, Matrix<const float> out) const {
  const size_t heads = batch.heads;
  const auto divides = [&](Matrix<const float> x, const char* name) {
    need(x.cols() % heads == 0, "{} has {} columns, which {} heads do not divide", name, x.cols(), heads);
  };
  const auto sound = [](Matrix<const float> x, const char* name) {
    need(x.data() || x.empty(), "{} has {} rows and no data", name, x.rows());
    need(x.stride() >= x.cols() || x.rows() <= 1, "{} has {} columns but a stride of {}", name, x.cols(),
         x.stride());
  };
  sound(q, "q"), sound(k, "k"), sound(v, "v"), sound(out, "out");
  divides(q, "q"), divides(k, "k"), divides(v, "v");
  const size_t d = q.cols() / heads, dk = k.cols() / heads;
  const auto shape = [&](Matrix<const float> x, const char* name, const char* meaning, size_t rows,
                         size_t cols) {
    need(x.rows() == rows && x.cols() == cols, "{} is {} × {}; {} needs {} × {}", name, x.rows(), x.cols(),
         meaning, rows, cols);
  };
  need(q.rows() <= kMaxRows && k.rows() <= kMaxRows, "more than {} rows", kMaxRows);
  need(k.rows() == v.rows(), "k has {} rows but v has {}", k.rows(), v.rows());
  need(out.rows() == q.rows(), "out has {} rows but q has {}", out.rows(), q.rows());
  need(out.cols() == v.cols(), "out has {} columns but v has {}", out.cols(), v.cols());
  need(q.cols() > 0 || q.rows() == 0, "q has no columns");
  switch (score.kind) {
    case Score::Kind::kScaledDot:
    case Score::Kind::kDot:
      need(std::isfinite(score.scale), "score.scale is {}; it must be finite", score.scale);
      return need(q.cols() == k.cols(), "q has {} columns but k has {}", q.cols(), k.cols());
    case Score::Kind::kGeneral:
      need(k.cols() > 0, "k has no columns");
      return shape(score.w, "score.w", "general", heads * d, dk);
    case Score::Kind::kAdditive: {
      const size_t a = score.v.cols();
      need(a > 0, "score.v has no columns");
      shape(score.v, "score.v", "additive", heads, a);
      shape(score.w1, "score.w1", "additive", heads * a, d);
      return shape(score.w2, "score.w2", "additive", heads * a, dk);
    }
  }
}

void Call::check_offsets(const AttentionOptions& o) {
  if (o.q_offsets.empty()) {
    need(o.k_offsets.empty(), "k_offsets is given without q_offsets");
    one_q_[1] = int32_t(q.rows()), one_k_[1] = int32_t(k.rows());
    batch.q_offsets = one_q_, batch.k_offsets = one_k_;
    return;
  }
  batch.q_offsets = o.q_offsets;
  batch.k_offsets = o.k_offsets.empty() ? o.q_offsets : o.k_offsets;
  check_one(batch.q_offsets, "q_offsets", q.rows(), "q");
  check_one(batch.k_offsets, o.k_offsets.empty() ? "q_offsets (k_offsets is empty)" : "k_offsets", k.rows(),
            "k");
  need(batch.q_offsets.size() == batch.k_offsets.size(), "q_offsets has {} sequences but k_offsets has {}",
       batch.q_offsets.size() - 1, batch.k_offsets.size() - 1);
}

void Call::check_look() const {
  const Look& look = batch.look;
  size_t longest = 0;
  for (size_t s = 0; s < batch.sequences(); ++s) longest = std::max(longest, batch.keys(s));
  switch (look.kind) {
    case Look::Kind::kFull:
    case Look::Kind::kCausal:
    case Look::Kind::kWindow:
      return;
    case Look::Kind::kWindowAndGlobal:
      for (size_t i = 0; i < look.global.size(); ++i)
        need(look.global[i] >= 0 && (i == 0 || look.global[i - 1] < look.global[i]),
             "look.global must be positions in increasing order; number {} is {}", i, look.global[i]);
      return;
    case Look::Kind::kBigBird:
      need(look.blocks.block > 0 && look.blocks.block <= kMaxRows,
           "look.blocks.block is {}; it must be 1 or more", look.blocks.block);
      need(look.blocks.window % 2 == 1 && look.blocks.window <= kMaxRows,
           "look.blocks.window is {}; it must be odd: a block and as many on each side", look.blocks.window);
      return need(look.blocks.global <= kMaxRows && look.blocks.random <= kMaxRows,
                  "look.blocks.global and look.blocks.random are at most {}", kMaxRows);
    case Look::Kind::kFixed:
      need(look.stride >= 1, "look.stride is 0; it must be 1 or more");
      need(look.summary >= 1 && look.summary <= look.stride,
           "look.summary is {}; it must be from 1 to the stride, {}", look.summary, look.stride);
      [[fallthrough]];
    case Look::Kind::kStrided:
      return need(look.stride >= 1 && look.stride <= kMaxRows, "look.stride is {}; it must be 1 or more",
                  look.stride);
    case Look::Kind::kMask:
      need(look.allowed.rows() == q.rows(), "look.allowed has {} rows but q has {}", look.allowed.rows(),
           q.rows());
      return need(look.allowed.cols() >= longest, "look.allowed has {} columns, but a sequence has {} keys",
                  look.allowed.cols(), longest);
    case Look::Kind::kAdaptiveSpan:
      need(look.spans.size() == batch.heads, "look.spans has {} numbers for {} heads", look.spans.size(),
           batch.heads);
      need(look.ramp > 0 && std::isfinite(look.ramp), "look.ramp is {}; it must be above 0", look.ramp);
      for (size_t h = 0; h < batch.heads; ++h)
        need(look.spans[h] >= 0 && std::isfinite(look.spans[h]), "look.spans[{}] is {}; it must be 0 or more",
             h, look.spans[h]);
  }
}

void Call::check_compute() const {
  if (compute.kind == Compute::Kind::kSoftmax) return;
  const char* name = name_of(compute.kind);
  need(!projects(), "score: compute {} takes dot products only", name);
  need(batch.dropout.rate == 0, "dropout: compute {} has no weights to drop", name);
  const bool causal = compute.kind == Compute::Kind::kLinear || compute.kind == Compute::Kind::kPerformer;
  need(batch.look.kind == Look::Kind::kFull || (causal && batch.look.kind == Look::Kind::kCausal),
       "look: compute {} can look {} only", name, causal ? "everywhere or causally" : "everywhere");
  switch (compute.kind) {
    case Compute::Kind::kSoftmax:
      return;
    case Compute::Kind::kLinear:
      return need(score.scale == 1, "score: compute linear has no scale, and got {}", score.scale);
    case Compute::Kind::kPerformer:
      need(batch.scale > 0, "score.scale is {}; compute performer needs one above 0", batch.scale);
      return need(compute.features > 0 && compute.features <= kMaxRows,
                  "compute.features is {}; it must be 1 or more", compute.features);
    case Compute::Kind::kNystrom:
      need(compute.iterations > 0 && compute.iterations <= 1000,
           "compute.iterations is {}; it must be 1 to 1000", compute.iterations);
      return need(compute.landmarks > 0 && compute.landmarks <= kMaxRows,
                  "compute.landmarks is {}; it must be 1 or more", compute.landmarks);
    case Compute::Kind::kLinformer:
      need(compute.e.rows() > 0, "compute.e has no rows");
      need(compute.e.rows() == compute.f.rows() && compute.e.cols() == compute.f.cols(),
           "compute.f is {} × {} but compute.e is {} × {}", compute.f.rows(), compute.f.cols(),
           compute.e.rows(), compute.e.cols());
      for (size_t s = 0; s < batch.sequences(); ++s)
        need(batch.keys(s) <= compute.e.cols(), "compute.e has {} columns, but a sequence has {} keys",
             compute.e.cols(), batch.keys(s));
  }
}

size_t Call::projected_columns() const {
  if (!projects()) return 0;
  return score.kind == Score::Kind::kGeneral ? k.cols() : batch.heads * score.v.cols();
}

AttentionBatch Call::kernel_shape() const {
  AttentionBatch shape = batch;
  const size_t columns = projected_columns();
  if (projects()) shape.q = {nullptr, q.rows(), columns}, shape.k = {nullptr, k.rows(), columns};
  return shape;
}

size_t Call::projection_bytes() const {
  if (!projects()) return 0;
  const size_t columns = projected_columns(), width = columns / batch.heads;
  // Products with d×width, dk×width and, going back, rows×… on the right side.
  const size_t widest = std::max({width, q.cols() / batch.heads, k.cols() / batch.heads});
  const size_t deepest = std::max({q.rows(), k.rows(), widest});
  return Arena::bytes_for<float>(q.rows() * columns) +
         Arena::bytes_for<float>((score.kind == Score::Kind::kAdditive ? k.rows() : 0) * columns) +
         Arena::bytes_for<float>(kernels::matmul_workspace_floats(deepest, widest));
}

void Call::project() {
  if (!projects()) return;
  using kernels::matmul, kernels::transposed;
  const size_t heads = batch.heads, columns = projected_columns(), width = columns / heads;
  const size_t d = q.cols() / heads, dk = k.cols() / heads, widest = std::max({width, d, dk});
  Arena& arena = parts->arena;
  const bool additive = score.kind == Score::Kind::kAdditive;  // general scores leave k as it is
  const Matrix<float> to_q = arena.take<float>(q.rows(), columns);
  const Matrix<float> to_k = arena.take<float>(additive ? k.rows() : 0, columns);
  product_memory_ =
      arena.take<float>(kernels::matmul_workspace_floats(std::max({q.rows(), k.rows(), widest}), widest));
  for (size_t h = 0; h < heads; ++h) {
    const auto q_h = q.slice_cols(h * d, d), k_h = k.slice_cols(h * dk, dk);
    const auto q_to = to_q.slice_cols(h * width, width), k_to = to_k.slice_cols(h * width, width);
    if (score.kind == Score::Kind::kGeneral) {
      matmul(q_h, score.w.slice_rows(h * d, d), q_to, product_memory_, parts->team);
    } else {
      matmul(q_h, transposed(score.w1.slice_rows(h * width, width)), q_to, product_memory_, parts->team);
      matmul(k_h, transposed(score.w2.slice_rows(h * width, width)), k_to, product_memory_, parts->team);
    }
  }
  batch.q = to_q;
  if (additive) batch.k = to_k;
}

void Call::project_backward(Matrix<const float> dq, Matrix<const float> dk, const AttentionGradients& to) {
  using kernels::Accumulate, kernels::matmul, kernels::transposed;
  const size_t heads = batch.heads, width = projected_columns() / heads, d = q.cols() / heads;
  const size_t size_k = k.cols() / heads;
  float* const memory = product_memory_;
  Team& team = parts->team;
  for (size_t h = 0; h < heads; ++h) {
    const auto q_h = q.slice_cols(h * d, d), k_h = k.slice_cols(h * size_k, size_k);
    const auto dq_h = dq.slice_cols(h * width, width), dk_h = dk.slice_cols(h * width, width);
    const auto to_q = to.q.slice_cols(h * d, d), to_k = to.k.slice_cols(h * size_k, size_k);
    if (score.kind == Score::Kind::kGeneral) {
      matmul(dq_h, transposed(score.w.slice_rows(h * d, d)), to_q, memory, team);
      if (!to.w.empty())
        matmul(transposed(q_h), dq_h, to.w.slice_rows(h * d, d), memory, team, Accumulate::kYes);
      continue;
    }
    matmul(dq_h, score.w1.slice_rows(h * width, width), to_q, memory, team);
    matmul(dk_h, score.w2.slice_rows(h * width, width), to_k, memory, team);
    if (!to.w1.empty())
      matmul(transposed(dq_h), q_h, to.w1.slice_rows(h * width, width), memory, team, Accumulate::kYes);
    if (!to.w2.empty())
      matmul(transposed(dk_h), k_h, to.w2.slice_rows(h * width, width), memory, team, Accumulate::kYes);
  }
}

}  // namespace bertie
