#pragma once
// Hand-written gradients against the derivative of the forward text itself, by Dual numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bertie/attention_reference.h"
#include "core/random.h"
#include "kernels/dual.h"

namespace bertie::test {

template <class T>
using Tables = std::vector<reference::Table<T>>;

struct TableShape {
  std::string name;
  size_t rows, cols;
};

inline Tables<double> random_tables(const std::vector<TableShape>& shapes, uint64_t seed, double size = 1) {
  Random random(seed);
  Tables<double> tables;
  for (const TableShape& s : shapes) {
    tables.emplace_back(s.rows, s.cols);
    for (size_t r = 0; r < s.rows; ++r)
      for (size_t c = 0; c < s.cols; ++c) tables.back()(r, c) = size * (2 * double(random.uniform()) - 1);
  }
  return tables;
}

// forward.operator()<T>(inputs) gives a Table<T>; backward(inputs, d_out, gradients) adds to the gradients,
// one for each input. Every entry of every gradient must be the derivative of Σ d_out∘out, to 10⁻¹⁰ of the
// largest entry of that gradient; where a gradient vanishes (a query with one key to look at), to the
// rounding of the largest gradient of all.
template <class Forward, class Backward>
void expect_exact_gradients(const std::vector<TableShape>& shapes, Tables<double> inputs,
                            const Forward& forward, const Backward& backward, uint64_t seed = 99) {
  const reference::Table<double> out = forward.template operator()<double>(inputs);
  const reference::Table<double> d_out =
      std::move(random_tables({{"d_out", out.rows(), out.cols()}}, seed)[0]);
  Tables<double> gradients;
  for (const TableShape& s : shapes) gradients.emplace_back(s.rows, s.cols);
  backward(inputs, d_out, gradients);
  Tables<Dual> duals;
  for (size_t t = 0; t < shapes.size(); ++t) {
    duals.emplace_back(shapes[t].rows, shapes[t].cols);
    for (size_t r = 0; r < shapes[t].rows; ++r)
      for (size_t c = 0; c < shapes[t].cols; ++c) duals[t](r, c) = inputs[t](r, c);
  }
  struct Comparison {
    double worst = 0, largest = 0;
  };
  std::vector<Comparison> comparisons(shapes.size());
  double largest_of_all = 0;
  for (size_t t = 0; t < shapes.size(); ++t) {
    auto& [worst, largest] = comparisons[t];
    for (size_t r = 0; r < shapes[t].rows; ++r)
      for (size_t c = 0; c < shapes[t].cols; ++c) {
        duals[t](r, c).d = 1;
        const reference::Table<Dual> moved = forward.template operator()<Dual>(duals);
        duals[t](r, c).d = 0;
        double derivative = 0;
        for (size_t i = 0; i < out.rows(); ++i)
          for (size_t j = 0; j < out.cols(); ++j) derivative += d_out(i, j) * moved(i, j).d;
        const double error = std::abs(gradients[t](r, c) - derivative);
        if (!(error <= worst)) worst = error;
        largest = std::max(largest, std::abs(derivative));
      }
    largest_of_all = std::max(largest_of_all, largest);
  }
  const double rounding = 64 * std::numeric_limits<double>::epsilon() * largest_of_all;
  for (size_t t = 0; t < shapes.size(); ++t)
    EXPECT_LE(comparisons[t].worst, std::max(1e-10 * comparisons[t].largest, rounding))
        << "gradient of " << shapes[t].name << " (" << shapes[t].rows << ", " << shapes[t].cols
        << "), largest entry " << comparisons[t].largest;
}

}  // namespace bertie::test
