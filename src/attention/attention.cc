#include "bertie/attention.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "attention/scaled_dot_product.h"
#include "bertie/error.h"

namespace bertie {
namespace {

template <class Compute>
void check_and_run(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
                   const AttentionOptions& o, bool exact, const Compute& compute) {
  const auto need = [](bool holds, const char* format, const auto&... values) {
    if (!holds) throw Error(fmt::format(fmt::runtime(format), values...));
  };
  need(o.heads > 0, "attention: heads is 0; it must be 1 or more");
  need(q.cols() % o.heads == 0, "attention: q has {} columns, which {} heads do not divide", q.cols(),
       o.heads);
  need(v.cols() % o.heads == 0, "attention: v has {} columns, which {} heads do not divide", v.cols(),
       o.heads);
  need(q.cols() == k.cols(), "attention: q has {} columns but k has {}", q.cols(), k.cols());
  need(k.rows() == v.rows(), "attention: k has {} rows but v has {}", k.rows(), v.rows());
  need(out.rows() == q.rows(), "attention: out has {} rows but q has {}", out.rows(), q.rows());
  need(out.cols() == v.cols(), "attention: out has {} columns but v has {}", out.cols(), v.cols());
  need(o.threads > 0, "attention: threads is {}; it must be 1 or more", o.threads);
  need(q.cols() > 0 || q.rows() == 0, "attention: q has no columns");
  constexpr size_t kMaxRows = std::numeric_limits<int32_t>::max();
  need(q.rows() <= kMaxRows && k.rows() <= kMaxRows, "attention: more than {} rows", kMaxRows);
  if (q.rows() == 0 || (v.cols() == 0 && !exact)) return;  // exact has weights to return all the same

  const std::array<int32_t, 2> q_offsets{0, int32_t(q.rows())}, k_offsets{0, int32_t(k.rows())};
  const float scale = o.scale != 0 ? o.scale : 1.0f / std::sqrt(float(q.cols() / o.heads));
  const dot_product::Batch batch{.q = q,
                                 .k = k,
                                 .v = v,
                                 .q_offsets = q_offsets,
                                 .k_offsets = k_offsets,
                                 .heads = o.heads,
                                 .scale = scale};
  Team team(o.threads);
  Block workspace(dot_product::workspace_bytes(batch, exact, o.threads));
  compute(batch, workspace.data(), team);
}

}  // namespace

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               const AttentionOptions& options) {
  check_and_run(q, k, v, out, options, false,
                [&](const dot_product::Batch& batch, std::byte* workspace, Team& team) {
                  dot_product::tiled(batch, out, workspace, team);
                });
}

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               Matrix<float> weights, const AttentionOptions& options) {
  const size_t rows = options.heads * q.rows();
  if (weights.rows() != rows || weights.cols() != k.rows() || weights.stride() != weights.cols())
    throw Error(
        fmt::format("attention: weights must be {} × {} (heads·queries × keys) without gaps, not {} × {}",
                    rows, k.rows(), weights.rows(), weights.cols()));
  check_and_run(
      q, k, v, out, options, true, [&](const dot_product::Batch& batch, std::byte* workspace, Team& team) {
        dot_product::exact(batch, out, {weights.data(), weights.rows() * weights.cols()}, workspace, team);
      });
}

}  // namespace bertie
