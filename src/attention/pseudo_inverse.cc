#include "attention/pseudo_inverse.h"

#include <algorithm>
#include <utility>

#include "core/parallel.h"
#include "kernels/matmul.h"

namespace bertie {
namespace {

using kernels::Accumulate;
using kernels::Factor;
using kernels::transposed;

constexpr size_t kMatrices = 11;  // beside the Zs

// a = diagonal·I − a
void subtract_from(float diagonal, Matrix<float> a) {
  for (size_t i = 0; i < a.rows(); ++i) {
    for (float& x : a[i]) x = -x;
    a(i, i) += diagonal;
  }
}

void scale(Matrix<float> a, float factor) {
  for (size_t i = 0; i < a.rows(); ++i)
    for (float& x : a[i]) x *= factor;
}

struct Norms {
  explicit Norms(Matrix<const float> b) {
    for (size_t i = 0; i < b.rows(); ++i) {
      float of_row = 0, of_column = 0;
      for (size_t j = 0; j < b.cols(); ++j) of_row += b(i, j), of_column += b(j, i);
      if (i == 0 || of_row > row_sum) row = i, row_sum = of_row;
      if (i == 0 || of_column > column_sum) column = i, column_sum = of_column;
    }
  }
  size_t row = 0, column = 0;
  float row_sum = 0, column_sum = 0;
};

}  // namespace

size_t PseudoInverse::floats(size_t size, size_t iterations) {
  return (iterations + 1 + kMatrices) * size * size + kernels::matmul_workspace_floats(size, size);
}

PseudoInverse::PseudoInverse(size_t size, size_t iterations, float* memory)
    : size_(size), iterations_(iterations), history_(memory) {
  memory += (iterations + 1) * size * size;
  for (Matrix<float>* m : {&b_, &db_, &dz_, &p_, &u_, &v_, &w_, &dw_, &dv_, &du_, &dp_}) {
    *m = {memory, size, size};
    memory += size * size;
  }
  packed_ = memory;
}

void PseudoInverse::step(Matrix<const float> z) {
  Team alone;
  kernels::matmul(b_, z, p_, packed_, alone);
  for (size_t i = 0; i < size_; ++i)
    for (size_t j = 0; j < size_; ++j) u_(i, j) = -p_(i, j);
  for (size_t i = 0; i < size_; ++i) u_(i, i) += 7;
  kernels::matmul(p_, u_, v_, packed_, alone);
  subtract_from(15, v_);
  kernels::matmul(p_, v_, w_, packed_, alone);
  subtract_from(13, w_);
}

Matrix<const float> PseudoInverse::forward() {
  Team alone;
  const Norms norms(b_);
  for (size_t i = 0; i < size_; ++i)
    for (size_t j = 0; j < size_; ++j) z(0)(i, j) = b_(j, i) / (norms.row_sum * norms.column_sum);
  for (size_t i = 0; i < iterations_; ++i) {
    step(z(i));
    kernels::matmul(z(i), w_, z(i + 1), packed_, alone);
    scale(z(i + 1), 0.25f);
  }
  return z(iterations_);
}

Matrix<float> PseudoInverse::backward() {
  Team alone;
  const auto multiply = [&](Factor a, Factor b, Matrix<float> c, Accumulate accumulate = Accumulate::kNo) {
    kernels::matmul(a, b, c, packed_, alone, accumulate);
  };
  std::fill_n(db_.data(), size_ * size_, 0.0f);
  for (size_t i = iterations_; i-- > 0;) {
    step(z(i));
    scale(dz_, 0.25f);
    multiply(transposed(z(i)), dz_, dw_);
    multiply(transposed(p_), dw_, dv_);
    scale(dv_, -1);
    multiply(transposed(p_), dv_, du_);  // −dU
    multiply(dw_, transposed(v_), dp_);
    multiply(dv_, transposed(u_), dp_, Accumulate::kYes);
    for (size_t r = 0; r < size_; ++r)
      for (size_t c = 0; c < size_; ++c) dp_(r, c) = du_(r, c) - dp_(r, c);
    multiply(dp_, transposed(z(i)), db_, Accumulate::kYes);
    multiply(dz_, transposed(w_), du_);
    multiply(transposed(b_), dp_, du_, Accumulate::kYes);
    std::swap(dz_, du_);
  }
  const Norms norms(b_);
  double along = 0;
  for (size_t i = 0; i < size_; ++i)
    for (size_t j = 0; j < size_; ++j) {
      db_(i, j) += dz_(j, i) / (norms.row_sum * norms.column_sum);
      along += double(dz_(i, j)) * double(z(0)(i, j));
    }
  for (size_t i = 0; i < size_; ++i) {
    db_(i, norms.column) -= float(along / double(norms.column_sum));
    db_(norms.row, i) -= float(along / double(norms.row_sum));
  }
  return db_;
}

}  // namespace bertie
