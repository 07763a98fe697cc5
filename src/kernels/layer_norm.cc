#include "kernels/layer_norm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bertie::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One row of n; residual may be null. The row is kept in y between the three passes. Four sums at a time,
// because one alone would wait for its own last addition.
void layer_norm_row(const float* x, const float* residual, const LayerNorm& norm, size_t n, float* y) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d), whole = n / lanes * lanes, fours = n / (4 * lanes) * (4 * lanes);
  const auto total = [d](V a, V b, V c, V e) HWY_ATTR {
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  };

  const auto take = [&](size_t c) HWY_ATTR {
    V v = hn::LoadU(d, x + c);
    if (residual) v = hn::Add(v, hn::LoadU(d, residual + c));
    hn::StoreU(v, d, y + c);
    return v;
  };
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (size_t c = 0; c < fours; c += 4 * lanes) {
    s0 = hn::Add(s0, take(c)), s1 = hn::Add(s1, take(c + lanes));
    s2 = hn::Add(s2, take(c + 2 * lanes)), s3 = hn::Add(s3, take(c + 3 * lanes));
  }
  for (size_t c = fours; c < whole; c += lanes) s0 = hn::Add(s0, take(c));
  float sum = 0;
  for (size_t c = whole; c < n; ++c) sum += y[c] = residual ? x[c] + residual[c] : x[c];
  const float mean = (sum + total(s0, s1, s2, s3)) / float(n);

  // Squares of distances from the mean, not E[x²] − E[x]²: no cancellation when the mean is large.
  const V mean_vector = hn::Set(d, mean);
  const auto square = [&](size_t c, V before) HWY_ATTR {
    const V v = hn::Sub(hn::LoadU(d, y + c), mean_vector);
    return hn::MulAdd(v, v, before);
  };
  s0 = s1 = s2 = s3 = hn::Zero(d);
  for (size_t c = 0; c < fours; c += 4 * lanes) {
    s0 = square(c, s0), s1 = square(c + lanes, s1);
    s2 = square(c + 2 * lanes, s2), s3 = square(c + 3 * lanes, s3);
  }
  for (size_t c = fours; c < whole; c += lanes) s0 = square(c, s0);
  float squares = 0;
  for (size_t c = whole; c < n; ++c) squares += (y[c] - mean) * (y[c] - mean);
  const float variance = (squares + total(s0, s1, s2, s3)) / float(n);
  const float rho = 1.0f / std::sqrt(variance + norm.eps);

  const auto rho_vector = hn::Set(d, rho);
  for (size_t c = 0; c < whole; c += lanes) {
    const auto v = hn::Mul(hn::Sub(hn::LoadU(d, y + c), mean_vector), rho_vector);
    hn::StoreU(hn::MulAdd(v, hn::LoadU(d, norm.gamma + c), hn::LoadU(d, norm.beta + c)), d, y + c);
  }
  for (size_t c = whole; c < n; ++c) y[c] = (y[c] - mean) * rho * norm.gamma[c] + norm.beta[c];
}

}  // namespace bertie::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::kernels {

HWY_EXPORT(layer_norm_row);

namespace {
void run(Matrix<const float> x, const Matrix<const float>* residual, const LayerNorm& norm, Matrix<float> y,
         Team& team) {
  constexpr size_t kRows = 16;
  const auto row = HWY_DYNAMIC_DISPATCH(layer_norm_row);
  team.parallel_for((x.rows() + kRows - 1) / kRows, [&](size_t chunk) {
    for (size_t t = chunk * kRows; t < std::min(x.rows(), (chunk + 1) * kRows); ++t)
      row(x.row(t), residual ? residual->row(t) : nullptr, norm, x.cols(), y.row(t));
  });
}
}  // namespace

void layer_norm_forward(Matrix<const float> x, const LayerNorm& norm, Matrix<float> y, Team& team) {
  run(x, nullptr, norm, y, team);
}

void residual_layer_norm_forward(Matrix<const float> x, Matrix<const float> residual, const LayerNorm& norm,
                                 Matrix<float> y, Team& team) {
  run(x, &residual, norm, y, team);
}

}  // namespace bertie::kernels
#endif
