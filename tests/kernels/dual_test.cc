// The specification itself: derivatives of every reference function by Dual against central differences.
#include "kernels/dual.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/reference.h"
#include "support/numbers.h"

namespace bertie {
namespace {

using kernels::Activation;

// f maps all its inputs to all its outputs. Every ∂out/∂in by Dual and by differences must agree.
template <class F>
void check_derivatives(const std::vector<double>& x, const F& f, double tolerance = 1e-7) {
  const double h = 1e-5;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<Dual> dual(x.begin(), x.end());
    dual[i].d = 1;
    const std::vector<Dual> by_dual = f(dual);
    std::vector<double> up = x, down = x;
    up[i] += h, down[i] -= h;
    const std::vector<double> above = f(up), below = f(down), here = f(x);
    ASSERT_EQ(by_dual.size(), here.size());
    for (size_t o = 0; o < here.size(); ++o) {
      EXPECT_DOUBLE_EQ(by_dual[o].v, here[o]);
      const double difference = (above[o] - below[o]) / (2 * h);
      EXPECT_NEAR(by_dual[o].d, difference, tolerance * std::max(1.0, std::abs(difference)))
          << "d" << o << "/d" << i;
    }
  }
}

template <class T>
std::vector<T> slice(const std::vector<T>& x, size_t first, size_t count) {
  return {x.begin() + ptrdiff_t(first), x.begin() + ptrdiff_t(first + count)};
}

std::vector<double> inputs(size_t n, uint64_t seed) {
  return test::to_double(test::random_floats(n, seed, -2, 2));
}

TEST(Dual, DifferentiatesEachOperation) {
  const auto f = []<class T>(const std::vector<T>& x) {
    using std::erf, std::exp, std::log, std::sqrt, std::tanh;
    const T a = x[0], b = x[1];
    T c = a;
    c += b, c *= a, c -= b * b, c /= b;
    return std::vector<T>{a + b, a - b, -a, a * b, a / b, exp(a), log(b), sqrt(b), tanh(a), erf(a), c};
  };
  for (double a : {-1.5, 0.3, 2.0})
    for (double b : {0.5, 1.7}) check_derivatives({a, b}, f);
}

TEST(Dual, ComparesByValue) {
  EXPECT_TRUE(Dual(1, 9) < Dual(2, 0));
  EXPECT_FALSE(Dual(1, 9) < Dual(1, 10));
  EXPECT_TRUE(Dual(2) > Dual(1));
}

TEST(Reference, ActivationDifferentiates) {
  using enum Activation;
  for (Activation f : {kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh})
    for (double x : {-4.0, -1.1, -0.2, 0.3, 1.0, 5.0})
      check_derivatives({x}, [&]<class T>(const std::vector<T>& v) {
        return std::vector<T>{reference::activation(f, v[0])};
      });
}

TEST(Reference, ActivationHasItsKnownValues) {
  using enum Activation;  // from tables of the normal distribution: Φ(1) = 0.841344746…
  EXPECT_NEAR(reference::activation(kGelu, 1.0), 0.841344746068543, 1e-14);
  EXPECT_NEAR(reference::activation(kGelu, -1.0), -0.158655253931457, 1e-14);
  EXPECT_NEAR(reference::activation(kGeluTanh, 1.0), 0.841191990608306, 1e-13);
  EXPECT_NEAR(reference::activation(kSilu, 1.0), 0.731058578630005, 1e-14);
  EXPECT_EQ(reference::activation(kRelu, -1.0), 0);
  EXPECT_NEAR(reference::activation(kTanh, 0.5), 0.462117157260010, 1e-14);
}

TEST(Reference, LinearDifferentiatesInInputWeightAndBias) {
  const size_t t = 2, k = 3, n = 4;
  check_derivatives(inputs(t * k + n * k + n, 1), [&]<class T>(const std::vector<T>& v) {
    const auto x = slice(v, 0, t * k), w = slice(v, t * k, n * k), b = slice(v, t * k + n * k, n);
    std::vector<T> y(t * n);
    reference::linear<T>({x.data(), t, k}, {w.data(), n, k}, b, Activation::kGelu, {y.data(), t, n});
    return y;
  });
}

TEST(Reference, LayerNormDifferentiatesInInputGammaAndBeta) {
  const size_t t = 2, n = 5;
  check_derivatives(inputs(t * n + 2 * n, 2), [&]<class T>(const std::vector<T>& v) {
    const auto x = slice(v, 0, t * n), g = slice(v, t * n, n), b = slice(v, t * n + n, n);
    std::vector<T> y(t * n);
    reference::layer_norm<T>({x.data(), t, n}, g, b, 1e-5, {y.data(), t, n});
    return y;
  });
}

TEST(Reference, ResidualLayerNormDifferentiatesInBothSummands) {
  const size_t t = 2, n = 4;
  check_derivatives(inputs(2 * t * n, 3), [&]<class T>(const std::vector<T>& v) {
    const auto x = slice(v, 0, t * n), r = slice(v, t * n, t * n);
    const std::vector<T> g(n, T(1.5)), b(n, T(0.25));
    std::vector<T> y(t * n);
    reference::residual_layer_norm<T>({x.data(), t, n}, {r.data(), t, n}, g, b, 1e-5, {y.data(), t, n});
    return y;
  });
}

TEST(Reference, SoftmaxDifferentiatesAndSumsToOne) {
  const auto f = []<class T>(const std::vector<T>& v) {
    std::vector<T> y = v;
    reference::softmax<T>(y);
    return y;
  };
  check_derivatives(inputs(6, 4), f);
  double sum = 0;
  for (double y : f(inputs(6, 4))) sum += y;
  EXPECT_NEAR(sum, 1, 1e-15);
}

TEST(Reference, EmbeddingDifferentiatesInAllThreeTables) {
  const std::vector<int32_t> ids{2, 0, 2}, types{0, 1, 1}, offsets{0, 2, 3};
  const size_t c = 2;
  check_derivatives(inputs(3 * c + 2 * c + 2 * c, 5), [&]<class T>(const std::vector<T>& v) {
    const auto word = slice(v, 0, 3 * c), position = slice(v, 3 * c, 2 * c), type = slice(v, 5 * c, 2 * c);
    std::vector<T> y(3 * c);
    reference::embedding<T>(ids, types, offsets, {word.data(), 3, c}, {position.data(), 2, c},
                            {type.data(), 2, c}, {y.data(), 3, c});
    return y;
  });
}

}  // namespace
}  // namespace bertie
