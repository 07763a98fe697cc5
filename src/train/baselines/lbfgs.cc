#include "train/baselines/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace bertie::baseline {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(Vector& a, double factor, const Vector& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
}

double largest(const Vector& a) {
  double most = 0;
  for (const double v : a) most = std::max(most, std::abs(v));
  return most;
}

struct PastStep {
  Vector s, y;
  double inverse;  // 1 / s·y
};

// −H·gradient, by the two loops over the past steps.
Vector direction(const Vector& gradient, const std::deque<PastStep>& past) {
  Vector d = gradient;
  std::vector<double> alphas(past.size());
  for (size_t i = past.size(); i-- > 0;) {
    alphas[i] = past[i].inverse * dot(past[i].s, d);
    add_scaled(d, -alphas[i], past[i].y);
  }
  if (!past.empty()) {
    const double scale = 1 / (past.back().inverse * dot(past.back().y, past.back().y));
    for (double& v : d) v *= scale;
  }
  for (size_t i = 0; i < past.size(); ++i)
    add_scaled(d, alphas[i] - past[i].inverse * dot(past[i].y, d), past[i].s);
  for (double& v : d) v = -v;
  return d;
}

}  // namespace

void minimize(const Objective& f, Vector& x, const MinimizeOptions& options) {
  constexpr double kEnoughFall = 1e-4, kEnoughRise = 0.9;
  constexpr size_t kTries = 40;
  Vector gradient(x.size()), next(x.size()), next_gradient(x.size());
  std::deque<PastStep> past;
  double value = f(x, gradient);
  for (size_t iteration = 0; iteration < options.iterations; ++iteration) {
    if (largest(gradient) <= options.tolerance) return;
    const Vector d = direction(gradient, past);
    const double slope = dot(d, gradient);
    if (!(slope < 0)) return;  // nothing but rounding is left
    double low = 0, high = std::numeric_limits<double>::infinity();
    double step = past.empty() ? std::min(1.0, 1 / std::sqrt(dot(gradient, gradient))) : 1.0;
    double next_value = value;
    bool found = false;
    for (size_t t = 0; t < kTries && !found; ++t) {
      next = x;
      add_scaled(next, step, d);
      next_value = f(next, next_gradient);
      if (!(next_value <= value + kEnoughFall * step * slope))
        high = step;
      else if (dot(d, next_gradient) < kEnoughRise * slope)
        low = step;
      else
        found = true;
      if (!found) step = std::isinf(high) ? 2 * step : (low + high) / 2;
    }
    if (!found) return;  // as low as rounding lets it go
    PastStep taken{next, next_gradient, 0};
    add_scaled(taken.s, -1, x), add_scaled(taken.y, -1, gradient);
    if (const double curvature = dot(taken.s, taken.y); curvature > 0) {
      taken.inverse = 1 / curvature;
      past.push_back(std::move(taken));
      if (past.size() > options.history) past.pop_front();
    }
    x.swap(next), gradient.swap(next_gradient);
    value = next_value;
    if (options.after_iteration) options.after_iteration(iteration + 1);
  }
}

}  // namespace bertie::baseline
