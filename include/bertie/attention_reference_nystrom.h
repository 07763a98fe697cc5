#pragma once
// Nyström attention (Xiong et al. 2021), one head of one sequence: the meaning of Compute::nystrom.
//
//   L = min(landmarks, n, m);  Q̃ and K̃ (L, D): means of L segments, segment l rows l·n/L .. (l+1)·n/L − 1
//   A = softmax(scale·Q·K̃ᵀ) (n, L)   B = softmax(scale·Q̃·K̃ᵀ) (L, L)   C = softmax(scale·Q̃·Kᵀ) (L, m)
//   out = A·(Z·(C·V)),   Z ≈ B⁺ by `iterations` steps of
//   Z₀ = Bᵀ/(c·r), c and r B's largest column and row sum,   P = B·Z,   Z ← ¼·Z·(13I − P·(15I − P·(7I − P)))
//
// Backward, from dG of a product G = X·Y: dX = dG·Yᵀ, dY = Xᵀ·dG, all along. A step Z' = ¼·Z·W with
// U = 7I − P, V = 15I − P·U, W = 13I − P·V gives
//   dZ = ¼·dZ'·Wᵀ,  dW = ¼·Zᵀ·dZ',  dV = −Pᵀ·dW,  dU = −Pᵀ·dV,  dP = −(dW·Vᵀ + dV·Uᵀ + dU),
//   dB += dP·Zᵀ,  dZ += Bᵀ·dP
// and the beginning dB += dZ₀ᵀ/(c·r), −Σ dZ₀∘Z₀/c to the column whose sum is c, −Σ dZ₀∘Z₀/r to the row of r.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "bertie/attention_reference.h"

namespace bertie::reference {

// (L, D): means of L segments of x.
template <class T>
Table<T> segment_means(Matrix<const T> x, size_t segments) {
  Table<T> means(segments, x.cols());
  const Matrix<T> to = means;
  for (size_t l = 0; l < segments; ++l) {
    const size_t begin = l * x.rows() / segments, end = (l + 1) * x.rows() / segments;
    for (size_t i = begin; i < end; ++i) add<T>(to[l], T(1) / T(double(end - begin)), x[i]);
  }
  return means;
}

template <class T>
void segment_means_backward(Matrix<const T> d_means, Matrix<T> dx) {
  const size_t segments = d_means.rows();
  for (size_t l = 0; l < segments; ++l) {
    const size_t begin = l * dx.rows() / segments, end = (l + 1) * dx.rows() / segments;
    for (size_t i = begin; i < end; ++i) add<T>(dx[i], T(1) / T(double(end - begin)), d_means[l]);
  }
}

// diagonal·I − a
template <class T>
Table<T> diagonal_minus(double diagonal, Matrix<const T> a) {
  Table<T> result(a.rows(), a.cols());
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < a.cols(); ++j) result(i, j) = (i == j ? T(diagonal) : T(0)) - a(i, j);
  return result;
}

template <class T>
Table<T> scaled(T factor, Matrix<const T> a) {
  Table<T> result(a.rows(), a.cols());
  const Matrix<T> to = result;
  for (size_t i = 0; i < a.rows(); ++i) add<T>(to[i], factor, a[i]);
  return result;
}

// The row whose numbers add up to most, and that sum. (B's are positive: no absolute values.)
template <class T>
std::pair<size_t, T> largest_row(Matrix<const T> a) {
  size_t at = 0;
  T most = T(0);
  for (size_t i = 0; i < a.rows(); ++i) {
    T sum = T(0);
    for (T x : a[i]) sum += x;
    if (i == 0 || sum > most) at = i, most = sum;
  }
  return {at, most};
}

// What a step from Z computes on its way.
template <class T>
struct NystromStep {
  NystromStep(Matrix<const T> b, const Table<T>& from)
      : z(from),
        p(product<T>(b, z)),
        u(diagonal_minus<T>(7, p)),
        v(diagonal_minus<T>(15, product<T>(p, u))),
        w(diagonal_minus<T>(13, product<T>(p, v))) {}
  Table<T> next() const { return scaled<T>(T(0.25), product<T>(z, w)); }

  Table<T> z, p, u, v, w;
};

// The steps from Z₀ on; the last one's z is the pseudo-inverse.
template <class T>
std::vector<NystromStep<T>> pseudo_inverse(const Table<T>& b, size_t iterations) {
  const Table<T> bt = transposed<T>(b);
  const T norms = largest_row<T>(b).second * largest_row<T>(bt).second;
  std::vector<NystromStep<T>> steps;
  steps.emplace_back(b, scaled<T>(T(1) / norms, bt));
  for (size_t step = 0; step < iterations; ++step) steps.emplace_back(b, steps.back().next());
  return steps;
}

template <class T>
void pseudo_inverse_backward(const Table<T>& b, const std::vector<NystromStep<T>>& steps, Table<T> dz,
                             Matrix<T> db) {
  const Table<T> bt = transposed<T>(b);
  for (size_t step = steps.size() - 1; step-- > 0;) {
    const NystromStep<T>& s = steps[step];
    const Table<T> pt = transposed<T>(s.p), minus_pt = scaled<T>(T(-1), pt);
    const Table<T> dw = scaled<T>(T(0.25), product<T>(transposed<T>(s.z), dz));
    const Table<T> dv = product<T>(minus_pt, dw), du = product<T>(minus_pt, dv);
    Table<T> dp = scaled<T>(T(-1), du);
    add_product<T>(scaled<T>(T(-1), dw), transposed<T>(s.v), dp);
    add_product<T>(scaled<T>(T(-1), dv), transposed<T>(s.u), dp);
    add_product<T>(dp, transposed<T>(s.z), db);
    dz = scaled<T>(T(0.25), product<T>(dz, transposed<T>(s.w)));
    add_product<T>(bt, dp, dz);
  }
  const auto [row, r] = largest_row<T>(b);
  const auto [col, c] = largest_row<T>(bt);
  T along = T(0);
  for (size_t i = 0; i < b.rows(); ++i) along += dot<T>(dz[i], steps[0].z[i]);
  for (size_t i = 0; i < b.rows(); ++i) {
    for (size_t j = 0; j < b.cols(); ++j) db(i, j) += dz(j, i) / (c * r);
    db(i, col) -= along / c;
    db(row, i) -= along / r;
  }
}

// Everything between the inputs and the output.
template <class T>
struct Nystrom {
  Nystrom(Matrix<const T> q, Matrix<const T> k, T scale, size_t landmarks, size_t iterations)
      : count(std::min({landmarks, q.rows(), k.rows()})),
        mean_q(segment_means<T>(q, count)),
        mean_k(segment_means<T>(k, count)),
        a(q.rows(), count),
        b(count, count),
        c(count, k.rows()) {
    softmax_weights<T>(DotScore<T>{.q = q, .k = mean_k, .scale = scale}, One{}, a);
    softmax_weights<T>(DotScore<T>{.q = mean_q, .k = mean_k, .scale = scale}, One{}, b);
    softmax_weights<T>(DotScore<T>{.q = mean_q, .k = k, .scale = scale}, One{}, c);
    steps = pseudo_inverse<T>(b, iterations);
  }

  size_t count;
  Table<T> mean_q, mean_k, a, b, c;
  std::vector<NystromStep<T>> steps;
};

template <class T>
void nystrom_attention(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, T scale, size_t landmarks,
                       size_t iterations, Matrix<T> out) {
  for (size_t i = 0; i < out.rows(); ++i)
    for (T& x : out[i]) x = T(0);
  if (q.rows() == 0 || k.rows() == 0) return;
  const Nystrom<T> s(q, k, scale, landmarks, iterations);
  add_product<T>(s.a, product<T>(s.steps.back().z, product<T>(s.c, v)), out);
}

template <class T>
void nystrom_attention_backward(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, T scale,
                                size_t landmarks, size_t iterations, Matrix<const T> d_out,
                                const Gradients<T>& d) {
  if (q.rows() == 0 || k.rows() == 0) return;
  const Nystrom<T> s(q, k, scale, landmarks, iterations);
  const size_t count = s.count;
  const Table<T>& z = s.steps.back().z;
  const Table<T> cv = product<T>(s.c, v), zcv = product<T>(z, cv);
  // out = A·zcv,  zcv = Z·cv,  cv = C·V
  const Table<T> da = product<T>(d_out, transposed<T>(zcv));
  const Table<T> d_zcv = product<T>(transposed<T>(s.a), d_out);
  const Table<T> dz = product<T>(d_zcv, transposed<T>(cv));
  const Table<T> d_cv = product<T>(transposed<T>(z), d_zcv);
  const Table<T> dc = product<T>(d_cv, transposed<T>(v));
  add_product<T>(transposed<T>(s.c), d_cv, d.v);
  Table<T> db(count, count), d_mean_q(count, q.cols()), d_mean_k(count, k.cols());
  pseudo_inverse_backward<T>(s.b, s.steps, dz, db);
  softmax_weights_backward<T>(DotScore<T>{q, s.mean_k, scale, d.q, d_mean_k}, One{}, s.a, da);
  softmax_weights_backward<T>(DotScore<T>{s.mean_q, s.mean_k, scale, d_mean_q, d_mean_k}, One{}, s.b, db);
  softmax_weights_backward<T>(DotScore<T>{s.mean_q, k, scale, d_mean_q, d.k}, One{}, s.c, dc);
  segment_means_backward<T>(d_mean_q, d.q);
  segment_means_backward<T>(d_mean_k, d.k);
}

}  // namespace bertie::reference
