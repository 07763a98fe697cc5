#include "bertie/similarity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bertie/error.h"

namespace bertie {

// In double, and no product of vectors that were normalized in float: equal vectors give 1.
float cosine(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size())
    throw Error(fmt::format("vectors of {} and {} numbers cannot be compared", a.size(), b.size()),
                "make them with the same model");
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double(a[i]) * double(b[i]);
    aa += double(a[i]) * double(a[i]);
    bb += double(b[i]) * double(b[i]);
  }
  return aa == 0 || bb == 0 ? 0.0f : float(ab / (std::sqrt(aa) * std::sqrt(bb)));
}

std::vector<float> similarity(Matrix<const float> a, Matrix<const float> b) {
  std::vector<float> all;
  all.reserve(a.rows() * b.rows());
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < b.rows(); ++j) all.push_back(cosine(a[i], b[j]));
  return all;
}

namespace {

// The best `top` of those whose scores are set.
std::vector<Ranked> best_of(std::vector<Ranked> all, size_t top) {
  const auto better = [](const Ranked& x, const Ranked& y) {
    return x.score > y.score || (x.score == y.score && x.index < y.index);
  };
  top = std::min(top, all.size());
  std::partial_sort(all.begin(), all.begin() + ptrdiff_t(top), all.end(), better);
  all.resize(top);
  return all;
}

}  // namespace

std::vector<Ranked> rank(std::span<const float> query, Matrix<const float> rows, size_t top) {
  std::vector<Ranked> all(rows.rows());
  for (size_t i = 0; i < all.size(); ++i) all[i] = {i, cosine(query, rows[i])};
  return best_of(std::move(all), top);
}

std::vector<Ranked> rank(const Embedding& query, std::span<const Embedding> vectors, size_t top) {
  std::vector<Ranked> all(vectors.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = {i, cosine(query.values, vectors[i].values)};
  return best_of(std::move(all), top);
}

}  // namespace bertie
