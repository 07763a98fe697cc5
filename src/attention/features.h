#pragma once
// Feature maps φ for which φ(q)·φ(k) stands for e^(scale·q·k). Of a block of rows x (rows, D) they make
// φ (rows, R).
//
//   linear     φ(x) = elu(x) + 1, R = D.  φ'(x) = min(φ(x), 1).
//   performer  FAVOR+ (Choromanski et al. 2021): with x' = √scale·x and ω (R, D) random, orthogonal
//              e_f = ω_f·x' − |x'|²/2,  φ_f = exp(e_f)/√R;  E[φ(q)·φ(k)] = e^(scale·q·k).
//              dx = √scale·Σ_f g_f·ω_f − scale·x·Σ_f g_f,  g_f = dφ_f·φ_f.
//              Keys: e_f ≤ 60, and g_f = 0 where that bound holds e_f. Queries: the largest e_f of a row is
//              subtracted, which cancels in attention. So does |x'|²/2, and Σ_f g_f is 0.
//
// A row's features depend on that row alone, bit for bit.
#include <cstddef>
#include <cstdint>

#include "bertie/attention.h"
#include "bertie/view.h"
#include "core/arena.h"
#include "kernels/matmul.h"

namespace bertie {

// ω (features, head_size): for every head_size rows the directions of an orthogonalised Gaussian matrix, each
// as long as an independent Gaussian vector. A function of its arguments alone.
void orthogonal_features(size_t features, size_t head_size, uint64_t seed, Matrix<float> out);

class FeatureMap {
 public:
  // `compute` is linear or performer. What the map keeps lies in the arena.
  FeatureMap(const Compute& compute, size_t head_size, float scale, Arena& arena, Team& team);
  static size_t bytes(const Compute& compute, size_t head_size);
  static size_t size(const Compute& compute, size_t head_size) {
    return compute.kind == Compute::Kind::kPerformer ? compute.features : head_size;
  }

  size_t size() const { return size_; }
  void queries(Matrix<const float> x, Matrix<float> phi) const;
  void keys(Matrix<const float> x, Matrix<float> phi) const;
  // From dφ to dx; d_phi is used up.
  void queries_backward(Matrix<const float> phi, Matrix<float> d_phi, Matrix<float> dx) const;
  void keys_backward(Matrix<const float> x, Matrix<const float> phi, Matrix<float> d_phi,
                     Matrix<float> dx) const;

 private:
  bool random_;
  size_t size_;
  float scale_, factor_;             // factor_ is 1/√R
  kernels::Panels forward_, omega_;  // √scale·ωᵀ and √scale·ω
};

}  // namespace bertie
