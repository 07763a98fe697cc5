#pragma once
// What the reference makes of a call of bertie::attention, in double: every sequence and head by itself.
#include <functional>
#include <optional>
#include <vector>

#include "attention/dropout.h"
#include "attention/reference_look.h"
#include "bertie/attention.h"
#include "bertie/attention_reference.h"
#include "bertie/attention_reference_nystrom.h"

namespace bertie::test {

using reference::Table;

template <class From>
Table<double> double_table(Matrix<const From> from) {
  Table<double> to(from.rows(), from.cols());
  for (size_t r = 0; r < from.rows(); ++r)
    for (size_t c = 0; c < from.cols(); ++c) to(r, c) = double(from(r, c));
  return to;
}

inline std::vector<double> numbers_of(const Table<double>& t) {
  std::vector<double> all;
  for (size_t r = 0; r < t.rows(); ++r) all.insert(all.end(), t[r].begin(), t[r].end());
  return all;
}

// Gradients of all that can go into a call; those that do not are (0, 0).
struct ReferenceGradients {
  Table<double> q, k, v, w, w1, w2, additive_v, spans, e, f;
};

class ReferenceBatch {
 public:
  using Omega = std::function<Table<double>(size_t head)>;  // the random features of Compute::performer

  ReferenceBatch(Matrix<const double> q, Matrix<const double> k, Matrix<const double> v,
                 const AttentionOptions& o, Omega omega = {})
      : q_(q), k_(k), v_(v), o_(o), omega_(std::move(omega)), out(q.rows(), v.cols()) {
    q_offsets_.assign(o.q_offsets.begin(), o.q_offsets.end());
    if (q_offsets_.empty()) q_offsets_ = {0, int32_t(q.rows())};
    k_offsets_.assign(o.k_offsets.begin(), o.k_offsets.end());
    if (k_offsets_.empty()) k_offsets_ = o.q_offsets.empty() ? std::vector{0, int32_t(k.rows())} : q_offsets_;
    w_ = double_table(o.score.w), w1_ = double_table(o.score.w1), w2_ = double_table(o.score.w2);
    additive_v_ = double_table(o.score.v), e_ = double_table(o.compute.e), f_ = double_table(o.compute.f);
    for_each_head([&](const Head& h) {
      Table<double> w(h.n, h.m);
      forward(h, w, part(Matrix<double>(out), h.q0, h.n, h.h));
      const auto all = numbers_of(w);
      weights.insert(weights.end(), all.begin(), all.end());
    });
  }

  ReferenceGradients backward(Matrix<const double> d_out) const {
    const auto like = [](const auto& x) { return Table<double>(x.rows(), x.cols()); };
    ReferenceGradients g{
        like(q_),          like(k_),
        like(v_),          like(w_),
        like(w1_),         like(w2_),
        like(additive_v_), Table<double>(o_.look.spans.empty() ? 0 : 1, o_.look.spans.size()),
        like(e_),          like(f_)};
    for_each_head([&](const Head& h) { backward(h, part(d_out, h.q0, h.n, h.h), g); });
    return g;
  }

 private:
  struct Head {
    size_t s, h, q0, k0, n, m;
    Matrix<const double> q, k, v;
  };

  // Rows of one sequence, columns of one head.
  template <class M>
  Matrix<M> part(Matrix<M> x, size_t first, size_t rows, size_t head) const {
    const size_t width = x.cols() / o_.heads;
    return x.slice_rows(first, rows).slice_cols(head * width, width);
  }
  // Rows of one head's parameters.
  template <class M>
  Matrix<M> own(Matrix<M> x, size_t head) const {
    const size_t rows = x.rows() / o_.heads;
    return x.slice_rows(head * rows, rows);
  }
  static Matrix<const double> view(const Table<double>& t) { return t; }

  template <class Body>
  void for_each_head(const Body& body) const {
    for (size_t s = 0; s + 1 < q_offsets_.size(); ++s)
      for (size_t h = 0; h < o_.heads; ++h) {
        const size_t q0 = size_t(q_offsets_[s]), n = size_t(q_offsets_[s + 1]) - q0,
                     k0 = size_t(k_offsets_[s]), m = size_t(k_offsets_[s + 1]) - k0;
        body(Head{s, h, q0, k0, n, m, part(q_, q0, n, h), part(k_, k0, m, h), part(v_, k0, m, h)});
      }
  }

  double scale(size_t d) const {
    return o_.score.kind == Score::Kind::kDot ? double(o_.score.scale) : 1 / std::sqrt(double(d));
  }
  bool sees(const Head& h, size_t i, size_t j) const {
    return reference::sees(o_.look, h.h, h.q0 + i, i, j, h.n, h.m);
  }
  bool has_spans() const { return o_.look.kind == Look::Kind::kAdaptiveSpan; }
  Table<double> factors(const Head& h) const {
    Table<double> f(h.n, h.m);
    for (size_t i = 0; i < h.n; ++i)
      for (size_t j = 0; j < h.m; ++j)
        f(i, j) = has_spans()
                      ? reference::span_factor<double>(o_.look, double(o_.look.spans[h.h]), i, j, h.n, h.m)
                      : double(sees(h, i, j));
    return f;
  }
  auto dropout(const Head& h) const {
    return [this, h](size_t i, size_t j) {
      return o_.dropout.rate == 0 ? 1.0 : dropout_factor(o_.dropout, h.s, h.h, i, j);
    };
  }

  // body(score), with gradients that go into g, if there is one.
  template <class Body>
  void with_score(const Head& h, ReferenceGradients* g, const Body& body) const {
    const auto rows = [&](Table<double>* t, size_t first, size_t count) {
      return t ? part(Matrix<double>(*t), first, count, h.h) : Matrix<double>();
    };
    const auto mine = [&](Table<double>* t) { return t ? own(Matrix<double>(*t), h.h) : Matrix<double>(); };
    const auto dq = rows(g ? &g->q : nullptr, h.q0, h.n), dk = rows(g ? &g->k : nullptr, h.k0, h.m);
    switch (o_.score.kind) {
      case Score::Kind::kScaledDot:
      case Score::Kind::kDot:
        return body(reference::DotScore<double>{h.q, h.k, scale(h.q.cols()), dq, dk});
      case Score::Kind::kGeneral:
        return body(
            reference::GeneralScore<double>{h.q, h.k, own(view(w_), h.h), dq, dk, mine(g ? &g->w : nullptr)});
      case Score::Kind::kAdditive:
        return body(reference::AdditiveScore<double>{h.q, h.k, own(view(w1_), h.h), own(view(w2_), h.h),
                                                     additive_v_[h.h], dq, dk, mine(g ? &g->w1 : nullptr),
                                                     mine(g ? &g->w2 : nullptr),
                                                     g ? mine(&g->additive_v)[0] : std::span<double>()});
    }
  }

  template <class Body>
  void with_features(const Head& h, const Body& body) const {
    if (o_.compute.kind == Compute::Kind::kLinear)
      return body(reference::EluFeatures(), reference::EluFeatures());
    const Table<double> omega = omega_(h.h);
    body(reference::RandomFeatures<double>{omega, scale(h.q.cols()), true},
         reference::RandomFeatures<double>{omega, scale(h.q.cols()), false});
  }
  Matrix<const double> columns(const Table<double>& x, size_t m) const { return view(x).slice_cols(0, m); }

  void forward(const Head& h, Matrix<double> w, Matrix<double> o) const {
    const double s = scale(h.q.cols());
    switch (o_.compute.kind) {
      case Compute::Kind::kSoftmax: {
        const Table<double> f = factors(h);
        return with_score(h, nullptr, [&](const auto& score) {
          reference::softmax_attention<double>(score, h.v, w, o, f, dropout(h));
        });
      }
      case Compute::Kind::kLinear:
      case Compute::Kind::kPerformer:
        return with_features(h, [&](const auto& of_q, const auto& of_k) {
          reference::linear_attention<double>(
              of_q, of_k, h.q, h.k, h.v, [&](size_t i, size_t j) { return sees(h, i, j); }, o);
        });
      case Compute::Kind::kLinformer:
        return reference::linformer_attention<double>(h.q, h.k, h.v, s, columns(e_, h.m), columns(f_, h.m),
                                                      o);
      case Compute::Kind::kNystrom:
        return reference::nystrom_attention<double>(h.q, h.k, h.v, s, o_.compute.landmarks,
                                                    o_.compute.iterations, o);
    }
  }

  void backward(const Head& h, Matrix<const double> d_out, ReferenceGradients& g) const {
    const double s = scale(h.q.cols());
    const reference::Gradients<double> d{part(Matrix<double>(g.q), h.q0, h.n, h.h),
                                         part(Matrix<double>(g.k), h.k0, h.m, h.h),
                                         part(Matrix<double>(g.v), h.k0, h.m, h.h)};
    switch (o_.compute.kind) {
      case Compute::Kind::kSoftmax: {
        const Table<double> f = factors(h);
        Table<double> df(h.n, h.m);
        with_score(h, &g, [&](const auto& score) {
          reference::softmax_attention_backward<double>(score, h.v, d_out, d.v, f, dropout(h), df);
        });
        if (!has_spans()) return;
        for (size_t i = 0; i < h.n; ++i)
          for (size_t j = 0; j < h.m; ++j)
            g.spans(0, h.h) +=
                df(i, j) * reference::span_slope(o_.look, double(o_.look.spans[h.h]), i, j, h.n, h.m);
        return;
      }
      case Compute::Kind::kLinear:
      case Compute::Kind::kPerformer:
        return with_features(h, [&](const auto& of_q, const auto& of_k) {
          reference::linear_attention_backward<double>(
              of_q, of_k, h.q, h.k, h.v, [&](size_t i, size_t j) { return sees(h, i, j); }, d_out, d);
        });
      case Compute::Kind::kLinformer:
        return reference::linformer_attention_backward<double>(
            h.q, h.k, h.v, s, columns(e_, h.m), columns(f_, h.m), d_out, d,
            Matrix<double>(g.e).slice_cols(0, h.m), Matrix<double>(g.f).slice_cols(0, h.m));
      case Compute::Kind::kNystrom:
        return reference::nystrom_attention_backward<double>(h.q, h.k, h.v, s, o_.compute.landmarks,
                                                             o_.compute.iterations, d_out, d);
    }
  }

  Matrix<const double> q_, k_, v_;
  AttentionOptions o_;
  Omega omega_;
  std::vector<int32_t> q_offsets_, k_offsets_;
  Table<double> w_{0, 0}, w1_{0, 0}, w2_{0, 0}, additive_v_{0, 0}, e_{0, 0}, f_{0, 0};

 public:
  Table<double> out;
  std::vector<double> weights;  // as bertie::attention gives them; zeros where the mechanism has none
};

// The worst error as a share of the largest expected number; NaN and a wrong count are infinitely bad.
template <class Actual>
double relative_error(const Actual& actual, std::span<const double> expected) {
  if (size_t(std::size(actual)) != expected.size()) return std::numeric_limits<double>::infinity();
  double worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(double(actual[i]) - expected[i]);
    if (!(error <= worst)) worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst == 0 ? 0 : worst / std::max(largest, std::numeric_limits<double>::min());
}

}  // namespace bertie::test
