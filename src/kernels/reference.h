#pragma once
// The specification: every operation as plain loops, in the order of its formula, for float, double and
// Dual. The fast kernels are tested against this text run in double; the backward passes are tested
// against this text run on Dual. Speed does not matter here, being obvious does. Attention has its own
// text, bertie/attention_reference.h.
//
// Letters, here and in all kernels:  T tokens of the packed batch   C hidden size   H heads
//                                    D = C/H head size   N outputs   K inputs   V vocabulary
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "bertie/view.h"
#include "kernels/activation.h"
#include "kernels/dual.h"

namespace bertie::reference {

// A linear layer of 8-bit integers (kernels/int8.h): y of one token x (K) from whole numbers q (N,K), their
// scales (N), and what stays exact: columns of x, and their weights (N,E).
struct Int8Weights {
  Matrix<const float> q;
  std::span<const float> scales;
  std::span<const uint32_t> columns;
  Matrix<const float> exact;
};
inline void int8_linear(std::span<const float> x, const Int8Weights& w, std::span<double> y) {
  std::vector<float> rest(x.begin(), x.end());
  for (uint32_t column : w.columns) rest[column] = 0;
  float low = 0, high = 0;
  for (float value : rest) low = std::min(low, value), high = std::max(high, value);
  const float inverse = high > low ? 255 / (high - low) : 0;
  for (size_t n = 0; n < y.size(); ++n) {
    int64_t products = 0, sum = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      const auto u = int64_t(std::nearbyint((rest[k] - low) * inverse));
      products += u * int64_t(w.q(n, k)), sum += int64_t(w.q(n, k));
    }
    y[n] = double(w.scales[n]) * (double((high - low) / 255) * double(products) + double(low) * double(sum));
    for (size_t e = 0; e < w.columns.size(); ++e) y[n] += double(x[w.columns[e]]) * double(w.exact(n, e));
  }
}

// y = f(x)
template <class T>
T activation(kernels::Activation f, T x) {
  using std::erf, std::exp, std::sqrt, std::tanh;
  using F = kernels::Activation;
  switch (f) {
    case F::kNone:
      return x;
    case F::kGelu:
      return T(0.5) * x * (T(1) + erf(x * T(std::sqrt(0.5))));
    case F::kGeluTanh:
      return T(0.5) * x * (T(1) + tanh(T(std::sqrt(2 / M_PI)) * (x + T(0.044715) * x * x * x)));
    case F::kRelu:
      return x > T(0) ? x : T(0);
    case F::kSilu:
      return x / (T(1) + exp(-x));
    case F::kTanh:
      return tanh(x);
  }
  return x;
}

// f'(x)
inline double activation_derivative(kernels::Activation f, double x) {
  using F = kernels::Activation;
  const double root = std::sqrt(2 / M_PI);
  switch (f) {
    case F::kNone:
      return 1;
    case F::kGelu:  // Φ(x) + x·φ(x)
      return 0.5 * (1 + std::erf(x * std::sqrt(0.5))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case F::kGeluTanh: {
      const double t = std::tanh(root * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
    }
    case F::kRelu:
      return x > 0 ? 1 : 0;
    case F::kSilu: {
      const double s = 1 / (1 + std::exp(-x));
      return s + x * s * (1 - s);
    }
    case F::kTanh:
      return 1 - std::tanh(x) * std::tanh(x);
  }
  return 1;
}

// y[n] = f(Σₖ x[k]·w[n,k] + b[n])          x (T,K), w (N,K) as checkpoints store it, b (N) or empty
template <class T>
void linear(Matrix<const T> x, Matrix<const T> w, std::span<const T> b, kernels::Activation f, Matrix<T> y) {
  for (size_t t = 0; t < x.rows(); ++t)
    for (size_t n = 0; n < w.rows(); ++n) {
      T sum = 0;
      for (size_t k = 0; k < x.cols(); ++k) sum += x(t, k) * w(n, k);
      y(t, n) = activation(f, b.empty() ? sum : sum + b[n]);
    }
}

// Of the product alone, dy being what came back through f: dx = dy·w, dw += dyᵀ·x, db += Σₜ dy
inline void linear_backward(Matrix<const double> x, Matrix<const double> w, Matrix<const double> dy,
                            Matrix<double> dx, Matrix<double> dw, std::span<double> db) {
  for (size_t t = 0; t < x.rows(); ++t)
    for (size_t k = 0; k < x.cols(); ++k) {
      dx(t, k) = 0;
      for (size_t n = 0; n < w.rows(); ++n) dx(t, k) += dy(t, n) * w(n, k), dw(n, k) += dy(t, n) * x(t, k);
    }
  for (size_t t = 0; t < x.rows(); ++t)
    for (size_t n = 0; n < w.rows(); ++n) db[n] += dy(t, n);
}

// y = (x − mean)/√(var + eps)·gamma + beta, per row, var without Bessel's correction
template <class T>
void layer_norm(Matrix<const T> x, std::span<const T> gamma, std::span<const T> beta, double eps,
                Matrix<T> y) {
  using std::sqrt;
  for (size_t t = 0; t < x.rows(); ++t) {
    T mean = 0, var = 0;
    for (T v : x[t]) mean += v;
    mean /= T(double(x.cols()));
    for (T v : x[t]) var += (v - mean) * (v - mean);
    var /= T(double(x.cols()));
    for (size_t c = 0; c < x.cols(); ++c)
      y(t, c) = (x(t, c) - mean) / sqrt(var + T(eps)) * gamma[c] + beta[c];
  }
}

// y = layer_norm(x + residual)
template <class T>
void residual_layer_norm(Matrix<const T> x, Matrix<const T> residual, std::span<const T> gamma,
                         std::span<const T> beta, double eps, Matrix<T> y) {
  for (size_t t = 0; t < x.rows(); ++t) {
    for (size_t c = 0; c < x.cols(); ++c) y(t, c) = x(t, c) + residual(t, c);
    layer_norm<T>(y.slice_rows(t, 1), gamma, beta, eps, y.slice_rows(t, 1));
  }
}

// For training: s = x∘mask + residual, y = layer_norm(s). mask (T,C) of 0 and 1/(1 − rate); residual may be
// empty.
template <class T>
void dropout_residual_layer_norm(Matrix<const T> x, Matrix<const double> mask, Matrix<const T> residual,
                                 std::span<const T> gamma, std::span<const T> beta, double eps, Matrix<T> s,
                                 Matrix<T> y) {
  for (size_t t = 0; t < x.rows(); ++t)
    for (size_t c = 0; c < x.cols(); ++c) {
      s(t, c) = x(t, c) * T(mask(t, c));
      if (!residual.empty()) s(t, c) += residual(t, c);
    }
  layer_norm<T>(s, gamma, beta, eps, y);
}

// ds = ρ·(g − mean(g) − x̂·mean(g·x̂)) with g = dy·gamma, dgamma += Σₜ dy·x̂, dbeta += Σₜ dy
// (the residual's gradient is ds, and x's is ds∘mask)
inline void layer_norm_backward(Matrix<const double> s, std::span<const double> gamma, double eps,
                                Matrix<const double> dy, Matrix<double> ds, std::span<double> dgamma,
                                std::span<double> dbeta) {
  const double n = double(s.cols());
  for (size_t t = 0; t < s.rows(); ++t) {
    double mean = 0, var = 0, mean_g = 0, mean_gx = 0;
    for (double v : s[t]) mean += v / n;
    for (double v : s[t]) var += (v - mean) * (v - mean) / n;
    const double rho = 1 / std::sqrt(var + eps);
    for (size_t c = 0; c < s.cols(); ++c) {
      const double g = dy(t, c) * gamma[c], x = (s(t, c) - mean) * rho;
      mean_g += g / n, mean_gx += g * x / n;
      dgamma[c] += dy(t, c) * x, dbeta[c] += dy(t, c);
    }
    for (size_t c = 0; c < s.cols(); ++c)
      ds(t, c) = rho * (dy(t, c) * gamma[c] - mean_g - (s(t, c) - mean) * rho * mean_gx);
  }
}

// y[j] = e^(x[j] − max x) / Σᵢ e^(x[i] − max x), in place
template <class T>
void softmax(std::span<T> x) {
  using std::exp;
  if (x.empty()) return;
  T max = x[0], sum = 0;
  for (T v : x)
    if (v > max) max = v;
  for (T& v : x) sum += v = exp(v - max);
  for (T& v : x) v /= sum;
}

// L = Σₜ (log Σⱼ e^(z[t,j]) − z[t, target]) over the rows that have a target, which is 0 or more
template <class T>
T cross_entropy(Matrix<const T> z, std::span<const int32_t> targets) {
  using std::exp, std::log;
  T loss = 0;
  for (size_t t = 0; t < z.rows(); ++t) {
    if (targets[t] < 0) continue;
    T max = z(t, 0), sum = 0;
    for (T v : z[t])
      if (v > max) max = v;
    for (T v : z[t]) sum += exp(v - max);
    loss += log(sum) + max - z(t, size_t(targets[t]));
  }
  return loss;
}

// dz[t,j] = scale·(softmax(z[t])[j] − [j = target])
inline void cross_entropy_backward(Matrix<const double> z, std::span<const int32_t> targets, double scale,
                                   Matrix<double> dz) {
  for (size_t t = 0; t < z.rows(); ++t) {
    for (size_t j = 0; j < z.cols(); ++j) dz(t, j) = targets[t] < 0 ? 0 : z(t, j);
    if (targets[t] < 0) continue;
    softmax<double>(dz[t]);
    dz(t, size_t(targets[t])) -= 1;
    for (double& v : dz[t]) v *= scale;
  }
}

// y[t] = word[ids[t]] + position[t − start of its sequence] + type[types[t]]
template <class T>
void embedding(std::span<const int32_t> ids, std::span<const int32_t> types, std::span<const int32_t> offsets,
               Matrix<const T> word, Matrix<const T> position, Matrix<const T> type, Matrix<T> y) {
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int32_t t = offsets[s]; t < offsets[s + 1]; ++t)
      for (size_t c = 0; c < y.cols(); ++c)
        y(t, c) = word(ids[t], c) + position(t - offsets[s], c) + type(types[t], c);
}

// d_table[rows[t]] += factor·dy[t]: of each of the three tables, by its own rows
inline void embedding_backward(std::span<const int32_t> rows, Matrix<const double> dy, double factor,
                               Matrix<double> d_table) {
  for (size_t t = 0; t < rows.size(); ++t)
    for (size_t c = 0; c < dy.cols(); ++c) d_table(size_t(rows[t]), c) += factor * dy(t, c);
}

}  // namespace bertie::reference
