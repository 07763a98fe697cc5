#pragma once
// The optimizers as their authors write them, one number after the other; the specification of
// kernels/optimize.h.
#include <cmath>
#include <span>

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

}  // namespace bertie::reference
