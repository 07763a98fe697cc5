#include "attention/linformer.h"

#include <algorithm>
#include <array>

#include "attention/scaled_dot_product.h"
#include "kernels/matmul.h"

namespace bertie::linformer {
namespace {

using kernels::Accumulate;
using kernels::matmul;
using kernels::matmul_workspace_floats;
using kernels::transposed;

// Sequences go in groups, which bounds the memory for K' and V': this many sequences at most, and about as
// many rows.
constexpr size_t kSequences = 64, kRows = 4096;
constexpr size_t kColumns = 4096;  // of dE and dF at a time

// Attention of a batch's queries over K' and V', group by group.
class Projected {
 public:
  Projected(const AttentionBatch& b, const Compute& compute, Workspace::Parts& parts, bool backward)
      : b_(b), e_(compute.e), f_(compute.f), team_(parts.team), rank_(compute.e.rows()) {
    const size_t width = std::max(b.k.cols(), b.v.cols());
    group_ = std::clamp<size_t>(kRows / std::max<size_t>(rank_, 1), 1, kSequences);
    for (size_t i = 0; i <= group_; ++i) offsets_[i] = int32_t(i * rank_);
    size_t longest = 0, bytes = 0;
    for (size_t s = 0; s < b.sequences(); ++s) longest = std::max(longest, b.keys(s));
    each_group([&](size_t first, size_t count) {
      const AttentionBatch here = batch(first, count);
      bytes = std::max(bytes, dot_product::workspace_bytes(here, false, team_.threads()));
      if (backward) bytes = std::max(bytes, dot_product::backward_workspace_bytes(here, team_.threads()));
    });
    size_t packed = matmul_workspace_floats(longest, width);
    if (backward)
      packed = std::max({packed, matmul_workspace_floats(rank_, width),
                         matmul_workspace_floats(width, std::min(longest, kColumns))});
    const size_t rows = group_ * rank_, copies = backward ? 2 : 1;
    const size_t sums = backward ? b.q.rows() * b.heads : 0, outs = backward ? b.q.rows() * b.v.cols() : 0;
    parts.arena.reset(copies * Arena::bytes_for<float>(rows * b.k.cols()) +
                      copies * Arena::bytes_for<float>(rows * b.v.cols()) + Arena::bytes_for<float>(packed) +
                      Arena::bytes_for<float>(sums) + Arena::bytes_for<float>(outs) +
                      Arena::bytes_for<std::byte>(bytes));
    k_ = parts.arena.take<float>(rows, b.k.cols());
    v_ = parts.arena.take<float>(rows, b.v.cols());
    if (backward)
      dk_ = parts.arena.take<float>(rows, b.k.cols()), dv_ = parts.arena.take<float>(rows, b.v.cols());
    packed_ = parts.arena.take<float>(packed);
    log_sums_ = {parts.arena.take<float>(sums), sums};
    out_ = {parts.arena.take<float>(outs), backward ? b.q.rows() : 0, b.v.cols()};
    workspace_ = parts.arena.take<std::byte>(bytes);
  }

  void forward(Matrix<float> out) {
    each_group([&](size_t first, size_t count) {
      project(first, count);
      dot_product::tiled(batch(first, count), out, {}, workspace_, team_);
    });
  }

  void backward(Matrix<const float> d_out, const AttentionGradients& to) {
    each_group([&](size_t first, size_t count) {
      project(first, count);
      const AttentionBatch here = batch(first, count);
      dot_product::tiled(here, out_, log_sums_, workspace_, team_);
      dot_product::backward(here, out_, log_sums_, d_out, {.q = to.q, .k = dk_, .v = dv_}, workspace_, team_);
      for (size_t i = 0; i < count; ++i) {
        project_backward(first + i, e_, b_.k, dk_.slice_rows(i * rank_, rank_), to.k, to.e);
        project_backward(first + i, f_, b_.v, dv_.slice_rows(i * rank_, rank_), to.v, to.f);
      }
    });
  }

 private:
  template <class Body>
  void each_group(const Body& body) {
    for (size_t s = 0; s < b_.sequences(); s += group_) body(s, std::min(group_, b_.sequences() - s));
  }

  AttentionBatch batch(size_t first, size_t count) const {
    const size_t rows = group_ * rank_;
    return {.q = b_.q,
            .k = {k_.data(), rows, b_.k.cols()},
            .v = {v_.data(), rows, b_.v.cols()},
            .q_offsets = b_.q_offsets.subspan(first, count + 1),
            .k_offsets = std::span(offsets_).first(count + 1),
            .heads = b_.heads,
            .scale = b_.scale};
  }

  Matrix<const float> rows_of(Matrix<const float> x, size_t s) const {
    return x.slice_rows(size_t(b_.k_offsets[s]), b_.keys(s));
  }

  void project(size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const size_t s = first + i, m = b_.keys(s);
      matmul(e_.slice_cols(0, m), rows_of(b_.k, s), k_.slice_rows(i * rank_, rank_), packed_, team_);
      matmul(f_.slice_cols(0, m), rows_of(b_.v, s), v_.slice_rows(i * rank_, rank_), packed_, team_);
    }
  }

  // From d, the gradient of p·x, to those of x (assigned) and p (added to).
  void project_backward(size_t s, Matrix<const float> p, Matrix<const float> x, Matrix<const float> d,
                        Matrix<float> dx, Matrix<float> dp) {
    const size_t m = b_.keys(s);
    matmul(transposed(p.slice_cols(0, m)), d, dx.slice_rows(size_t(b_.k_offsets[s]), m), packed_, team_);
    if (dp.empty()) return;
    for (size_t j = 0; j < m; j += kColumns) {
      const size_t count = std::min(kColumns, m - j);
      matmul(d, transposed(rows_of(x, s).slice_rows(j, count)), dp.slice_cols(j, count), packed_, team_,
             Accumulate::kYes);
    }
  }

  const AttentionBatch& b_;
  Matrix<const float> e_, f_;
  Team& team_;
  size_t rank_, group_;
  std::array<int32_t, kSequences + 1> offsets_;
  Matrix<float> k_, v_, dk_, dv_;  // K', V' of a group, and their gradients
  float* packed_;
  std::span<float> log_sums_;
  Matrix<float> out_;
  std::byte* workspace_;
};

}  // namespace

void forward(const AttentionBatch& b, const Compute& compute, Matrix<float> out, Workspace::Parts& parts) {
  Projected(b, compute, parts, false).forward(out);
}

void backward(const AttentionBatch& b, const Compute& compute, Matrix<const float>, Matrix<const float> d_out,
              const AttentionGradients& gradients, Workspace::Parts& parts) {
  Projected(b, compute, parts, true).backward(d_out, gradients);
}

}  // namespace bertie::linformer
