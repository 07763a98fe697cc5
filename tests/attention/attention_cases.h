#pragma once
// Attention on random packed batches, and what the reference makes of them in double.
#include <numeric>
#include <vector>

#include "attention/scaled_dot_product.h"
#include "bertie/attention_reference.h"
#include "core/arena.h"
#include "support/numbers.h"

namespace bertie::test {

struct AttentionShape {
  std::vector<int32_t> queries, keys;  // lengths, one of each for every sequence
  size_t heads = 1, d = 8, dv = 8;
};

inline std::vector<int32_t> offsets_of(std::span<const int32_t> lengths) {
  std::vector<int32_t> offsets{0};
  for (int32_t n : lengths) offsets.push_back(offsets.back() + n);
  return offsets;
}

class AttentionCase {
 public:
  AttentionCase(AttentionShape s, uint64_t seed, float size = 1)
      : shape(std::move(s)), q_offsets(offsets_of(shape.queries)), k_offsets(offsets_of(shape.keys)) {
    const size_t h = shape.heads;
    q = random_floats(size_t(q_offsets.back()) * h * shape.d, seed, -size, size);
    k = random_floats(size_t(k_offsets.back()) * h * shape.d, seed + 1, -size, size);
    v = random_floats(size_t(k_offsets.back()) * h * shape.dv, seed + 2);
  }

  AttentionBatch batch() const {
    const size_t h = shape.heads;
    return {.q = {q.data(), size_t(q_offsets.back()), h * shape.d},
            .k = {k.data(), size_t(k_offsets.back()), h * shape.d},
            .v = {v.data(), size_t(k_offsets.back()), h * shape.dv},
            .q_offsets = q_offsets,
            .k_offsets = k_offsets,
            .heads = h,
            .scale = 1.0f / std::sqrt(float(shape.d))};
  }

  AttentionShape shape;
  std::vector<int32_t> q_offsets, k_offsets;
  std::vector<float> q, k, v;
};

struct AttentionResult {
  std::vector<float> out, weights;
};

inline AttentionResult run_exact(const AttentionBatch& b, Team& team) {
  Guarded out(b.q.rows() * b.v.cols()), weights(dot_product::weights_size(b));
  Block workspace(dot_product::workspace_bytes(b, true, team.threads()));
  dot_product::exact(b, {out.data(), b.q.rows(), b.v.cols()}, weights.span(), workspace.data(), team);
  EXPECT_TRUE(out.intact() && weights.intact());
  return {{out.span().begin(), out.span().end()}, {weights.span().begin(), weights.span().end()}};
}

inline std::vector<float> run_tiled(const AttentionBatch& b, Team& team) {
  Guarded out(b.q.rows() * b.v.cols());
  Block workspace(dot_product::workspace_bytes(b, false, team.threads()));
  dot_product::tiled(b, {out.data(), b.q.rows(), b.v.cols()}, {}, workspace.data(), team);
  EXPECT_TRUE(out.intact());
  return {out.span().begin(), out.span().end()};
}

// Every sequence and head by itself, in double.
struct Reference {
  explicit Reference(const AttentionBatch& b) : out(b.q.rows() * b.v.cols()) {
    const size_t d = b.head_size(), dv = b.value_size();
    const auto head_of = [](Matrix<const float> m, size_t first, size_t rows, size_t head, size_t width) {
      return to_double(copy_of(m.slice_rows(first, rows).slice_cols(head * width, width)));
    };
    for (size_t s = 0; s < b.sequences(); ++s)
      for (size_t h = 0; h < b.heads; ++h) {
        const size_t n = b.queries(s), m = b.keys(s), q0 = size_t(b.q_offsets[s]),
                     k0 = size_t(b.k_offsets[s]);
        const auto q = head_of(b.q, q0, n, h, d), k = head_of(b.k, k0, m, h, d),
                   v = head_of(b.v, k0, m, h, dv);
        std::vector<double> w(n * m), o(n * dv);
        reference::attention<double>({q.data(), n, d}, {k.data(), m, d}, {v.data(), m, dv}, double(b.scale),
                                     {w.data(), n, m}, {o.data(), n, dv});
        weights.insert(weights.end(), w.begin(), w.end());
        for (size_t i = 0; i < n; ++i)
          for (size_t c = 0; c < dv; ++c) out[(q0 + i) * b.v.cols() + h * dv + c] = o[i * dv + c];
      }
  }
  std::vector<double> out, weights;
};

inline double worst_difference(std::span<const float> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return std::numeric_limits<double>::infinity();
  Worst worst;
  for (size_t i = 0; i < actual.size(); ++i) worst.see(std::abs(actual[i] - expected[i]));
  return worst.error;
}

}  // namespace bertie::test
