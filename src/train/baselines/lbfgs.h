#pragma once
// The minimum of a smooth, convex function of many variables (L-BFGS, Nocedal & Wright 2006, chapter 7).
//
// A step goes along d = −H·∇f, where H, the inverse of the second derivatives, is known from the last few
// steps s and changes of the gradient y alone. Its length is found by halving and doubling until f has
// fallen enough and its slope has risen enough (the weak Wolfe conditions).
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace bertie::baseline {

// f(x); writes ∇f(x) to `gradient`.
using Objective = std::function<double(std::span<const double> x, std::span<double> gradient)>;

struct MinimizeOptions {
  size_t history = 10;      // steps that are remembered
  size_t iterations = 300;  // at most
  double tolerance = 1e-6;  // no number of the gradient is larger at the end
  std::function<void(size_t iteration)> after_iteration = {};
};

// `x` begins anywhere and ends at the minimum.
void minimize(const Objective& f, std::vector<double>& x, const MinimizeOptions& options = {});

}  // namespace bertie::baseline
