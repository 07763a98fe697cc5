#pragma once
// Matrix products that read like the formula:
//
//   matmul(a, b, c, workspace, team);                                    c = a·b
//   matmul(transposed(a), b, c, workspace, team, Accumulate::kYes);       c += aᵀ·b
//   backward of c = a·b:  da = dc·bᵀ,  db = aᵀ·dc
//
// b is packed into panels of 32 columns (see gemm.h), which the one inner loop reads from front to back. An
// element is one sum over k in order, whatever the shapes and the team: bit for bit the same.
#include <algorithm>
#include <cstddef>

#include "bertie/view.h"
#include "core/parallel.h"
#include "kernels/gemm.h"

namespace bertie::kernels {

// A matrix as it stands in a product: as it is stored, or transposed.
class Factor {
 public:
  Factor(Matrix<const float> m) : Factor(m, false) {}
  Factor(Matrix<float> m) : Factor(m, false) {}
  Factor(Matrix<const float> m, bool is_transposed) : stored(m), transposed(is_transposed) {}

  size_t rows() const { return transposed ? stored.cols() : stored.rows(); }
  size_t cols() const { return transposed ? stored.rows() : stored.cols(); }
  // Element (r, c) is data()[r·row_step() + c·col_step()].
  const float* data() const { return stored.data(); }
  size_t row_step() const { return transposed ? 1 : stored.stride(); }
  size_t col_step() const { return transposed ? stored.stride() : 1; }
  Factor slice_rows(size_t first, size_t count) const {
    return {transposed ? stored.slice_cols(first, count) : stored.slice_rows(first, count), transposed};
  }
  Factor slice_cols(size_t first, size_t count) const {
    return {transposed ? stored.slice_rows(first, count) : stored.slice_cols(first, count), transposed};
  }

  Matrix<const float> stored;
  bool transposed;
};

inline Factor transposed(Matrix<const float> m) { return {m, true}; }

inline constexpr size_t kPackedRows = 4096;  // rows of b that are packed at a time

// What matmul needs for b (inner, columns).
inline constexpr size_t matmul_workspace_floats(size_t inner, size_t columns) {
  return packed_floats(columns, std::min(inner, kPackedRows));
}

// c overlaps neither a nor b.
void matmul(Factor a, Factor b, Matrix<float> c, float* workspace, Team& team,
            Accumulate accumulate = Accumulate::kNo);

// The two halves of it, for a right-hand factor that is used more than once: packed_floats(cols, rows) floats
// in somebody else's memory.
struct Panels {
  const float* data = nullptr;
  size_t rows = 0, cols = 0;
};
Panels pack(Factor b, float* memory, Team& team);
void matmul(Factor a, Panels b, Matrix<float> c, Team& team, Accumulate accumulate = Accumulate::kNo);

}  // namespace bertie::kernels
