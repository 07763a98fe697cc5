#pragma once
// The optimizers as their authors write them, one number after the other; the specification of
// kernels/optimize.h and kernels/muon.h.
#include <cmath>
#include <span>
#include <vector>

#include "kernels/muon.h"
#include "kernels/optimize.h"

namespace bertie::reference {

// m and v moved by the gradient; gives a = m·c₁/(√(v·c₂) + eps).
inline double adam_direction(const kernels::AdamStep& s, double g, double& m, double& v) {
  g *= s.scale;
  m = s.beta1 * m + (1 - s.beta1) * g;
  v = s.beta2 * v + (1 - s.beta2) * g * g;
  return m * s.correction1 / (std::sqrt(v * s.correction2) + s.eps);
}

inline void adam(const kernels::AdamStep& s, std::span<double> p, std::span<const double> g,
                 std::span<double> m, std::span<double> v) {
  for (size_t i = 0; i < p.size(); ++i) {
    const double a = adam_direction(s, g[i], m[i], v[i]);
    p[i] -= s.rate * (a + s.decay * p[i]);
  }
}

inline void lamb(const kernels::AdamStep& s, std::span<double> p, std::span<const double> g,
                 std::span<double> m, std::span<double> v, std::span<double> u) {
  double of_p = 0, of_u = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    u[i] = adam_direction(s, g[i], m[i], v[i]) + s.decay * p[i];
    of_p += p[i] * p[i], of_u += u[i] * u[i];
  }
  const double ratio = of_p > 0 && of_u > 0 ? std::sqrt(of_p) / std::sqrt(of_u) : 1;
  for (size_t i = 0; i < p.size(); ++i) p[i] -= s.rate * ratio * u[i];
}

inline void move_mean(double share, std::span<const double> p, std::span<double> mean) {
  for (size_t i = 0; i < p.size(); ++i) mean[i] = (1 - share) * mean[i] + share * p[i];
}

// X of five Newton-Schulz steps from u/|u|; u (rows, cols) row by row.
inline std::vector<double> orthogonalized(std::span<const double> u, size_t rows, size_t cols) {
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b, size_t n, size_t inner,
                          size_t m) {
    std::vector<double> c(n * m);
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < inner; ++k)
        for (size_t j = 0; j < m; ++j) c[i * m + j] += a[i * inner + k] * b[k * m + j];
    return c;
  };
  double squares = 0;
  for (double value : u) squares += value * value;
  std::vector<double> x(u.begin(), u.end()), turned(x.size());
  for (double& value : x) value /= std::max(std::sqrt(squares), 1e-7);
  for (int t = 0; t < 5; ++t) {
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) turned[j * rows + i] = x[i * cols + j];
    std::vector<double> a = product(x, turned, rows, cols, rows), b = product(a, a, rows, rows, rows);
    for (size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * b[i];
    const std::vector<double> moved = product(b, x, rows, rows, cols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + moved[i];
  }
  return x;
}

// One matrix.
inline void muon(const kernels::MuonStep& s, size_t rows, size_t cols, std::span<double> p,
                 std::span<const double> g, std::span<double> m) {
  std::vector<double> u(p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    m[i] = s.momentum * m[i] + (1 - s.momentum) * g[i] * s.scale;
    u[i] = s.momentum * m[i] + (1 - s.momentum) * g[i] * s.scale;
  }
  const std::vector<double> o = orthogonalized(u, rows, cols);
  const double length = s.rate * 0.2 * std::sqrt(double(std::max(rows, cols)));
  for (size_t i = 0; i < p.size(); ++i) p[i] = p[i] * (1 - s.rate * s.decay) - length * o[i];
}

}  // namespace bertie::reference
