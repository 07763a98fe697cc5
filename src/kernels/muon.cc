#include "kernels/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/matmul.h"

namespace bertie::kernels {
namespace {

constexpr int kSteps = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

// The sides of a matrix that lies on the longer one, and what is needed to make it orthogonal.
struct Sides {
  explicit Sides(const StackedMatrices& s)
      : turned(s.rows > s.cols), low(std::min(s.rows, s.cols)), high(std::max(s.rows, s.cols)) {}
  size_t packed() const { return std::max(packed_floats(low, high), packed_floats(high, low)); }

  bool turned;
  size_t low, high;
};

// Where a matrix of a stack has element (row, col) of itself.
struct Place {
  size_t operator()(size_t row, size_t col) const {
    const size_t output = first + row;
    return (output / kPanel * inputs + col) * kPanel + output % kPanel;
  }
  size_t first, inputs;
};

// Calls use(i, j, place in the panels) for all elements of x, which is the matrix, turned where it is tall.
void for_elements(const StackedMatrices& shape, size_t which, const auto& use) {
  const Sides sides(shape);
  const Place place{which * shape.rows, shape.cols};
  for (size_t i = 0; i < sides.low; ++i)
    for (size_t j = 0; j < sides.high; ++j) use(i, j, sides.turned ? place(j, i) : place(i, j));
}

}  // namespace

size_t muon_workspace_floats(const StackedMatrices& shape) {
  const Sides s(shape);
  return 2 * s.low * s.high + 2 * s.low * s.low + s.packed();
}

void muon_update(const MuonStep& step, const StackedMatrices& shape, size_t which, std::span<float> p,
                 std::span<const float> g, std::span<float> m, float* workspace) {
  const Sides s(shape);
  Matrix<float> x(workspace, s.low, s.high), next(x.row(s.low), s.low, s.high);
  const Matrix<float> a(next.row(s.low), s.low, s.low), b(a.row(s.low), s.low, s.low);
  float* const packing = b.row(s.low);
  Team alone;
  const auto product = [&](Matrix<const float> left, Factor right, Matrix<float> to) {
    const Panels panels = pack(right, packing, alone);
    const Linear layer{.packed = packing, .inputs = panels.rows, .outputs = panels.cols};
    linear_forward(left, layer, Activation::kNone, to, alone, {}, step.products);
  };

  const float scale = float(step.scale), kept = float(step.momentum), rest = float(1 - step.momentum);
  double squares = 0;
  for_elements(shape, which, [&](size_t i, size_t j, size_t at) {
    const float now = g[at] * scale;
    m[at] += rest * (now - m[at]);
    x(i, j) = now + kept * (m[at] - now);
    squares += double(x(i, j)) * double(x(i, j));
  });
  const float unit = float(1 / std::max(std::sqrt(squares), 1e-7));
  for (float& value : std::span(x.data(), s.low * s.high)) value *= unit;
  for (int t = 0; t < kSteps; ++t) {
    product(x, transposed(x), a);
    product(a, a, b);  // a is symmetric
    for (size_t i = 0; i < s.low; ++i) {
      for (size_t j = 0; j < s.low; ++j) b(i, j) = kB * a(i, j) + kC * b(i, j);
      b(i, i) += kA;
    }
    product(b, x, next);
    std::swap(x, next);
  }
  const float shrink = float(1 - step.rate * step.decay);
  const float length = float(step.rate * 0.2 * std::sqrt(double(s.high)));
  for_elements(shape, which,
               [&](size_t i, size_t j, size_t at) { p[at] = p[at] * shrink - length * x(i, j); });
}

}  // namespace bertie::kernels
