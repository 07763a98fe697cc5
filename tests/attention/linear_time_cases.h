#pragma once
// The linear-time mechanisms on random packed batches, beside what the reference makes of them in double.
#include <algorithm>
#include <limits>
#include <vector>

#include "attention/features.h"
#include "attention/reference_batch.h"
#include "attention/workspace.h"
#include "support/numbers.h"

namespace bertie::test {

struct LinearTimeShape {
  std::vector<int32_t> queries, keys;
  size_t heads = 1, d = 8, dv = 8;
  float size = 1;  // of the numbers in q and k
};

// A call's inputs, with gaps between the rows that hold NaN.
class LinearTimeCase {
 public:
  LinearTimeCase(LinearTimeShape s, Compute compute, Look look = {}, uint64_t seed = 1)
      : shape(std::move(s)) {
    for (auto [lengths, offsets] :
         {std::pair(&shape.queries, &q_offsets), std::pair(&shape.keys, &k_offsets)}) {
      offsets->assign(1, 0);
      for (int32_t n : *lengths) offsets->push_back(offsets->back() + n);
    }
    options = {.heads = shape.heads,
               .look = look,
               .compute = compute,
               .q_offsets = q_offsets,
               .k_offsets = k_offsets};
    q = fill(size_t(q_offsets.back()), shape.d, seed, shape.size);
    k = fill(size_t(k_offsets.back()), shape.d, seed + 1, shape.size);
    v = fill(size_t(k_offsets.back()), shape.dv, seed + 2, 1);
    d_out = fill(size_t(q_offsets.back()), shape.dv, seed + 3, 1);
  }
  LinearTimeCase(const LinearTimeCase&) = delete;

  AttentionBatch batch() const {
    return {.q = view(q, shape.d),
            .k = view(k, shape.d),
            .v = view(v, shape.dv),
            .q_offsets = q_offsets,
            .k_offsets = k_offsets,
            .heads = shape.heads,
            .scale = 1.0f / std::sqrt(float(shape.d)),
            .look = options.look};
  }
  Matrix<const float> view(const std::vector<float>& x, size_t width) const {
    const size_t cols = shape.heads * width;
    return {x.data(), x.size() / (cols + kGap), cols, cols + kGap};
  }

  static constexpr size_t kGap = 3;
  LinearTimeShape shape;
  std::vector<int32_t> q_offsets, k_offsets;
  std::vector<float> q, k, v, d_out;
  AttentionOptions options;

 private:
  std::vector<float> fill(size_t rows, size_t width, uint64_t seed, float size) const {
    const size_t cols = shape.heads * width;
    const auto random = random_floats(rows * cols, seed, -size, size);
    std::vector<float> x(rows * (cols + kGap), kNaN);
    for (size_t r = 0; r < rows; ++r)
      std::copy_n(random.data() + r * cols, cols, x.data() + r * (cols + kGap));
    return x;
  }
};

struct LinearTimeResult {
  std::vector<float> out, dq, dk, dv, de, df;
};

// Forward and backward of a mechanism's two functions.
template <class Forward, class Backward>
LinearTimeResult run(const LinearTimeCase& c, const Forward& forward, const Backward& backward,
                     Workspace& workspace) {
  const AttentionBatch b = c.batch();
  const Compute& compute = c.options.compute;
  const size_t n = b.q.rows(), m = b.k.rows(), e_cols = compute.e.cols(), rank = compute.e.rows();
  Guarded out(n * b.v.cols()), dq(n * b.q.cols()), dk(m * b.k.cols()), dv(m * b.v.cols());
  LinearTimeResult r;
  r.de.assign(rank * e_cols, 0), r.df.assign(rank * e_cols, 0);
  const Matrix<float> out_view{out.data(), n, b.v.cols()};
  forward(b, compute, out_view, workspace.parts());
  backward(b, compute, out_view, c.view(c.d_out, c.shape.dv),
           {.q = {dq.data(), n, b.q.cols()},
            .k = {dk.data(), m, b.k.cols()},
            .v = {dv.data(), m, b.v.cols()},
            .e = {r.de.data(), rank, e_cols},
            .f = {r.df.data(), rank, e_cols}},
           workspace.parts());
  EXPECT_TRUE(out.intact() && dq.intact() && dk.intact() && dv.intact());
  const auto copy = [](Guarded& g) { return std::vector<float>(g.span().begin(), g.span().end()); };
  r.out = copy(out), r.dq = copy(dq), r.dk = copy(dk), r.dv = copy(dv);
  return r;
}

inline testing::AssertionResult same_bits(const LinearTimeResult& a, const LinearTimeResult& b) {
  for (auto [what, x, y] :
       {std::tuple("out", &a.out, &b.out), std::tuple("dq", &a.dq, &b.dq), std::tuple("dk", &a.dk, &b.dk),
        std::tuple("dv", &a.dv, &b.dv), std::tuple("de", &a.de, &b.de), std::tuple("df", &a.df, &b.df)})
    if (auto same = same_bits(*x, *y); !same) return same << " in " << what;
  return testing::AssertionSuccess();
}

// Worst errors relative to the largest number: of out, and of any gradient. Where a gradient cancels to
// nothing, as with a single key, what counts is a hundredth of the largest number in any of them.
struct LinearTimeErrors {
  double out = 0, gradient = 0;
};

inline LinearTimeErrors errors(const LinearTimeCase& c, const LinearTimeResult& r) {
  const AttentionBatch b = c.batch();
  const auto q = double_table(b.q), k = double_table(b.k), v = double_table(b.v);
  const ReferenceBatch expected(q, k, v, c.options, [&](size_t) {
    reference::Table<float> omega(c.options.compute.features, c.shape.d);
    orthogonal_features(c.options.compute.features, c.shape.d, c.options.compute.seed, omega);
    return double_table(Matrix<const float>(std::as_const(omega)));
  });
  const auto d_out = double_table(c.view(c.d_out, c.shape.dv));
  const ReferenceGradients g = expected.backward(d_out);
  LinearTimeErrors worst{.out = relative_error(r.out, numbers_of(expected.out))};
  const auto largest = [](const Table<double>& t) {
    double most = 0;
    for (double x : numbers_of(t)) most = std::max(most, std::abs(x));
    return most;
  };
  const double overall = std::max({largest(g.q), largest(g.k), largest(g.v), largest(g.e), largest(g.f)});
  for (auto [actual, wanted] : {std::pair(&r.dq, &g.q), std::pair(&r.dk, &g.k), std::pair(&r.dv, &g.v),
                                std::pair(&r.de, &g.e), std::pair(&r.df, &g.f)}) {
    const double own = largest(*wanted), error = relative_error(*actual, numbers_of(*wanted)) *
                                                 std::max(own, std::numeric_limits<double>::min());
    if (error > 0) worst.gradient = std::max(worst.gradient, error / std::max(own, 1e-2 * overall));
  }
  return worst;
}

// The last sequences of `from` as those of `to`.
inline void take_last(const LinearTimeCase& from, LinearTimeCase& to) {
  for (auto [f, t] : {std::pair(&from.q, &to.q), std::pair(&from.k, &to.k), std::pair(&from.v, &to.v),
                      std::pair(&from.d_out, &to.d_out)})
    std::copy(f->end() - ptrdiff_t(t->size()), f->end(), t->begin());
}

// The last sequences of `all` came out as they do `alone`, bit for bit.
inline void expect_same_at_the_end(const auto& all, const auto& alone) {
  EXPECT_TRUE(same_bits(std::span(all.out).last(alone.out.size()), alone.out));
  EXPECT_TRUE(same_bits(std::span(all.dq).last(alone.dq.size()), alone.dq));
  EXPECT_TRUE(same_bits(std::span(all.dk).last(alone.dk.size()), alone.dk));
  EXPECT_TRUE(same_bits(std::span(all.dv).last(alone.dv.size()), alone.dv));
}

// Root mean square of what is between `out` and what c's options make of c in double.
inline double difference(std::span<const float> out, const LinearTimeCase& c) {
  const AttentionBatch b = c.batch();
  const auto q = double_table(b.q), k = double_table(b.k), v = double_table(b.v);
  const auto expected = numbers_of(ReferenceBatch(q, k, v, c.options).out);
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) sum += std::pow(double(out[i]) - expected[i], 2);
  return std::sqrt(sum / double(expected.size()));
}

}  // namespace bertie::test
