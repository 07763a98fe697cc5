#include "attention/linear_head.h"

#include <algorithm>
#include <cassert>

#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/linear_head.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bertie::linear_attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float dot(const float* a, const float* b, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// d[r] = φ(q_r)·z + Σ p[r]; p, unless empty, holds 0 beyond what a row sees.
void sum_weights(Matrix<const float> phi, const float* z, Matrix<const float> p, float* d) {
  const hn::ScalableTag<float> tag;
  for (size_t r = 0; r < phi.rows(); ++r) {
    d[r] = dot(phi.row(r), z, phi.cols());
    if (p.empty()) continue;
    auto sum = hn::Zero(tag);
    for (size_t c = 0; c < p.cols(); c += hn::Lanes(tag)) sum = hn::Add(sum, hn::LoadU(tag, p.row(r) + c));
    d[r] += hn::GetLane(hn::SumOfLanes(tag, sum));
  }
}

// n'_r from dout_r, out_r and d_r.
void numerator_gradients(Matrix<const float> d_out, Matrix<const float> out, const float* d,
                         Matrix<float> to) {
  for (size_t r = 0; r < out.rows(); ++r) {
    const size_t dv = out.cols();
    if (d[r] == 0) {
      std::fill_n(to.row(r), dv + 1, 0.0f);
      continue;
    }
    for (size_t c = 0; c < dv; ++c) to(r, c) = d_out(r, c) / d[r];
    to(r, dv) = -dot(d_out.row(r), out.row(r), dv) / d[r];
  }
}

// out_r = numerators_r/d_r. Adding 0 makes −0 and 0 alike: which one a sum of nothing much is depends on
// whether zeros were added to it.
void divide_rows(Matrix<const float> numerators, const float* d, Matrix<float> out) {
  for (size_t r = 0; r < out.rows(); ++r) {
    float* HWY_RESTRICT to = out.row(r);
    const float* HWY_RESTRICT from = numerators.row(r);
    if (d[r] == 0)
      std::fill_n(to, out.cols(), 0.0f);
    else
      for (size_t c = 0; c < out.cols(); ++c) to[c] = from[c] / d[r] + 0.0f;
  }
}

// c = a + b, n numbers; c may be a.
void add_all(const float* a, const float* b, size_t n, float* c) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, c + i);
  for (; i < n; ++i) c[i] = a[i] + b[i];
}

bool finite(Matrix<const float> m) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), whole = m.cols() / lanes * lanes;
  auto zero = hn::Zero(d);  // 0·x is NaN for what is not finite
  float rest = 0;
  for (size_t r = 0; r < m.rows(); ++r) {
    for (size_t c = 0; c < whole; c += lanes)
      zero = hn::MulAdd(hn::LoadU(d, m.row(r) + c), hn::Zero(d), zero);
    for (size_t c = whole; c < m.cols(); ++c) rest += m(r, c) * 0.0f;
  }
  return hn::GetLane(hn::SumOfLanes(d, zero)) + rest == 0;
}

}  // namespace bertie::linear_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::linear_attention {

HWY_EXPORT(sum_weights);
HWY_EXPORT(divide_rows);
HWY_EXPORT(add_all);
HWY_EXPORT(numerator_gradients);
HWY_EXPORT(finite);

namespace {

using kernels::Accumulate;
using kernels::Factor;
using kernels::matmul;
using kernels::Panels;
using kernels::transposed;

constexpr size_t kRowsAhead = 24;  // to prefetch

}  // namespace

void zero(Matrix<float> m) {
  for (size_t r = 0; r < m.rows(); ++r) std::fill_n(m.row(r), m.cols(), 0.0f);
}

void add(Matrix<const float> a, Matrix<const float> b, Matrix<float> c) {
  HWY_DYNAMIC_DISPATCH(add_all)(a.data(), b.data(), c.rows() * c.cols(), c.data());
}

void Worker::sum_keys(Range keys, Matrix<float> sum) {
  zero(sum);
  for (size_t j = keys.begin; j < keys.end; j += kBlock) {
    load_keys({j, std::min(j + kBlock, keys.end)});
    multiply(transposed(values_), phi_k_, sum, Accumulate::kYes);
  }
}

void Worker::forward(Range queries, Matrix<const float> base, Matrix<float> current, Matrix<float> out) {
  zero(current);
  Panels state;
  for (size_t i = queries.begin; i < queries.end; i += kBlock) {
    const Range block{i, std::min(i + kBlock, queries.end)};
    if (i == queries.begin || keys_.size() > 0) {
      add(base, current, s_.state);
      state = kernels::pack(transposed(s_.state.slice_rows(0, s_.dv)), s_.state_panels.data(), alone_);
    }
    load_queries(block);
    load_keys({head_.visible(block.begin), head_.visible(block.end)});
    const Matrix<float> numerators = Matrix<float>(s_.numerators.data(), block.size(), s_.dv);
    matmul(phi_q_, state, numerators, alone_);
    weights(block);
    see(p_, block, values_.slice_cols(0, s_.dv), numerators);
    denominators(s_.state.row(s_.dv), s_.d.data());
    HWY_DYNAMIC_DISPATCH(divide_rows)(numerators, s_.d.data(), out.slice_rows(block.begin, block.size()));
    if (keys_.size() > 0) multiply(transposed(values_), phi_k_, current, Accumulate::kYes);
  }
}

void Worker::backward_queries(Range queries, Matrix<const float> base, Matrix<float> current,
                              Matrix<float> turned, const HeadGradients& g) {
  zero(current);
  if (!head_.causal) zero(turned);
  Panels state;
  for (size_t i = queries.begin; i < queries.end; i += kBlock) {
    const Range block{i, std::min(i + kBlock, queries.end)};
    if (i == queries.begin || keys_.size() > 0) {
      add(base, current, s_.state);
      state = kernels::pack(s_.state, s_.state_panels.data(), alone_);
    }
    load_queries(block);
    load_keys({head_.visible(block.begin), head_.visible(block.end)});
    weights(block);
    denominators(s_.state.row(s_.dv), g.d + block.begin);
    load_numerator_gradients(block, g);
    const Matrix<float> d_phi = s_.d_phi.slice_rows(0, block.size());
    matmul(numerators_, state, d_phi, alone_);
    weight_gradients(block);
    see(dp_, block, phi_k_, d_phi);
    map_.queries_backward(phi_q_, d_phi, g.q.slice_rows(block.begin, block.size()));
    if (keys_.size() > 0) multiply(transposed(values_), phi_k_, current, Accumulate::kYes);
    if (!head_.causal) multiply(transposed(numerators_), phi_q_, turned, Accumulate::kYes);
  }
}

void Worker::backward_keys(Range queries, Matrix<const float> base, Matrix<float> current,
                           const HeadGradients& g) {
  zero(current);
  const size_t blocks = (queries.size() + kBlock - 1) / kBlock;
  for (size_t b = blocks; b-- > 0;) {
    const size_t i = queries.begin + b * kBlock;
    const Range block{i, std::min(i + kBlock, queries.end)};
    load_queries(block);
    load_keys({head_.visible(block.begin), head_.visible(block.end)});
    load_numerator_gradients(block, g);
    if (keys_.size() > 0) {
      add(base, current, s_.state);
      pack_turned();
      weights(block);
      weight_gradients(block);
      key_gradients(g, true);
    }
    multiply(transposed(numerators_), phi_q_, current, Accumulate::kYes);
  }
}

void Worker::sum_queries(Range queries, Matrix<float> sum, const HeadGradients& g) {
  zero(sum);
  const size_t blocks = (queries.size() + kBlock - 1) / kBlock;
  for (size_t b = blocks; b-- > 0;) {
    const size_t i = queries.begin + b * kBlock;
    const Range block{i, std::min(i + kBlock, queries.end)};
    load_queries(block);
    load_numerator_gradients(block, g);
    multiply(transposed(numerators_), phi_q_, sum, Accumulate::kYes);
  }
}

void Worker::backward_seen_by_all(Range keys, Matrix<const float> turned, const HeadGradients& g) {
  std::copy_n(turned.data(), turned.rows() * turned.cols(), s_.state.data());
  pack_turned();
  for (size_t j = keys.begin; j < keys.end; j += kBlock) {
    load_keys({j, std::min(j + kBlock, keys.end)});
    key_gradients(g, false);
  }
}

void Worker::multiply(Factor a, Factor b, Matrix<float> c, Accumulate accumulate) {
  matmul(a, b, c, s_.panels.data(), alone_, accumulate);
}

void Worker::denominators(const float* z, float* d) { HWY_DYNAMIC_DISPATCH(sum_weights)(phi_q_, z, p_, d); }

void Worker::load_queries(Range rows) {
  phi_q_ = s_.phi_q.slice_rows(0, rows.size());
  map_.queries(head_.q.slice_rows(rows.begin, rows.size()), phi_q_);
}

void Worker::load_keys(Range rows) {
  keys_ = rows;
  phi_k_ = s_.phi_k.slice_rows(0, rows.size());
  values_ = s_.values.slice_rows(0, rows.size());
  if (rows.size() == 0) return;
  map_.keys(head_.k.slice_rows(rows.begin, rows.size()), phi_k_);
  for (size_t j = 0; j < rows.size(); ++j) {
    for (size_t c = 0; c < s_.dv; c += 16) __builtin_prefetch(head_.v.row(rows.begin + j + kRowsAhead) + c);
    std::copy_n(head_.v.row(rows.begin + j), s_.dv, values_.row(j));
    values_(j, s_.dv) = 1;
  }
}

void Worker::load_numerator_gradients(Range rows, const HeadGradients& g) {
  numerators_ = s_.numerators.slice_rows(0, rows.size());
  HWY_DYNAMIC_DISPATCH(numerator_gradients)
  (g.d_out.slice_rows(rows.begin, rows.size()), g.out.slice_rows(rows.begin, rows.size()), g.d + rows.begin,
   numerators_);
}

void Worker::mask(Range block, Matrix<float> p) {
  for (size_t r = 0; r < block.size(); ++r) std::fill(p.row(r) + seen(block, r), p.row(r) + kBlock, 0.0f);
}

void Worker::weights(Range block) {
  p_ = {};
  if (keys_.size() == 0) return;
  p_ = s_.p.slice_rows(0, block.size());
  multiply(phi_q_, transposed(phi_k_), p_.slice_cols(0, keys_.size()), Accumulate::kNo);
  mask(block, p_);
}

void Worker::weight_gradients(Range block) {
  if (keys_.size() == 0) return;
  dp_ = s_.dp.slice_rows(0, block.size());
  multiply(numerators_, transposed(values_), dp_.slice_cols(0, keys_.size()), Accumulate::kNo);
  mask(block, dp_);
}

void Worker::see(Matrix<const float> w, Range block, Matrix<const float> rows, Matrix<float> to) {
  if (keys_.size() == 0) return;
  if (HWY_DYNAMIC_DISPATCH(finite)(rows))
    return multiply(w.slice_cols(0, keys_.size()), rows, to, Accumulate::kYes);
  for (size_t r = 0; r < block.size(); ++r) {
    const size_t count = seen(block, r);
    multiply(w.slice_rows(r, 1).slice_cols(0, count), rows.slice_rows(0, count), to.slice_rows(r, 1),
             Accumulate::kYes);
  }
}

void Worker::pack_turned() {
  turned_ = kernels::pack(s_.state, s_.state_panels.data(), alone_);
  turned_values_ =
      kernels::pack(transposed(s_.state.slice_rows(0, s_.dv)), s_.state_panels_too.data(), alone_);
}

void Worker::key_gradients(const HeadGradients& g, bool own_queries) {
  const Matrix<float> d_phi = s_.d_phi.slice_rows(0, keys_.size());
  const Matrix<float> dv = g.v.slice_rows(keys_.begin, keys_.size());
  matmul(values_, turned_, d_phi, alone_);
  matmul(phi_k_, turned_values_, dv, alone_);
  if (own_queries) {
    multiply(transposed(dp_.slice_cols(0, keys_.size())), phi_q_, d_phi, Accumulate::kYes);
    multiply(transposed(p_.slice_cols(0, keys_.size())), numerators_.slice_cols(0, s_.dv), dv,
             Accumulate::kYes);
  }
  map_.keys_backward(head_.k.slice_rows(keys_.begin, keys_.size()), phi_k_, d_phi,
                     g.k.slice_rows(keys_.begin, keys_.size()));
}

}  // namespace bertie::linear_attention
#endif
