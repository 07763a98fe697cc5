#pragma once
// What each attention mechanism means: forward and backward as plain loops in the order of the formula, for
// one head of one sequence and any number type (float, double, or one that carries derivatives). The fast
// functions of bertie/attention.h are tested against this text; speed does not matter here, being obvious
// does.
//
//   n queries, m keys   q (n, D)   k (m, D)   v (m, Dv)   weights (n, m)   out (n, Dv)
//
// The score may be any function of (i, j), so a compatibility function of your own takes one lambda, and a
// second one for its gradient:
//
//   const auto distance = reference::with_gradient(
//       [&](size_t i, size_t j) { return -(q[i] - k[j]) * (q[i] - k[j]); },
//       [&](size_t i, size_t j, double ds) { dq[i] -= 2 * (q[i] - k[j]) * ds, dk[j] += 2 * (q[i] - k[j]) *
//       ds; });
//   reference::softmax_attention<double>(distance, v, weights, out);
//   reference::softmax_attention_backward<double>(distance, v, d_out, dv);
//
// Every gradient is added to what is there: begin with zeros. Views to be filled must have their shape;
// nothing is checked.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "bertie/view.h"

namespace bertie::reference {

// A matrix that owns its numbers, 0 at first.
template <class T>
class Table {
 public:
  Table(size_t rows, size_t cols) : values_(rows * cols, T(0)), rows_(rows), cols_(cols) {}
  operator Matrix<T>() { return {values_.data(), rows_, cols_}; }
  operator Matrix<const T>() const { return {values_.data(), rows_, cols_}; }
  T& operator()(size_t r, size_t c) { return values_[r * cols_ + c]; }
  T operator()(size_t r, size_t c) const { return values_[r * cols_ + c]; }
  std::span<const T> operator[](size_t r) const { return std::span(values_).subspan(r * cols_, cols_); }
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }

 private:
  std::vector<T> values_;
  size_t rows_, cols_;
};

template <class T>
T dot(std::span<const T> a, std::span<const T> b) {
  T sum = T(0);
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

// to += factor·x
template <class T>
void add(std::span<T> to, T factor, std::span<const T> x) {
  for (size_t c = 0; c < to.size(); ++c) to[c] += factor * x[c];
}

// c += a·b. With y = x·w, the gradients are dx = dy·wᵀ and dw = xᵀ·dy.
template <class T>
void add_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> c) {
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < a.cols(); ++j) add<T>(c[i], a(i, j), b[j]);
}

template <class T>
Table<T> product(Matrix<const T> a, Matrix<const T> b) {
  Table<T> c(a.rows(), b.cols());
  add_product<T>(a, b, c);
  return c;
}

template <class T>
Table<T> transposed(Matrix<const T> a) {
  Table<T> t(a.cols(), a.rows());
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < a.cols(); ++j) t(j, i) = a(i, j);
  return t;
}

// ---- How to score. score(i, j) is how well query i and key j agree; score.backward(i, j, ds) adds
// ds·∂score(i, j)/∂x to the gradient of everything the score depends on.

// s = scale·q·k          dq = scale·ds·k,  dk = scale·ds·q
template <class T>
struct DotScore {
  Matrix<const T> q, k;
  T scale = T(1);
  Matrix<T> dq = {}, dk = {};

  T operator()(size_t i, size_t j) const { return scale * dot<T>(q[i], k[j]); }
  void backward(size_t i, size_t j, T ds) const {
    add<T>(dq[i], scale * ds, k[j]);
    add<T>(dk[j], scale * ds, q[i]);
  }
};

// s = qᵀ·W·k             dq = ds·W·k,  dk = ds·Wᵀ·q,  dW = ds·q·kᵀ
template <class T>
struct GeneralScore {
  Matrix<const T> q, k, w;  // (n, D), (m, Dk), (D, Dk)
  Matrix<T> dq = {}, dk = {}, dw = {};

  T operator()(size_t i, size_t j) const {
    T sum = T(0);
    for (size_t c = 0; c < q.cols(); ++c) sum += q(i, c) * dot<T>(w[c], k[j]);
    return sum;
  }
  void backward(size_t i, size_t j, T ds) const {
    for (size_t c = 0; c < q.cols(); ++c) {
      dq(i, c) += ds * dot<T>(w[c], k[j]);
      add<T>(dk[j], ds * q(i, c), w[c]);
      add<T>(dw[c], ds * q(i, c), k[j]);
    }
  }
};

// s = vᵀ·t, t = tanh(W₁·q + W₂·k)
// dv = ds·t;  g = ds·v∘(1 − t²);  dW₁ = g·qᵀ,  dW₂ = g·kᵀ,  dq = W₁ᵀ·g,  dk = W₂ᵀ·g
template <class T>
struct AdditiveScore {
  Matrix<const T> q, k, w1, w2;  // (n, D), (m, Dk), (A, D), (A, Dk)
  std::span<const T> v;          // (A)
  Matrix<T> dq = {}, dk = {}, dw1 = {}, dw2 = {};
  std::span<T> dv = {};

  T t(size_t a, size_t i, size_t j) const {
    using std::tanh;
    return tanh(dot<T>(w1[a], q[i]) + dot<T>(w2[a], k[j]));
  }
  T operator()(size_t i, size_t j) const {
    T sum = T(0);
    for (size_t a = 0; a < v.size(); ++a) sum += v[a] * t(a, i, j);
    return sum;
  }
  void backward(size_t i, size_t j, T ds) const {
    for (size_t a = 0; a < v.size(); ++a) {
      const T ta = t(a, i, j), g = ds * v[a] * (T(1) - ta * ta);
      dv[a] += ds * ta;
      add<T>(dw1[a], g, q[i]);
      add<T>(dw2[a], g, k[j]);
      add<T>(dq[i], g, w1[a]);
      add<T>(dk[j], g, w2[a]);
    }
  }
};

// Any function of (i, j) as a score, with a function of (i, j, ds) for its gradient.
template <class Forward, class Backward>
struct CustomScore {
  Forward forward;
  Backward gradient;
  auto operator()(size_t i, size_t j) const { return forward(i, j); }
  template <class T>
  void backward(size_t i, size_t j, T ds) const {
    gradient(i, j, ds);
  }
};
template <class Forward, class Backward>
CustomScore<Forward, Backward> with_gradient(Forward forward, Backward gradient) {
  return {std::move(forward), std::move(gradient)};
}

// ---- Softmax attention
//
//   p(i,j) = f(i,j)·e^s(i,j) / Σ_j f(i,j)·e^s(i,j)     f: 0 for a key that is not seen, 1 for one that is, or
//                                                      between them (adaptive span)
//   weights = p∘d,  out = weights·v                    d: dropout, 0 or 1/(1 − rate)
//
//   dv = weightsᵀ·d_out,  dp = d∘(d_out·vᵀ),  ds(i,j) = p(i,j)·(dp(i,j) − Σ_j p(i,j)·dp(i,j)),  df = ds/f
//
// The two sums of a row cancel for anything added to all of its scores, so the largest is taken off first. A
// query that sees nothing has no weights, no output and no gradient.

// The factor that leaves everything as it is.
struct One {
  double operator()(size_t, size_t) const { return 1; }
};

template <class T, class ScoreOf, class FactorOf>
void softmax_weights(const ScoreOf& score, const FactorOf& factor, Matrix<T> p) {
  using std::exp;
  for (size_t i = 0; i < p.rows(); ++i) {
    bool any = false;
    T max = T(0), sum = T(0);
    for (size_t j = 0; j < p.cols(); ++j) {
      if (!(T(factor(i, j)) > T(0))) continue;
      p(i, j) = score(i, j);
      if (!any || p(i, j) > max) max = p(i, j);
      any = true;
    }
    if (max == T(-std::numeric_limits<double>::infinity()))
      max = T(0);  // a score of −Inf weighs 0, also alone
    for (size_t j = 0; j < p.cols(); ++j) {
      const T f = T(factor(i, j));
      p(i, j) = f > T(0) ? f * exp(p(i, j) - max) : T(0);
      sum += p(i, j);
    }
    if (any && !(sum == T(0)))
      for (T& x : p[i]) x /= sum;
  }
}

// From dp to the score's own gradients, and to d_factor unless that is empty.
template <class T, class ScoreOf, class FactorOf>
void softmax_weights_backward(const ScoreOf& score, const FactorOf& factor, Matrix<const T> p,
                              Matrix<const T> dp, Matrix<T> d_factor = {}) {
  for (size_t i = 0; i < p.rows(); ++i) {
    const T mean = dot<T>(p[i], dp[i]);
    for (size_t j = 0; j < p.cols(); ++j) {
      const T f = T(factor(i, j));
      if (!(f > T(0))) continue;
      const T ds = p(i, j) * (dp(i, j) - mean);
      score.backward(i, j, ds);
      if (!d_factor.empty()) d_factor(i, j) += ds / f;
    }
  }
}

template <class T, class ScoreOf, class FactorOf = One, class DropoutOf = One>
void softmax_attention(const ScoreOf& score, Matrix<const T> v, Matrix<T> weights, Matrix<T> out,
                       const FactorOf& factor = {}, const DropoutOf& dropout = {}) {
  softmax_weights<T>(score, factor, weights);
  for (size_t i = 0; i < out.rows(); ++i) {
    for (T& x : out[i]) x = T(0);
    for (size_t j = 0; j < v.rows(); ++j) {
      if (!(T(factor(i, j)) > T(0))) continue;  // the value of a key that is not seen may be anything
      weights(i, j) *= T(dropout(i, j));
      add<T>(out[i], weights(i, j), v[j]);
    }
  }
}

template <class T, class ScoreOf, class FactorOf = One, class DropoutOf = One>
void softmax_attention_backward(const ScoreOf& score, Matrix<const T> v, Matrix<const T> d_out, Matrix<T> dv,
                                const FactorOf& factor = {}, const DropoutOf& dropout = {},
                                Matrix<T> d_factor = {}) {
  const size_t n = d_out.rows(), m = v.rows();
  Table<T> p(n, m), dp(n, m);
  softmax_weights<T>(score, factor, p);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) {
      if (!(T(factor(i, j)) > T(0))) continue;
      const T d = T(dropout(i, j));
      dp(i, j) = d * dot<T>(d_out[i], v[j]);
      add<T>(dv[j], p(i, j) * d, d_out[i]);
    }
  softmax_weights_backward<T>(score, factor, p, dp, d_factor);
}

// weights = softmax(scale·q·kᵀ), out = weights·v
template <class T>
void attention(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, T scale, Matrix<T> weights,
               Matrix<T> out) {
  softmax_attention<T>(DotScore<T>{.q = q, .k = k, .scale = scale}, v, weights, out);
}

// Where the gradients of q, k and v are added.
template <class T>
struct Gradients {
  Matrix<T> q, k, v;
};

template <class T>
void attention_backward(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, T scale,
                        Matrix<const T> d_out, const Gradients<T>& d) {
  softmax_attention_backward<T>(DotScore<T>{.q = q, .k = k, .scale = scale, .dq = d.q, .dk = d.k}, v, d_out,
                                d.v);
}

// ---- Linear-time attention
//
//   S(i,j) = φ(q_i)·φ(k_j) over the keys that i sees,   z_i = Σ_j S(i,j),   o_i = Σ_j S(i,j)·v_j/z_i
//   dv_j = Σ_i S(i,j)/z_i·do_i,   dS(i,j) = (do_i·v_j − do_i·o_i)/z_i,
//   dφ(q_i) = Σ_j dS(i,j)·φ(k_j),   dφ(k_j) = Σ_i dS(i,j)·φ(q_i)
//
// Written with S in full; the point of the method is that Σ_j φ(k_j)·v_jᵀ can be had once for all queries.
// A row with z = 0 gives zeros and no gradient.
template <class T, class Sees>
void feature_attention(Matrix<const T> phi_q, Matrix<const T> phi_k, Matrix<const T> v, const Sees& sees,
                       Matrix<T> out) {
  for (size_t i = 0; i < out.rows(); ++i) {
    T z = T(0);
    for (T& x : out[i]) x = T(0);
    for (size_t j = 0; j < v.rows(); ++j) {
      if (!sees(i, j)) continue;
      const T s = dot<T>(phi_q[i], phi_k[j]);
      z += s;
      add<T>(out[i], s, v[j]);
    }
    for (T& x : out[i]) x = z > T(0) ? x / z : T(0);
  }
}

template <class T, class Sees>
void feature_attention_backward(Matrix<const T> phi_q, Matrix<const T> phi_k, Matrix<const T> v,
                                const Sees& sees, Matrix<const T> d_out, const Gradients<T>& d) {
  Table<T> out(d_out.rows(), v.cols());
  feature_attention<T>(phi_q, phi_k, v, sees, out);
  for (size_t i = 0; i < d_out.rows(); ++i) {
    T z = T(0);
    for (size_t j = 0; j < v.rows(); ++j)
      if (sees(i, j)) z += dot<T>(phi_q[i], phi_k[j]);
    if (!(z > T(0))) continue;
    for (size_t j = 0; j < v.rows(); ++j) {
      if (!sees(i, j)) continue;
      const T ds = (dot<T>(d_out[i], v[j]) - dot<T>(d_out[i], out[i])) / z;
      add<T>(d.v[j], dot<T>(phi_q[i], phi_k[j]) / z, d_out[i]);
      add<T>(d.q[i], ds, phi_k[j]);
      add<T>(d.k[j], ds, phi_q[i]);
    }
  }
}

// φ(x) = elu(x) + 1 (Katharopoulos et al. 2020): x + 1 above 0, e^x below; φ'(x) = 1 above 0, φ(x) below.
struct EluFeatures {
  template <class T>
  Table<T> operator()(Matrix<const T> x) const {
    using std::exp;
    Table<T> phi(x.rows(), x.cols());
    for (size_t i = 0; i < x.rows(); ++i)
      for (size_t c = 0; c < x.cols(); ++c) phi(i, c) = x(i, c) > T(0) ? x(i, c) + T(1) : exp(x(i, c));
    return phi;
  }
  template <class T>
  void backward(Matrix<const T> x, Matrix<const T> phi, Matrix<const T> d_phi, Matrix<T> dx) const {
    for (size_t i = 0; i < x.rows(); ++i)
      for (size_t c = 0; c < x.cols(); ++c)
        dx(i, c) += x(i, c) > T(0) ? d_phi(i, c) : d_phi(i, c) * phi(i, c);
  }
};

// FAVOR+ (Choromanski et al. 2021), positive random features of the softmax: with x' = √scale·x and ω (R, D),
//
//   φ(x)_f = e^(ω_f·x' − |x'|²/2)/√R,   E[φ(q)·φ(k)] = e^(scale·q·k) over normal ω
//   dx = √scale·Σ_f dφ_f·φ_f·(ω_f − x')
//
// A query's largest exponent is taken off all of its features: a factor that cancels in S/z, so the gradient
// may leave it out. A key's factor would not cancel; its exponents stop at 60, before float overflows.
template <class T>
struct RandomFeatures {
  Matrix<const T> omega;
  T scale;
  bool of_queries;

  Table<T> operator()(Matrix<const T> x) const {
    using std::exp, std::sqrt;
    const size_t count = omega.rows();
    const T root = sqrt(scale);
    Table<T> phi(x.rows(), count);
    for (size_t i = 0; i < x.rows(); ++i) {
      for (size_t f = 0; f < count; ++f)
        phi(i, f) = root * dot<T>(omega[f], x[i]) - scale * dot<T>(x[i], x[i]) / T(2);
      T most = T(0);
      for (size_t f = 0; f < count; ++f)
        if (f == 0 || phi(i, f) > most) most = phi(i, f);
      for (size_t f = 0; f < count; ++f) {
        const T exponent = of_queries ? phi(i, f) - most : phi(i, f) > T(60) ? T(60) : phi(i, f);
        phi(i, f) = exp(exponent) / sqrt(T(double(count)));
      }
    }
    return phi;
  }
  void backward(Matrix<const T> x, Matrix<const T> phi, Matrix<const T> d_phi, Matrix<T> dx) const {
    using std::sqrt;
    const T root = sqrt(scale);
    for (size_t i = 0; i < x.rows(); ++i)
      for (size_t f = 0; f < omega.rows(); ++f) {
        const T exponent = root * dot<T>(omega[f], x[i]) - scale * dot<T>(x[i], x[i]) / T(2);
        if (!of_queries && exponent > T(60)) continue;
        const T g = d_phi(i, f) * phi(i, f);
        add<T>(dx[i], root * g, omega[f]);
        add<T>(dx[i], -scale * g, x[i]);
      }
  }
};

// Attention by features: those of queries and of keys, and sees(i, j).
template <class T, class QueryFeatures, class KeyFeatures, class Sees>
void linear_attention(const QueryFeatures& of_q, const KeyFeatures& of_k, Matrix<const T> q,
                      Matrix<const T> k, Matrix<const T> v, const Sees& sees, Matrix<T> out) {
  feature_attention<T>(of_q(q), of_k(k), v, sees, out);
}

template <class T, class QueryFeatures, class KeyFeatures, class Sees>
void linear_attention_backward(const QueryFeatures& of_q, const KeyFeatures& of_k, Matrix<const T> q,
                               Matrix<const T> k, Matrix<const T> v, const Sees& sees, Matrix<const T> d_out,
                               const Gradients<T>& d) {
  const Table<T> phi_q = of_q(q), phi_k = of_k(k);
  Table<T> d_phi_q(phi_q.rows(), phi_q.cols()), d_phi_k(phi_k.rows(), phi_k.cols());
  feature_attention_backward<T>(phi_q, phi_k, v, sees, d_out, {d_phi_q, d_phi_k, d.v});
  of_q.backward(q, Matrix<const T>(phi_q), Matrix<const T>(std::as_const(d_phi_q)), d.q);
  of_k.backward(k, Matrix<const T>(phi_k), Matrix<const T>(std::as_const(d_phi_k)), d.k);
}

// ---- Linformer (Wang et al. 2020): softmax(scale·q·(E·k)ᵀ)·(F·v), E and F (R, m)
//
//   k' = E·k, v' = F·v:   dE = dk'·kᵀ,  dk = Eᵀ·dk',  dF = dv'·vᵀ,  dv = Fᵀ·dv'
template <class T>
void linformer_attention(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, T scale, Matrix<const T> e,
                         Matrix<const T> f, Matrix<T> out) {
  Table<T> weights(q.rows(), e.rows());
  attention<T>(q, product<T>(e, k), product<T>(f, v), scale, weights, out);
}

template <class T>
void linformer_attention_backward(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v, T scale,
                                  Matrix<const T> e, Matrix<const T> f, Matrix<const T> d_out,
                                  const Gradients<T>& d, Matrix<T> de, Matrix<T> df) {
  Table<T> dk(e.rows(), k.cols()), dv(f.rows(), v.cols());
  attention_backward<T>(q, product<T>(e, k), product<T>(f, v), scale, d_out, {d.q, dk, dv});
  add_product<T>(dk, transposed<T>(k), de);
  add_product<T>(dv, transposed<T>(v), df);
  add_product<T>(transposed<T>(e), dk, d.k);
  add_product<T>(transposed<T>(f), dv, d.v);
}

// ---- Nyström (Xiong et al. 2021): see bertie/attention_reference_nystrom.h

// ---- Multi-head: q = x·W^Qᵀ + b^Q, k = y·W^Kᵀ + b^K, v = y·W^Vᵀ + b^V; a mechanism makes the context of
// them, head by head; out = context·W^Oᵀ + b^O. Matrices as checkpoints store them, outputs by inputs.

// y = x·wᵀ + b; b may be empty.
template <class T>
Table<T> project(Matrix<const T> x, Matrix<const T> w, std::span<const T> b) {
  Table<T> y = product<T>(x, transposed<T>(w));
  for (size_t t = 0; t < y.rows() && !b.empty(); ++t)
    for (size_t c = 0; c < y.cols(); ++c) y(t, c) += b[c];
  return y;
}

// dx = dy·w,  dw = dyᵀ·x,  db = Σ_t dy_t
template <class T>
void project_backward(Matrix<const T> x, Matrix<const T> w, Matrix<const T> dy, Matrix<T> dx, Matrix<T> dw,
                      std::span<T> db) {
  add_product<T>(dy, w, dx);
  add_product<T>(transposed<T>(dy), x, dw);
  for (size_t t = 0; t < dy.rows() && !db.empty(); ++t) add<T>(db, T(1), dy[t]);
}

// M is const T for weights and T for their gradients.
template <class M>
struct MultiHeadWeights {
  Matrix<M> wq, wk, wv, wo;
  std::span<M> bq = {}, bk = {}, bv = {}, bo = {};
};

// mechanism(q, k, v, context) fills the context, on all heads.
template <class T, class Mechanism>
void multi_head_attention(Matrix<const T> x, Matrix<const T> y, const MultiHeadWeights<const T>& w,
                          const Mechanism& mechanism, Matrix<T> out) {
  const Table<T> q = project<T>(x, w.wq, w.bq), k = project<T>(y, w.wk, w.bk), v = project<T>(y, w.wv, w.bv);
  Table<T> context(x.rows(), v.cols());
  mechanism(Matrix<const T>(q), Matrix<const T>(k), Matrix<const T>(v), Matrix<T>(context));
  const Table<T> result = project<T>(context, w.wo, w.bo);
  for (size_t t = 0; t < out.rows(); ++t)
    for (size_t c = 0; c < out.cols(); ++c) out(t, c) = result(t, c);
}

// backward(q, k, v, d_context, Gradients) adds to the gradients. For self-attention dy is dx.
template <class T, class Mechanism, class Backward>
void multi_head_attention_backward(Matrix<const T> x, Matrix<const T> y, const MultiHeadWeights<const T>& w,
                                   const Mechanism& mechanism, const Backward& backward,
                                   Matrix<const T> d_out, Matrix<T> dx, Matrix<T> dy,
                                   const MultiHeadWeights<T>& dw) {
  const Table<T> q = project<T>(x, w.wq, w.bq), k = project<T>(y, w.wk, w.bk), v = project<T>(y, w.wv, w.bv);
  Table<T> context(x.rows(), v.cols()), d_context(x.rows(), v.cols());
  mechanism(Matrix<const T>(q), Matrix<const T>(k), Matrix<const T>(v), Matrix<T>(context));
  project_backward<T>(context, w.wo, d_out, d_context, dw.wo, dw.bo);
  Table<T> dq(q.rows(), q.cols()), dk(k.rows(), k.cols()), dv(v.rows(), v.cols());
  backward(Matrix<const T>(q), Matrix<const T>(k), Matrix<const T>(v),
           Matrix<const T>(std::as_const(d_context)), Gradients<T>{dq, dk, dv});
  project_backward<T>(x, w.wq, dq, dx, dw.wq, dw.bq);
  project_backward<T>(y, w.wk, dk, dy, dw.wk, dw.bk);
  project_backward<T>(y, w.wv, dv, dy, dw.wv, dw.bv);
}

}  // namespace bertie::reference
