#pragma once
// Z ≈ B⁺ for a square matrix B of positive numbers (Razavi et al. 2014), all (L, L):
//
//   Z₀ = Bᵀ/(c·r), c and r B's largest column and row sums
//   P = B·Z,  U = 7I − P,  V = 15I − P·U,  W = 13I − P·V,  Z ← ¼·Z·W        `iterations` times
//
//   backward of a step, from dZ':  dW = ¼·Zᵀ·dZ',  dV = −Pᵀ·dW,  dU = −Pᵀ·dV,  dP = −(dW·Vᵀ + dV·Uᵀ + dU)
//     dB += dP·Zᵀ,  dZ = ¼·dZ'·Wᵀ + Bᵀ·dP
//   of the beginning:  dB += dZ₀ᵀ/(c·r); −Σ(dZ₀∘Z₀)/c to the column whose sum is c, −Σ(dZ₀∘Z₀)/r to r's row
//
// Saved: every Z.
#include <cstddef>

#include "bertie/view.h"

namespace bertie {

class PseudoInverse {
 public:
  static size_t floats(size_t size, size_t iterations);
  // The memory, floats() of them, holds all that is computed.
  PseudoInverse(size_t size, size_t iterations, float* memory);

  Matrix<float> b() const { return b_; }  // fill it, then
  Matrix<const float> forward();          // gives Z
  // From dz, which is used up, to the gradient of b.
  Matrix<float> dz() const { return dz_; }
  Matrix<float> backward();

 private:
  void step(Matrix<const float> z);  // P, U, V, W
  Matrix<float> z(size_t i) const { return {history_ + i * size_ * size_, size_, size_}; }

  size_t size_, iterations_;
  float *history_, *packed_;
  Matrix<float> b_, db_, dz_, p_, u_, v_, w_, dw_, dv_, du_, dp_;
};

}  // namespace bertie
