#include "bertie/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "attention/batch.h"
#include "attention/scaled_dot_product.h"
#include "attention/workspace.h"
#include "bertie/error.h"

namespace bertie {
namespace {

template <class... Values>
void need(bool holds, fmt::format_string<Values...> format, Values&&... values) {
  if (!holds) throw Error("attention: " + fmt::format(format, std::forward<Values>(values)...));
}

// A call whose arguments have been checked, with the defaults filled in.
class Call {
 public:
  Call(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<const float> out,
       const AttentionOptions& o)
      : one_q_{0, int32_t(q.rows())}, one_k_{0, int32_t(k.rows())} {
    constexpr size_t kMaxRows = std::numeric_limits<int32_t>::max();
    need(o.heads > 0, "heads is 0; it must be 1 or more");
    need(q.cols() % o.heads == 0, "q has {} columns, which {} heads do not divide", q.cols(), o.heads);
    need(v.cols() % o.heads == 0, "v has {} columns, which {} heads do not divide", v.cols(), o.heads);
    need(q.cols() == k.cols(), "q has {} columns but k has {}", q.cols(), k.cols());
    need(k.rows() == v.rows(), "k has {} rows but v has {}", k.rows(), v.rows());
    need(out.rows() == q.rows(), "out has {} rows but q has {}", out.rows(), q.rows());
    need(out.cols() == v.cols(), "out has {} columns but v has {}", out.cols(), v.cols());
    need(q.cols() > 0 || q.rows() == 0, "q has no columns");
    need(q.rows() <= kMaxRows && k.rows() <= kMaxRows, "more than {} rows", kMaxRows);
    batch = {.q = q, .k = k, .v = v, .q_offsets = one_q_, .k_offsets = one_k_, .heads = o.heads};
    batch.scale = o.score.scale != 0 ? o.score.scale : 1.0f / std::sqrt(float(q.cols() / o.heads));
    if (!o.workspace) own_.emplace(1);
    parts = o.workspace ? &o.workspace->parts() : &own_->parts();
  }

  AttentionBatch batch;
  Workspace::Parts* parts;

 private:
  int32_t one_q_[2], one_k_[2];
  std::optional<Workspace> own_;
};

}  // namespace

Workspace::Workspace(int threads) {
  if (threads < 1) throw Error(fmt::format("Workspace: threads is {}; it must be 1 or more", threads));
  parts_ = std::make_unique<Parts>(threads);
}
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               const AttentionOptions& options) {
  Call call(q, k, v, out, options);
  auto& [team, arena] = *call.parts;
  const size_t bytes = dot_product::workspace_bytes(call.batch, false, team.threads());
  arena.reset(bytes);
  dot_product::tiled(call.batch, out, {}, arena.take<std::byte>(bytes), team);
}

void attention(Matrix<const float> q, Matrix<const float> k, Matrix<const float> v, Matrix<float> out,
               std::span<float> weights, const AttentionOptions& options) {
  Call call(q, k, v, out, options);
  auto& [team, arena] = *call.parts;
  const size_t needed = dot_product::weights_size(call.batch);
  need(weights.size() == needed, "weights has {} numbers; Σ heads·queries·keys is {}", weights.size(),
       needed);
  const size_t bytes = dot_product::workspace_bytes(call.batch, true, team.threads());
  arena.reset(bytes);
  dot_product::exact(call.batch, out, weights, arena.take<std::byte>(bytes), team);
}

}  // namespace bertie
