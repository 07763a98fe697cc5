// The specification of the backward passes: every hand-written one in reference.h against the reference
// forward run on Dual.
#include <gtest/gtest.h>

#include "kernels/dual.h"
#include "kernels/reference.h"
#include "support/numbers.h"

namespace bertie {
namespace {

using kernels::Activation;

std::vector<double> doubles(size_t n, uint64_t seed) {
  return test::to_double(test::random_floats(n, seed, -2, 2));
}

// `forward` maps all inputs to all outputs, `backward` (inputs, the outputs' gradients) to the inputs'
// gradients.
template <class Forward, class Backward>
void check_backward(const std::vector<double>& x, const Forward& forward, const Backward& backward) {
  const std::vector<Dual> constant(x.begin(), x.end());
  const auto dy = doubles(forward(constant).size(), 99);
  const std::vector<double> dx = backward(x, dy);
  ASSERT_EQ(dx.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    auto dual = constant;
    dual[i].d = 1;
    const std::vector<Dual> y = forward(dual);
    double expected = 0, size = 0;
    for (size_t o = 0; o < y.size(); ++o) expected += dy[o] * y[o].d, size += std::abs(dy[o] * y[o].d);
    EXPECT_LE(std::abs(dx[i] - expected), 1e-10 * std::max(size, 1e-3)) << "input " << i;
  }
}

template <class T>
std::span<T> part(std::vector<T>& v, size_t first, size_t count) {
  return std::span(v).subspan(first, count);
}
template <class T>
std::span<const T> part(const std::vector<T>& v, size_t first, size_t count) {
  return std::span(v).subspan(first, count);
}

TEST(BackwardReference, ActivationIsTheDerivative) {
  using enum Activation;
  for (Activation f : {kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh})
    for (double x = -8.03; x < 8; x += 0.17) {
      const Dual y = reference::activation(f, Dual(x, 1));
      EXPECT_NEAR(reference::activation_derivative(f, x), y.d, 1e-10) << int(f) << " at " << x;
    }
}

TEST(BackwardReference, LinearIsTheDerivative) {
  const size_t t = 3, k = 4, n = 5;
  check_backward(
      doubles(t * k + n * k + n, 1),
      [&](const std::vector<Dual>& v) {
        std::vector<Dual> y(t * n);
        reference::linear<Dual>({v.data(), t, k}, {v.data() + t * k, n, k}, part(v, t * k + n * k, n),
                                Activation::kNone, {y.data(), t, n});
        return y;
      },
      [&](const std::vector<double>& v, const std::vector<double>& dy) {
        std::vector<double> d(v.size());
        reference::linear_backward({v.data(), t, k}, {v.data() + t * k, n, k}, {dy.data(), t, n},
                                   {d.data(), t, k}, {d.data() + t * k, n, k}, part(d, t * k + n * k, n));
        return d;
      });
}

TEST(BackwardReference, DropoutResidualLayerNormIsTheDerivativeOfBothItsOutputs) {
  const size_t t = 2, n = 5, tn = t * n;
  std::vector<double> mask(tn, 1.25);
  mask[1] = mask[7] = 0;
  check_backward(
      doubles(2 * tn + 2 * n, 2),
      [&](const std::vector<Dual>& v) {
        std::vector<Dual> s_and_y(2 * tn);
        reference::dropout_residual_layer_norm<Dual>(
            {v.data(), t, n}, {mask.data(), t, n}, {v.data() + tn, t, n}, part(v, 2 * tn, n),
            part(v, 2 * tn + n, n), 1e-5, {s_and_y.data(), t, n}, {s_and_y.data() + tn, t, n});
        return s_and_y;
      },
      [&](const std::vector<double>& v, const std::vector<double>& d_out) {
        std::vector<double> s(tn), y(tn), d(v.size());
        reference::dropout_residual_layer_norm<double>(
            {v.data(), t, n}, {mask.data(), t, n}, {v.data() + tn, t, n}, part(v, 2 * tn, n),
            part(v, 2 * tn + n, n), 1e-5, {s.data(), t, n}, {y.data(), t, n});
        reference::layer_norm_backward({s.data(), t, n}, part(v, 2 * tn, n), 1e-5, {d_out.data() + tn, t, n},
                                       {d.data() + tn, t, n}, part(d, 2 * tn, n), part(d, 2 * tn + n, n));
        for (size_t i = 0; i < tn; ++i) {
          d[tn + i] += d_out[i];  // what else looked at s
          d[i] = d[tn + i] * mask[i];
        }
        return d;
      });
}

TEST(BackwardReference, CrossEntropyIsTheDerivative) {
  const size_t t = 4, v = 5;
  const std::vector<int32_t> targets{2, -1, 0, 4};
  check_backward(
      doubles(t * v, 3),
      [&](const std::vector<Dual>& z) {
        return std::vector<Dual>{reference::cross_entropy<Dual>({z.data(), t, v}, targets)};
      },
      [&](const std::vector<double>& z, const std::vector<double>& dy) {
        std::vector<double> dz(t * v);
        reference::cross_entropy_backward({z.data(), t, v}, targets, dy[0], {dz.data(), t, v});
        return dz;
      });
}

TEST(BackwardReference, EmbeddingIsTheDerivativeOfAllThreeTables) {
  const std::vector<int32_t> ids{2, 0, 2}, types{0, 1, 1}, offsets{0, 2, 3}, positions{0, 1, 0};
  const size_t c = 2;
  check_backward(
      doubles(7 * c, 4),
      [&](const std::vector<Dual>& v) {
        std::vector<Dual> y(3 * c);
        reference::embedding<Dual>(ids, types, offsets, {v.data(), 3, c}, {v.data() + 3 * c, 2, c},
                                   {v.data() + 5 * c, 2, c}, {y.data(), 3, c});
        return y;
      },
      [&](const std::vector<double>&, const std::vector<double>& dy) {
        std::vector<double> d(7 * c);
        const Matrix<const double> dys(dy.data(), 3, c);
        reference::embedding_backward(ids, dys, 1, {d.data(), 3, c});
        reference::embedding_backward(positions, dys, 1, {d.data() + 3 * c, 2, c});
        reference::embedding_backward(types, dys, 1, {d.data() + 5 * c, 2, c});
        return d;
      });
}

}  // namespace
}  // namespace bertie
