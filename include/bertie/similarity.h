#pragma once
// How alike vectors are, and which are most alike.
//
//   auto best = bertie::rank(model.embed("a question"), model.embed(texts), 10);
//   texts[best[0].index]
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bertie/export.h"
#include "bertie/results.h"
#include "bertie/view.h"

namespace bertie {

struct Ranked {
  size_t index = 0;
  float score = 0;
};

// The cosine of the angle between two vectors, from -1 to 1; 0 if one of them is zero.
BERTIE_API float cosine(std::span<const float> a, std::span<const float> b);
// Of each row of a with each row of b: (a.rows(), b.rows()), row-major.
BERTIE_API std::vector<float> similarity(Matrix<const float> a, Matrix<const float> b);
// The rows most like the query, best first; equal ones in their order.
BERTIE_API std::vector<Ranked> rank(std::span<const float> query, Matrix<const float> rows,
                                    size_t top = SIZE_MAX);

BERTIE_API std::vector<Ranked> rank(const Embedding& query, std::span<const Embedding> vectors,
                                    size_t top = SIZE_MAX);

}  // namespace bertie
