// Attention rollout (Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers").
#include <fmt/format.h>

#include "bertie/error.h"
#include "bertie/explain.h"
#include "core/parallel.h"
#include "kernels/matmul.h"

namespace bertie {

Grid rollout(const Attention& attention, size_t layers) {
  const size_t n = attention.n();
  if (layers == 0) layers = attention.layers;
  if (layers > attention.layers)
    throw Error(fmt::format("there are no {} layers: the model has {}", layers, attention.layers), "",
                "layer");
  Grid product(n, n), step(n, n), next(n, n);
  for (size_t i = 0; i < n; ++i) product(i, i) = 1;
  std::vector<float> workspace(kernels::matmul_workspace_floats(n, n));
  Team team;
  for (size_t layer = 0; layer < layers; ++layer) {
    for (size_t i = 0; i < n; ++i) {
      // Heads that were pruned have zeros, and Linformer's rows only come near to 1: so the sum is taken.
      std::vector<double> mean(n);
      double sum = 0;
      for (size_t head = 0; head < attention.heads; ++head) {
        const Matrix<const float> weights = attention.at(layer, head);
        for (size_t j = 0; j < n; ++j) mean[j] += double(weights(i, j)), sum += double(weights(i, j));
      }
      for (size_t j = 0; j < n; ++j)
        step(i, j) = float(0.5 * (sum > 0 ? mean[j] / sum : double(i == j)) + 0.5 * double(i == j));
    }
    kernels::matmul(Matrix<const float>(step), Matrix<const float>(product), next, workspace.data(), team);
    std::swap(product, next);
  }
  return product;
}

}  // namespace bertie
