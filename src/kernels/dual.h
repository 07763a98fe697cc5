#pragma once
// Dual numbers: a value and its derivative in one direction. Running a scalar kernel on Dual gives the
// exact derivative of that very text, against which every hand-written backward is checked.
#include <cmath>

namespace bertie {

struct Dual {
  double v = 0, d = 0;
  Dual() = default;
  Dual(double value, double derivative = 0) : v(value), d(derivative) {}

  friend Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
  friend Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
  friend Dual operator-(Dual a) { return {-a.v, -a.d}; }
  friend Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend Dual operator/(Dual a, Dual b) { return {a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)}; }
  Dual& operator+=(Dual b) { return *this = *this + b; }
  Dual& operator-=(Dual b) { return *this = *this - b; }
  Dual& operator*=(Dual b) { return *this = *this * b; }
  Dual& operator/=(Dual b) { return *this = *this / b; }
  friend bool operator==(Dual a, Dual b) { return a.v == b.v; }
  friend bool operator<(Dual a, Dual b) { return a.v < b.v; }
  friend bool operator>(Dual a, Dual b) { return a.v > b.v; }

  friend Dual exp(Dual a) { return {std::exp(a.v), a.d * std::exp(a.v)}; }
  friend Dual log(Dual a) { return {std::log(a.v), a.d / a.v}; }
  friend Dual sqrt(Dual a) { return {std::sqrt(a.v), a.d / (2 * std::sqrt(a.v))}; }
  friend Dual tanh(Dual a) { return {std::tanh(a.v), a.d * (1 - std::tanh(a.v) * std::tanh(a.v))}; }
  friend Dual erf(Dual a) { return {std::erf(a.v), a.d * 2 / std::sqrt(M_PI) * std::exp(-a.v * a.v)}; }
};

}  // namespace bertie
