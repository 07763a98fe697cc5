#pragma once
// The loss of a classification, summed over rows:
//
//   L = Σₜ (log Σⱼ e^(z[t,j]) − z[t, target])
//   backward: dz[t,j] = scale·(softmax(z[t])[j] − (1 if j is the target, else 0))
//
// Rows whose target is below 0 count for nothing and have no gradient. Losses are added up in double, in
// order.
#include <cstdint>
#include <span>

#include "bertie/view.h"
#include "core/parallel.h"
#include "kernels/gemm.h"

namespace bertie::kernels {

struct LossSum {
  double loss = 0;
  size_t count = 0;  // rows that had a target
  size_t right = 0;  // of them those whose target has the largest logit, be it with others; not with NaN

  LossSum& operator+=(const LossSum& other) {
    loss += other.loss, count += other.count, right += other.right;
    return *this;
  }
};

// logits become their gradient, if `gradient` is true; else they stay.
LossSum cross_entropy(Matrix<float> logits, std::span<const int32_t> targets, float scale, bool gradient,
                      Team& team);

// The loss against a teacher's logits t, at a temperature T (Hinton et al. 2015), summed over rows:
//
//   L = Σₜ T²·Σⱼ pⱼ·(log pⱼ − log qⱼ),   p = softmax(t/T),  q = softmax(z/T)
//   backward: dz = scale·T·(q − p)
//
// logits become their gradient. `right` counts rows where both have their largest logit at the same place.
LossSum soft_cross_entropy(Matrix<float> logits, Matrix<const float> teacher, float temperature, float scale,
                           Team& team);

// The loss of a language model's head, from the states before its last product, which never has all T×V
// logits in memory: z = x·tableᵀ + bias, then as above.
//
//   x (T, E)   table (V, E) as checkpoints have it: the word embeddings   bias (V) or null   targets (T)
//   backward:  dx = dz·table,   d_table += dzᵀ·x,   d_bias += Σₜ dz
//
// Goes through the rows in blocks, so that memory does not grow with T.
struct VocabularyHead {
  Matrix<const float> table;
  const float* bias = nullptr;
};
struct VocabularyGradient {
  Matrix<float> dx;       // assigned
  Matrix<float> d_table;  // added to
  float* d_bias = nullptr;
};
size_t vocabulary_loss_workspace(size_t rows, size_t vocabulary, size_t width, int threads);  // floats
// gradient null: the loss alone.
LossSum vocabulary_loss(Matrix<const float> x, const VocabularyHead& head, std::span<const int32_t> targets,
                        float scale, const VocabularyGradient* gradient, float* workspace, Team& team,
                        Products products = Products::kFloat32);

}  // namespace bertie::kernels
