#include "attention/nystrom.h"

#include <algorithm>
#include <array>

#include "attention/pseudo_inverse.h"
#include "attention/scaled_dot_product.h"
#include "kernels/matmul.h"
#include "kernels/softmax.h"

namespace bertie::nystrom {
namespace {

using kernels::Accumulate;
using kernels::matmul;
using kernels::matmul_workspace_floats;
using kernels::transposed;

constexpr size_t kSequences = 64;  // at a time

// Row l of `means` is the mean of its segment of x.
void segment_mean(Matrix<const float> x, size_t l, Matrix<float> means) {
  const size_t begin = l * x.rows() / means.rows(), end = (l + 1) * x.rows() / means.rows();
  float* to = means.row(l);
  std::fill_n(to, means.cols(), 0.0f);
  for (size_t r = begin; r < end; ++r)
    for (size_t c = 0; c < means.cols(); ++c) to[c] += x(r, c);
  for (size_t c = 0; c < means.cols(); ++c) to[c] /= float(end - begin);
}

// Each row of the segment gets its share of the mean's gradient.
void segment_mean_backward(Matrix<const float> d_means, size_t l, Matrix<float> dx) {
  const size_t begin = l * dx.rows() / d_means.rows(), end = (l + 1) * dx.rows() / d_means.rows();
  for (size_t r = begin; r < end; ++r)
    for (size_t c = 0; c < dx.cols(); ++c) dx(r, c) += d_means(l, c) / float(end - begin);
}

// A group of sequences: their landmarks, one sequence's after the other's, and attention to and from them.
class Landmarks {
 public:
  Landmarks(const AttentionBatch& b, const Compute& compute, Workspace::Parts& parts, bool backward)
      : b_(b), compute_(compute), team_(parts.team) {
    size_t bytes = 0, rows = 0, most = 0;
    each_group([&] {
      rows = std::max(rows, landmarks());
      for (size_t i = 0; i < count_; ++i) most = std::max(most, landmarks(i));
      for (const AttentionBatch& part : {inward(), outward()}) {
        bytes = std::max(bytes, dot_product::workspace_bytes(part, false, team_.threads()));
        if (backward) bytes = std::max(bytes, dot_product::backward_workspace_bytes(part, team_.threads()));
      }
    });
    const size_t d = b.head_size(), dv = b.value_size(), threads = size_t(team_.threads());
    own_floats_ = round_up(std::max({matmul_workspace_floats(d, most), matmul_workspace_floats(most, d),
                                     matmul_workspace_floats(dv, most), matmul_workspace_floats(most, dv)}) +
                               PseudoInverse::floats(most, compute.iterations),
                           kAlignment);
    const auto take_all = [&](const auto& take) {
      workspace_ = take.template operator()<std::byte>(bytes);
      own_ = take.template operator()<float>(threads * own_floats_);
      for (Matrix<float>* m : {&q_, &k_, &dq_, &dk_, &dq_of_b_})
        if (backward || m == &q_ || m == &k_)
          *m = {take.template operator()<float>(rows * b.q.cols()), rows, b.q.cols()};
      for (Matrix<float>* m : {&x_, &y_, &dx_, &dy_})
        if (backward || m == &x_ || m == &y_)
          *m = {take.template operator()<float>(rows * b.v.cols()), rows, b.v.cols()};
      if (!backward) return;
      out_ = {take.template operator()<float>(b.q.rows() * b.v.cols()), b.q.rows(), b.v.cols()};
      log_sums_in_ = take.template operator()<float>(rows * b.heads);
      log_sums_out_ = take.template operator()<float>(b.q.rows() * b.heads);
    };
    size_t total = 0;
    take_all([&]<class T>(size_t count) -> T* { return total += Arena::bytes_for<T>(count), nullptr; });
    parts.arena.reset(total);
    take_all([&]<class T>(size_t count) -> T* { return parts.arena.take<T>(count); });
  }

  void forward(Matrix<float> out) {
    each_group([&] { forward_group(out, false); });
  }

  void backward(Matrix<const float> d_out, const AttentionGradients& to) {
    each_group([&] {
      forward_group(out_, true);
      dot_product::backward(outward(), out_, {log_sums_out_, b_.q.rows() * b_.heads}, d_out,
                            {.q = to.q, .k = dk_, .v = dx_}, workspace_, team_);
      each_head([&](size_t i, size_t h, float* packed, PseudoInverse& inverse) {
        middle_backward(i, h, packed, inverse);
      });
      dot_product::backward(inward(), y_.slice_rows(0, landmarks()), {log_sums_in_, landmarks() * b_.heads},
                            dy_.slice_rows(0, landmarks()), {.q = dq_, .k = to.k, .v = to.v}, workspace_,
                            team_);
      each_landmark([&](size_t i, size_t l) {
        float* dq = dq_.row(size_t(offsets_[i]) + l);
        for (size_t c = 0; c < dq_.cols(); ++c) dq[c] += dq_of_b_(size_t(offsets_[i]) + l, c);
        segment_mean_backward(of(dq_, i), l,
                              to.q.slice_rows(size_t(b_.q_offsets[first_ + i]), b_.queries(first_ + i)));
        segment_mean_backward(of(dk_, i), l,
                              to.k.slice_rows(size_t(b_.k_offsets[first_ + i]), b_.keys(first_ + i)));
      });
    });
  }

 private:
  template <class Body>
  void each_group(const Body& body) {
    for (first_ = 0; first_ < b_.sequences(); first_ += count_) {
      count_ = std::min(kSequences, b_.sequences() - first_);
      offsets_[0] = 0;
      for (size_t i = 0; i < count_; ++i)
        offsets_[i + 1] =
            offsets_[i] +
            int32_t(std::min({compute_.landmarks, b_.queries(first_ + i), b_.keys(first_ + i)}));
      body();
    }
  }
  size_t landmarks() const { return size_t(offsets_[count_]); }
  size_t landmarks(size_t i) const { return size_t(offsets_[i + 1] - offsets_[i]); }

  // body(sequence of the group, landmark)
  template <class Body>
  void each_landmark(const Body& body) {
    team_.parallel_for(landmarks(), [&](size_t row) {
      const size_t i =
          size_t(std::upper_bound(offsets_.begin(), offsets_.begin() + count_ + 1, int32_t(row)) -
                 offsets_.begin()) -
          1;
      body(i, row - size_t(offsets_[i]));
    });
  }
  // body(sequence of the group, head, memory for packing, B's pseudo-inverse to be)
  template <class Body>
  void each_head(const Body& body) {
    team_.parallel_for(count_ * b_.heads, [&](size_t chunk, size_t thread) {
      const size_t i = chunk / b_.heads;
      if (landmarks(i) == 0) return;
      float* own = own_ + thread * own_floats_;
      PseudoInverse inverse(landmarks(i), compute_.iterations, own);
      body(i, chunk % b_.heads, own + PseudoInverse::floats(landmarks(i), compute_.iterations), inverse);
    });
  }

  // Rows of one sequence's landmarks, and of those one head's columns.
  Matrix<float> of(Matrix<float> x, size_t i) const {
    return x.slice_rows(size_t(offsets_[i]), landmarks(i));
  }
  Matrix<float> of(Matrix<float> x, size_t i, size_t h) const {
    const size_t width = x.cols() / b_.heads;
    return of(x, i).slice_cols(h * width, width);
  }

  std::span<const int32_t> offsets() const { return std::span(offsets_).first(count_ + 1); }
  // C·V: landmarks look at the sequence.
  AttentionBatch inward() const {
    return {.q = {q_.data(), landmarks(), b_.q.cols()},
            .k = b_.k,
            .v = b_.v,
            .q_offsets = offsets(),
            .k_offsets = b_.k_offsets.subspan(first_, count_ + 1),
            .heads = b_.heads,
            .scale = b_.scale};
  }
  // A·X: the sequence looks at landmarks.
  AttentionBatch outward() const {
    return {.q = b_.q,
            .k = {k_.data(), landmarks(), b_.k.cols()},
            .v = {x_.data(), landmarks(), b_.v.cols()},
            .q_offsets = b_.q_offsets.subspan(first_, count_ + 1),
            .k_offsets = offsets(),
            .heads = b_.heads,
            .scale = b_.scale};
  }

  void forward_group(Matrix<float> out, bool keep_sums) {
    each_landmark([&](size_t i, size_t l) {
      segment_mean(b_.q.slice_rows(size_t(b_.q_offsets[first_ + i]), b_.queries(first_ + i)), l, of(q_, i));
      segment_mean(b_.k.slice_rows(size_t(b_.k_offsets[first_ + i]), b_.keys(first_ + i)), l, of(k_, i));
    });
    const auto sums = [&](float* memory, size_t rows) {
      return keep_sums ? std::span(memory, rows * b_.heads) : std::span<float>();
    };
    dot_product::tiled(inward(), y_.slice_rows(0, landmarks()), sums(log_sums_in_, landmarks()), workspace_,
                       team_);
    each_head([&](size_t i, size_t h, float* packed, PseudoInverse& inverse) {
      Team alone;
      fill_b(i, h, packed, inverse.b());
      matmul(inverse.forward(), of(y_, i, h), of(x_, i, h), packed, alone);
    });
    dot_product::tiled(outward(), out, sums(log_sums_out_, b_.q.rows()), workspace_, team_);
  }

  void fill_b(size_t i, size_t h, float* packed, Matrix<float> b) {
    Team alone;
    matmul(of(q_, i, h), transposed(of(k_, i, h)), b, packed, alone);
    for (size_t r = 0; r < b.rows(); ++r) {
      for (float& x : b[r]) x *= b_.scale;
      kernels::softmax_forward(b[r]);
    }
  }

  // From dX to dY, and through Z and B to the landmarks.
  void middle_backward(size_t i, size_t h, float* packed, PseudoInverse& inverse) {
    Team alone;
    const Matrix<float> b = inverse.b();
    fill_b(i, h, packed, b);
    const Matrix<const float> z = inverse.forward();
    matmul(of(dx_, i, h), transposed(of(y_, i, h)), inverse.dz(), packed, alone);
    matmul(transposed(z), of(dx_, i, h), of(dy_, i, h), packed, alone);
    const Matrix<float> ds = inverse.backward();
    for (size_t r = 0; r < b.rows(); ++r) {
      float sum = 0;
      for (size_t c = 0; c < b.cols(); ++c) sum += ds(r, c) * b(r, c);
      for (size_t c = 0; c < b.cols(); ++c) ds(r, c) = b_.scale * b(r, c) * (ds(r, c) - sum);
    }
    matmul(ds, of(k_, i, h), of(dq_of_b_, i, h), packed, alone);
    matmul(transposed(ds), of(q_, i, h), of(dk_, i, h), packed, alone, Accumulate::kYes);
  }

  const AttentionBatch& b_;
  const Compute& compute_;
  Team& team_;
  size_t first_ = 0, count_ = 0;  // this group's sequences
  std::array<int32_t, kSequences + 1> offsets_;
  size_t own_floats_;
  std::byte* workspace_;
  float* own_;                               // each thread's
  Matrix<float> q_, k_, dq_, dk_, dq_of_b_;  // Q̃, K̃ and gradients; that of Q̃ through B by itself
  Matrix<float> x_, y_, dx_, dy_;
  Matrix<float> out_;
  float *log_sums_in_ = nullptr, *log_sums_out_ = nullptr;
};

}  // namespace

void forward(const AttentionBatch& b, const Compute& compute, Matrix<float> out, Workspace::Parts& parts) {
  Landmarks(b, compute, parts, false).forward(out);
}

void backward(const AttentionBatch& b, const Compute& compute, Matrix<const float>, Matrix<const float> d_out,
              const AttentionGradients& gradients, Workspace::Parts& parts) {
  Landmarks(b, compute, parts, true).backward(d_out, gradients);
}

}  // namespace bertie::nystrom
