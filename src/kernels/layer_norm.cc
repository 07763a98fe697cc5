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

// One row of n; residual may be null. The row is kept in y between the three passes.
void layer_norm_row(const float* x, const float* residual, const LayerNorm& norm, size_t n, float* y) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), whole = n / lanes * lanes;
  auto sum_vector = hn::Zero(d);
  float sum = 0;
  for (size_t c = 0; c < whole; c += lanes) {
    auto v = hn::LoadU(d, x + c);
    if (residual) v = hn::Add(v, hn::LoadU(d, residual + c));
    hn::StoreU(v, d, y + c);
    sum_vector = hn::Add(sum_vector, v);
  }
  for (size_t c = whole; c < n; ++c) {
    y[c] = residual ? x[c] + residual[c] : x[c];
    sum += y[c];
  }
  const float mean = (sum + hn::GetLane(hn::SumOfLanes(d, sum_vector))) / float(n);

  // Squares of distances from the mean, not E[x²] − E[x]²: no cancellation when the mean is large.
  const auto mean_vector = hn::Set(d, mean);
  auto square_vector = hn::Zero(d);
  float squares = 0;
  for (size_t c = 0; c < whole; c += lanes) {
    const auto v = hn::Sub(hn::LoadU(d, y + c), mean_vector);
    square_vector = hn::MulAdd(v, v, square_vector);
  }
  for (size_t c = whole; c < n; ++c) squares += (y[c] - mean) * (y[c] - mean);
  const float variance = (squares + hn::GetLane(hn::SumOfLanes(d, square_vector))) / float(n);
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
