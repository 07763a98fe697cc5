#include "kernels/layer_norm.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#ifndef BERTIE_KERNELS_LAYER_NORM_CC_
#define BERTIE_KERNELS_LAYER_NORM_CC_
namespace bertie::kernels {
// One row's places; all but the inputs may be null.
struct NormRow {
  size_t t = 0;  // its number in RowDropout::rows
  const float* x = nullptr;
  const float* residual = nullptr;
  float* sum = nullptr;
  float* normalized = nullptr;
  float* y = nullptr;
};
struct NormBackwardRow {
  size_t t = 0;
  const float* dy = nullptr;
  const float* normalized = nullptr;
  float rho = 0;
  const float* carry = nullptr;
  float* ds = nullptr;
  float* dx = nullptr;
};
}  // namespace bertie::kernels
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One row of n. Of the pointers x and y are there, or x and normalized; the row is kept in the latter, if
// it is there, between the three passes. Four sums at a time, because one alone would wait for its own last
// addition. Returns ρ.
float layer_norm_row(const NormRow& row, const RowDropout& dropout, const LayerNorm& norm, size_t n) {
  const float *const x = row.x, *const residual = row.residual;
  float *const sum_of_both = row.sum, *const normalized = row.normalized, *const y = row.y;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), whole = n / lanes * lanes, fours = n / (4 * lanes) * (4 * lanes);
  const auto total = [d](V a, V b, V c, V e) HWY_ATTR {
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  };
  RowMask mask(dropout, row.t);
  float* const held = normalized ? normalized : y;

  const auto take = [&](size_t c) HWY_ATTR {
    V v = hn::LoadU(d, x + c);
    if (mask.any()) v = mask.apply(v, c);
    if (residual) v = hn::Add(v, hn::LoadU(d, residual + c));
    if (sum_of_both) hn::StoreU(v, d, sum_of_both + c);
    hn::StoreU(v, d, held + c);
    return v;
  };
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (size_t c = 0; c < fours; c += 4 * lanes) {
    s0 = hn::Add(s0, take(c)), s1 = hn::Add(s1, take(c + lanes));
    s2 = hn::Add(s2, take(c + 2 * lanes)), s3 = hn::Add(s3, take(c + 3 * lanes));
  }
  for (size_t c = fours; c < whole; c += lanes) s0 = hn::Add(s0, take(c));
  float sum = 0;
  for (size_t c = whole; c < n; ++c) {
    float v = mask.any() ? mask.apply(x[c], c) : x[c];
    if (residual) v += residual[c];
    if (sum_of_both) sum_of_both[c] = v;
    sum += held[c] = v;
  }
  const float mean = (sum + total(s0, s1, s2, s3)) / float(n);

  // Squares of distances from the mean, not E[x²] − E[x]²: no cancellation when the mean is large.
  const V mean_vector = hn::Set(d, mean);
  const auto square = [&](size_t c, V before) HWY_ATTR {
    const V v = hn::Sub(hn::LoadU(d, held + c), mean_vector);
    return hn::MulAdd(v, v, before);
  };
  s0 = s1 = s2 = s3 = hn::Zero(d);
  for (size_t c = 0; c < fours; c += 4 * lanes) {
    s0 = square(c, s0), s1 = square(c + lanes, s1);
    s2 = square(c + 2 * lanes, s2), s3 = square(c + 3 * lanes, s3);
  }
  for (size_t c = fours; c < whole; c += lanes) s0 = square(c, s0);
  float squares = 0;
  for (size_t c = whole; c < n; ++c) squares += (held[c] - mean) * (held[c] - mean);
  const float variance = (squares + total(s0, s1, s2, s3)) / float(n);
  const float rho = 1.0f / std::sqrt(variance + norm.eps);

  const auto rho_vector = hn::Set(d, rho);
  for (size_t c = 0; c < whole; c += lanes) {
    const auto v = hn::Mul(hn::Sub(hn::LoadU(d, held + c), mean_vector), rho_vector);
    if (normalized) hn::StoreU(v, d, normalized + c);
    if (y) hn::StoreU(hn::MulAdd(v, hn::LoadU(d, norm.gamma + c), hn::LoadU(d, norm.beta + c)), d, y + c);
  }
  for (size_t c = whole; c < n; ++c) {
    const float v = (held[c] - mean) * rho;
    if (normalized) normalized[c] = v;
    if (y) y[c] = v * norm.gamma[c] + norm.beta[c];
  }
  return rho;
}

void normalized_row(const float* normalized, const LayerNorm& norm, size_t n, float* y) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t c = 0;
  for (; c + lanes <= n; c += lanes)
    hn::StoreU(
        hn::MulAdd(hn::LoadU(d, normalized + c), hn::LoadU(d, norm.gamma + c), hn::LoadU(d, norm.beta + c)),
        d, y + c);
  for (; c < n; ++c) y[c] = normalized[c] * norm.gamma[c] + norm.beta[c];
}

// dγ and dβ are added to.
void layer_norm_backward_row(const NormBackwardRow& row, const RowDropout& dropout, const LayerNorm& norm,
                             const LayerNorm& gradient, size_t n) {
  const float *const dy = row.dy, *const normalized = row.normalized, *const carry = row.carry;
  float *const ds = row.ds, *const dx = row.dx;
  const float rho = row.rho;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), whole = n / lanes * lanes, twos = n / (2 * lanes) * (2 * lanes);
  const auto first_pass = [&](size_t c, V& g_sum, V& gx_sum) HWY_ATTR {
    const V v = hn::LoadU(d, dy + c), x = hn::LoadU(d, normalized + c);
    const V g = hn::Mul(v, hn::LoadU(d, norm.gamma + c));
    g_sum = hn::Add(g_sum, g), gx_sum = hn::MulAdd(g, x, gx_sum);
    hn::StoreU(hn::MulAdd(v, x, hn::LoadU(d, gradient.gamma + c)), d, gradient.gamma + c);
    hn::StoreU(hn::Add(v, hn::LoadU(d, gradient.beta + c)), d, gradient.beta + c);
  };
  V g0 = hn::Zero(d), g1 = g0, gx0 = g0, gx1 = g0;
  for (size_t c = 0; c < twos; c += 2 * lanes) first_pass(c, g0, gx0), first_pass(c + lanes, g1, gx1);
  for (size_t c = twos; c < whole; c += lanes) first_pass(c, g0, gx0);
  float g_sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(g0, g1)));
  float gx_sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(gx0, gx1)));
  for (size_t c = whole; c < n; ++c) {
    const float g = dy[c] * norm.gamma[c];
    g_sum += g, gx_sum += g * normalized[c];
    gradient.gamma[c] += dy[c] * normalized[c];
    gradient.beta[c] += dy[c];
  }

  const float mean_g = g_sum / float(n), mean_gx = gx_sum / float(n);
  RowMask mask(dropout, row.t);
  for (size_t c = 0; c < whole; c += lanes) {
    const V g = hn::Mul(hn::LoadU(d, dy + c), hn::LoadU(d, norm.gamma + c));
    const V centered =
        hn::NegMulAdd(hn::LoadU(d, normalized + c), hn::Set(d, mean_gx), hn::Sub(g, hn::Set(d, mean_g)));
    V v = hn::Mul(hn::Set(d, rho), centered);
    if (carry) v = hn::Add(v, hn::LoadU(d, carry + c));
    hn::StoreU(v, d, ds + c);
    if (dx) hn::StoreU(mask.apply(v, c), d, dx + c);
  }
  for (size_t c = whole; c < n; ++c) {
    float v = rho * (dy[c] * norm.gamma[c] - mean_g - normalized[c] * mean_gx);
    if (carry) v += carry[c];
    ds[c] = v;
    if (dx) dx[c] = mask.apply(v, c);
  }
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(layer_norm_row);
HWY_EXPORT(normalized_row);
HWY_EXPORT(layer_norm_backward_row);

namespace {

constexpr size_t kChunkRows = 16;
constexpr size_t kGradientRows = 64;  // rows whose share of dγ and dβ is summed up on its own

size_t chunks_of(size_t rows, size_t size) { return (rows + size - 1) / size; }

template <class Row>
void for_rows(size_t rows, Team& team, const Row& row) {
  team.parallel_for(chunks_of(rows, kChunkRows), [&](size_t chunk) {
    for (size_t t = chunk * kChunkRows; t < std::min(rows, (chunk + 1) * kChunkRows); ++t) row(t);
  });
}

auto row_of(auto m, size_t t) { return m.empty() ? nullptr : m.row(t); }

}  // namespace

void layer_norm_forward(Matrix<const float> x, const LayerNorm& norm, Matrix<float> y, Team& team) {
  residual_layer_norm_forward(x, {}, norm, y, team);
}

void residual_layer_norm_forward(Matrix<const float> x, Matrix<const float> residual, const LayerNorm& norm,
                                 Matrix<float> y, Team& team) {
  const auto row = HWY_DYNAMIC_DISPATCH(layer_norm_row);
  for_rows(x.rows(), team, [&](size_t t) {
    row({.t = t, .x = x.row(t), .residual = row_of(residual, t), .y = y.row(t)}, {}, norm, x.cols());
  });
}

void layer_norm_training_forward(Matrix<const float> x, const RowDropout& dropout,
                                 Matrix<const float> residual, const LayerNorm& norm, Matrix<float> sum,
                                 const Normalized& saved, Matrix<float> y, Team& team) {
  assert(dropout_threshold(dropout.dropout.rate) == 0 || dropout.rows.size() == x.rows());
  const auto row = HWY_DYNAMIC_DISPATCH(layer_norm_row);
  for_rows(x.rows(), team, [&](size_t t) {
    saved.rho[t] = row({.t = t,
                        .x = x.row(t),
                        .residual = row_of(residual, t),
                        .sum = row_of(sum, t),
                        .normalized = saved.x.row(t),
                        .y = row_of(y, t)},
                       dropout, norm, x.cols());
  });
}

void normalized_output(Matrix<const float> normalized, const LayerNorm& norm, Matrix<float> y, Team& team) {
  const auto row = HWY_DYNAMIC_DISPATCH(normalized_row);
  for_rows(y.rows(), team, [&](size_t t) { row(normalized.row(t), norm, y.cols(), y.row(t)); });
}

size_t layer_norm_backward_workspace(size_t rows, size_t cols) {
  return chunks_of(rows, kGradientRows) * 2 * cols;
}

void layer_norm_training_backward(Matrix<const float> dy, const Normalized& saved, const LayerNorm& norm,
                                  Matrix<const float> carry, const RowDropout& dropout, Matrix<float> ds,
                                  Matrix<float> dx, const LayerNorm& gradient, float* workspace, Team& team) {
  assert(dx.empty() || dropout_threshold(dropout.dropout.rate) == 0 || dropout.rows.size() == dy.rows());
  const size_t rows = dy.rows(), cols = dy.cols(), chunks = chunks_of(rows, kGradientRows);
  const auto row = HWY_DYNAMIC_DISPATCH(layer_norm_backward_row);
  team.parallel_for(chunks, [&](size_t chunk) {
    float* const sums = workspace + chunk * 2 * cols;
    std::fill_n(sums, 2 * cols, 0.0f);
    for (size_t t = chunk * kGradientRows; t < std::min(rows, (chunk + 1) * kGradientRows); ++t)
      row({.t = t,
           .dy = dy.row(t),
           .normalized = saved.x.row(t),
           .rho = saved.rho[t],
           .carry = row_of(carry, t),
           .ds = ds.row(t),
           .dx = row_of(dx, t)},
          dropout, norm, {.gamma = sums, .beta = sums + cols}, cols);
  });
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    const float* const sums = workspace + chunk * 2 * cols;
    for (size_t c = 0; c < cols; ++c) gradient.gamma[c] += sums[c], gradient.beta[c] += sums[cols + c];
  }
}

}  // namespace bertie::kernels
#endif
