#pragma once
// Muon: a step in the direction of the gradient's mean made orthogonal (Jordan et al. 2024), for the matrices
// of hidden layers. W (N,K) with gradient G and momentum M:
//
//   G' = G·scale
//   M  = β·M + (1 − β)·G'
//   U  = β·M + (1 − β)·G'                            Nesterov's: looks one step ahead
//   O  = U·(UᵀU)^(−½)                                all singular values about 1
//   W  = W·(1 − rate·decay) − rate·0.2·√max(N,K)·O
//
// O comes by five Newton-Schulz steps from X = U/|U|:  A = XXᵀ,  X ← a·X + (b·A + c·A²)·X. They bring
// singular values to between 0.7 and 1.2, but for the least of them, not to 1, which is as good and sooner
// there. 0.2·√max(N,K) makes a step as long as Adam's usually are (Liu et al. 2025), so that one learning
// rate serves both. As torch.optim.Muon with adjust_lr_fn "match_rms_adamw".
#include <cstddef>
#include <span>

#include "kernels/gemm.h"

namespace bertie::kernels {

struct MuonStep {
  double rate = 0, momentum = 0.95, decay = 0;
  double scale = 1;                        // of the gradients
  Products products = Products::kFloat32;  // of the Newton-Schulz steps
};

// Matrices of `rows` rows, one below the other in one packed product (gemm.h): queries, keys and values are
// three. Each is made orthogonal by itself.
struct StackedMatrices {
  size_t count = 0, rows = 0, cols = 0;

  size_t packed_floats() const { return kernels::packed_floats(count * rows, cols); }
};

size_t muon_workspace_floats(const StackedMatrices& shape);

// Matrix number `which`, by the calling thread alone. p, g and m are the whole stack's, packed_floats().
void muon_update(const MuonStep& step, const StackedMatrices& shape, size_t which, std::span<float> p,
                 std::span<const float> g, std::span<float> m, float* workspace);

}  // namespace bertie::kernels
