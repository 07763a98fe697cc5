#pragma once
// The specification: every operation as plain loops, in the order of its formula, for float, double and
// Dual. The fast kernels are tested against this text run in double; the backward passes are tested
// against this text run on Dual. Speed does not matter here, being obvious does. Attention has its own
// text, bertie/attention_reference.h.
//
// Letters, here and in all kernels:  T tokens of the packed batch   C hidden size   H heads
//                                    D = C/H head size   N outputs   K inputs   V vocabulary
#include <cmath>
#include <cstdint>
#include <span>

#include "bertie/view.h"
#include "kernels/activation.h"
#include "kernels/dual.h"

namespace bertie::reference {

// y = f(x)
template <class T>
T activation(kernels::Activation f, T x) {
  using std::erf, std::exp, std::sqrt, std::tanh;
  using F = kernels::Activation;
  switch (f) {
    case F::none:
      return x;
    case F::gelu:
      return T(0.5) * x * (T(1) + erf(x * T(std::sqrt(0.5))));
    case F::gelu_tanh:
      return T(0.5) * x * (T(1) + tanh(T(std::sqrt(2 / M_PI)) * (x + T(0.044715) * x * x * x)));
    case F::relu:
      return x > T(0) ? x : T(0);
    case F::silu:
      return x / (T(1) + exp(-x));
    case F::tanh:
      return tanh(x);
  }
  return x;
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

// y[t] = word[ids[t]] + position[t − start of its sequence] + type[types[t]]
template <class T>
void embedding(std::span<const int32_t> ids, std::span<const int32_t> types, std::span<const int32_t> offsets,
               Matrix<const T> word, Matrix<const T> position, Matrix<const T> type, Matrix<T> y) {
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int32_t t = offsets[s]; t < offsets[s + 1]; ++t)
      for (size_t c = 0; c < y.cols(); ++c)
        y(t, c) = word(ids[t], c) + position(t - offsets[s], c) + type(types[t], c);
}

}  // namespace bertie::reference
