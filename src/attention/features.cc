#include "attention/features.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/features.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bertie::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace kn = kernels::HWY_NAMESPACE;

inline constexpr float kMaxExponent = 60;
inline constexpr size_t kRowsAhead = 24;

// A vector, or the `count` numbers that are left of a row and zeros.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p, size_t count) {
  if (count >= hn::Lanes(d)) return hn::LoadU(d, p);
  HWY_ALIGN float part[hn::MaxLanes(D())] = {};
  std::copy_n(p, count, part);
  return hn::Load(d, part);
}
template <class D>
HWY_INLINE void store(hn::Vec<D> v, D d, float* p, size_t count) {
  if (count >= hn::Lanes(d)) return hn::StoreU(v, d, p);
  HWY_ALIGN float part[hn::MaxLanes(D())];
  hn::Store(v, d, part);
  std::copy_n(part, count, p);
}

void elu_plus_one(Matrix<const float> x, Matrix<float> phi) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), n = x.cols();
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  for (size_t r = 0; r < x.rows(); ++r)
    for (size_t c = 0; c < n; c += lanes) {
      __builtin_prefetch(x.row(r + kRowsAhead) +
                         c);  // a head's rows lie too far apart for the processor to guess
      const auto v = load(d, x.row(r) + c, n - c);
      store(hn::IfThenElse(hn::Gt(v, zero), hn::Add(v, one), kn::exp(d, v)), d, phi.row(r) + c, n - c);
    }
}

void elu_plus_one_backward(Matrix<const float> phi, Matrix<const float> d_phi, Matrix<float> dx) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), n = phi.cols();
  for (size_t r = 0; r < phi.rows(); ++r)
    for (size_t c = 0; c < n; c += lanes) {
      const auto slope = hn::Min(load(d, phi.row(r) + c, n - c), hn::Set(d, 1.0f));
      store(hn::Mul(load(d, d_phi.row(r) + c, n - c), slope), d, dx.row(r) + c, n - c);
    }
}

// phi = factor·e^min(phi − shift, 60) for one row.
HWY_INLINE void exponentials(float* phi, size_t n, float shift, float factor) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto s = hn::Set(d, shift), f = hn::Set(d, factor);
  for (size_t c = 0; c < n; c += lanes) {
    auto e = hn::Sub(load(d, phi + c, n - c), s);
    const auto bound = hn::Set(d, kMaxExponent);
    e = hn::IfThenElse(hn::Gt(e, bound), bound, e);
    store(hn::Mul(kn::exp(d, e), f), d, phi + c, n - c);
  }
}

// phi holds ω·x'.
void query_exponentials(Matrix<float> phi, float factor) {
  for (size_t r = 0; r < phi.rows(); ++r)
    exponentials(phi.row(r), phi.cols(), kn::row_max(phi.row(r), phi.cols()), factor);
}

void key_exponentials(Matrix<const float> x, float scale, Matrix<float> phi, float factor) {
  for (size_t r = 0; r < phi.rows(); ++r) {
    const hn::ScalableTag<float> d;
    auto squares = hn::Zero(d);
    for (size_t c = 0; c < x.cols(); c += hn::Lanes(d)) {
      const auto v = load(d, x.row(r) + c, x.cols() - c);
      squares = hn::MulAdd(v, v, squares);
    }
    const float square = hn::GetLane(hn::SumOfLanes(d, squares));
    exponentials(phi.row(r), phi.cols(), scale * square / 2, factor);
  }
}

// d_phi = g of one row; returns Σ g. Features of kMaxExponent, and no others, are as large as `bound`.
HWY_INLINE float exponentials_backward(const float* phi, float* d_phi, size_t n,
                                       hn::Vec<hn::ScalableTag<float>> bound) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (size_t c = 0; c < n; c += lanes) {
    const auto p = load(d, phi + c, n - c);
    const auto g = hn::IfThenZeroElse(hn::Ge(p, bound), hn::Mul(load(d, d_phi + c, n - c), p));
    sum = hn::Add(sum, g);
    store(g, d, d_phi + c, n - c);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void query_exponentials_backward(Matrix<const float> phi, Matrix<float> d_phi) {
  const hn::ScalableTag<float> d;
  for (size_t r = 0; r < phi.rows(); ++r)
    exponentials_backward(phi.row(r), d_phi.row(r), phi.cols(), hn::Set(d, HUGE_VALF));
}

// dx = −scale·x·Σ g, and d_phi = g.
void key_exponentials_backward(Matrix<const float> x, float scale, Matrix<const float> phi, float factor,
                               Matrix<float> d_phi, Matrix<float> dx) {
  const hn::ScalableTag<float> d;
  const auto bound = hn::Mul(kn::exp(d, hn::Set(d, kMaxExponent)), hn::Set(d, factor));
  for (size_t r = 0; r < phi.rows(); ++r) {
    const float sum = exponentials_backward(phi.row(r), d_phi.row(r), phi.cols(), bound);
    for (size_t c = 0; c < x.cols(); ++c) dx(r, c) = -scale * x(r, c) * sum;
  }
}

}  // namespace bertie::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie {

HWY_EXPORT(elu_plus_one);
HWY_EXPORT(elu_plus_one_backward);
HWY_EXPORT(query_exponentials);
HWY_EXPORT(key_exponentials);
HWY_EXPORT(query_exponentials_backward);
HWY_EXPORT(key_exponentials_backward);

namespace {

double dot(const double* a, const double* b, size_t n) {
  double sums[8] = {};  // side by side: one sum would wait for each addition
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// The sum of `degrees` squares of normal numbers. Two of them are −2·ln u, u uniform in (0, 1): so it takes
// one logarithm for many.
double chi_square(Random& random, size_t degrees) {
  double sum = 0, product = 1;
  for (size_t pair = 0; pair < degrees / 2; ++pair) {
    product *= (random.next() + 0.5) * 0x1p-32;
    if (product < 0x1p-900) sum -= 2 * std::log(product), product = 1;
  }
  sum -= 2 * std::log(product);
  if (degrees % 2 == 0) return sum;
  const double x = random.normal();
  return sum + x * x;
}

// Rows of ω that are orthogonal to each other: block number `stream`. rows: head_size² numbers of scratch.
void draw_block(uint64_t seed, uint64_t stream, double* rows, Matrix<float> out) {
  const size_t size = out.cols();
  Random directions(seed, 2 * stream), lengths(seed, 2 * stream + 1);
  for (size_t i = 0; i < out.rows(); ++i) {
    double* row = rows + i * size;
    for (size_t c = 0; c < size; ++c) row[c] = directions.normal();
    // Gram-Schmidt, twice: what rounding left of the other rows after the first time goes in the second.
    for (int pass = 0; pass < 2; ++pass)
      for (size_t j = 0; j < i; ++j) {
        const double* other = rows + j * size;
        const double share = dot(row, other, size);
        for (size_t c = 0; c < size; ++c) row[c] -= share * other[c];
      }
    const double norm = std::sqrt(dot(row, row, size)), length = std::sqrt(chi_square(lengths, size));
    for (size_t c = 0; c < size; ++c) {
      row[c] /= norm;
      out(i, c) = float(length * row[c]);
    }
  }
}

// scratch: for each block head_size² numbers.
void draw_features(uint64_t seed, double* scratch, Matrix<float> out, Team& team) {
  const size_t size = out.cols();
  team.parallel_for(size == 0 ? 0 : (out.rows() + size - 1) / size, [&](size_t block) {
    const size_t first = block * size;
    draw_block(seed, block, scratch + first * size,
               out.slice_rows(first, std::min(size, out.rows() - first)));
  });
}

size_t scratch_numbers(size_t features, size_t head_size) {
  return head_size == 0 ? 0 : round_up(features, head_size) * head_size;
}

}  // namespace

void orthogonal_features(size_t features, size_t head_size, uint64_t seed, Matrix<float> out) {
  Team alone;
  std::vector<double> scratch(scratch_numbers(features, head_size));
  draw_features(seed, scratch.data(), out, alone);
}

size_t FeatureMap::bytes(const Compute& compute, size_t head_size) {
  if (compute.kind != Compute::Kind::kPerformer) return 0;
  return Arena::bytes_for<double>(scratch_numbers(compute.features, head_size)) +
         Arena::bytes_for<float>(compute.features * head_size) +
         Arena::bytes_for<float>(kernels::packed_floats(compute.features, head_size)) +
         Arena::bytes_for<float>(kernels::packed_floats(head_size, compute.features));
}

FeatureMap::FeatureMap(const Compute& compute, size_t head_size, float scale, Arena& arena, Team& team)
    : random_(compute.kind == Compute::Kind::kPerformer),
      size_(size(compute, head_size)),
      scale_(scale),
      factor_(1.0f / std::sqrt(float(size_))) {
  if (!random_) return;
  const Matrix<float> omega = arena.take<float>(size_, head_size);
  draw_features(compute.seed, arena.take<double>(scratch_numbers(size_, head_size)), omega, team);
  const float root = std::sqrt(scale);
  for (size_t f = 0; f < size_; ++f)
    for (float& x : omega[f]) x *= root;
  forward_ = kernels::pack(kernels::transposed(omega),
                           arena.take<float>(kernels::packed_floats(size_, head_size)), team);
  omega_ = kernels::pack(omega, arena.take<float>(kernels::packed_floats(head_size, size_)), team);
}

void FeatureMap::queries(Matrix<const float> x, Matrix<float> phi) const {
  if (!random_) return HWY_DYNAMIC_DISPATCH(elu_plus_one)(x, phi);
  Team alone;
  kernels::matmul(x, forward_, phi, alone);
  HWY_DYNAMIC_DISPATCH(query_exponentials)(phi, factor_);
}

void FeatureMap::keys(Matrix<const float> x, Matrix<float> phi) const {
  if (!random_) return HWY_DYNAMIC_DISPATCH(elu_plus_one)(x, phi);
  Team alone;
  kernels::matmul(x, forward_, phi, alone);
  HWY_DYNAMIC_DISPATCH(key_exponentials)(x, scale_, phi, factor_);
}

void FeatureMap::queries_backward(Matrix<const float> phi, Matrix<float> d_phi, Matrix<float> dx) const {
  if (!random_) return HWY_DYNAMIC_DISPATCH(elu_plus_one_backward)(phi, d_phi, dx);
  Team alone;
  HWY_DYNAMIC_DISPATCH(query_exponentials_backward)(phi, d_phi);
  kernels::matmul(d_phi, omega_, dx, alone);
}

void FeatureMap::keys_backward(Matrix<const float> x, Matrix<const float> phi, Matrix<float> d_phi,
                               Matrix<float> dx) const {
  if (!random_) return HWY_DYNAMIC_DISPATCH(elu_plus_one_backward)(phi, d_phi, dx);
  Team alone;
  HWY_DYNAMIC_DISPATCH(key_exponentials_backward)(x, scale_, phi, factor_, d_phi, dx);
  kernels::matmul(d_phi, omega_, dx, alone, kernels::Accumulate::kYes);
}

}  // namespace bertie
#endif
