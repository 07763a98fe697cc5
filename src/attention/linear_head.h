#pragma once
// Linear-time attention of one head (linear.h has the equations), in pieces that a thread can do on its own.
#include <algorithm>
#include <cstddef>

#include "attention/features.h"
#include "bertie/view.h"
#include "core/arena.h"
#include "core/parallel.h"
#include "kernels/matmul.h"

namespace bertie::linear_attention {

inline constexpr size_t kBlock = 64;      // queries, or keys, at a time
inline constexpr size_t kSegment = 4096;  // and those whose sum is added to others as one
static_assert(kSegment % kBlock == 0);

struct Range {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

// One head of one sequence.
struct LinearHead {
  Matrix<const float> q, k, v;
  bool causal;
  ptrdiff_t offset;  // query i stands at position i + offset of the keys

  // How many keys query i sees; of i = n, the end of the queries, what the last one sees.
  size_t visible(size_t i) const {
    if (q.rows() == 0) return 0;
    const auto at = ptrdiff_t(std::min(i, q.rows() - 1));
    return causal ? size_t(std::clamp<ptrdiff_t>(at + offset + 1, 0, ptrdiff_t(k.rows()))) : k.rows();
  }
  // Segments: first of the keys that every query sees, then of queries, each with the keys it adds.
  size_t key_segments() const { return (visible(0) + kSegment - 1) / kSegment; }
  size_t query_segments() const { return (q.rows() + kSegment - 1) / kSegment; }
  size_t segments() const { return key_segments() + query_segments(); }
  Range queries(size_t g) const {
    const size_t before = key_segments();
    if (g < before) return {0, 0};
    return {(g - before) * kSegment, std::min((g - before + 1) * kSegment, q.rows())};
  }
  Range keys(size_t g) const {
    if (g < key_segments()) return {g * kSegment, std::min((g + 1) * kSegment, visible(0))};
    return {visible(queries(g).begin), visible(queries(g).end)};
  }
};

struct HeadGradients {
  Matrix<const float> out, d_out;
  Matrix<float> q, k, v;
  float* d;  // (n): denominators, from queries to keys
};

// A worker's scratch, by name. Sizes come first; at() gives them memory.
struct Scratch {
  Scratch(size_t features, size_t value_size) : r(features), dv(value_size) {}

  template <class Take>
  void each(Take take) {
    take(values, kBlock, dv + 1);
    take(numerators, kBlock, dv + 1);
    take(phi_q, kBlock, r);
    take(phi_k, kBlock, r);
    take(d_phi, kBlock, r);
    take(p, kBlock, kBlock);
    take(dp, kBlock, kBlock);
    take(base, dv + 1, r);
    take(current, dv + 1, r);
    take(state, dv + 1, r);
    take(turned, dv + 1, r);
    take(turned_current, dv + 1, r);
    take(d, 1, kBlock);
    take(panels, 1,
         std::max({kernels::packed_floats(r, std::max(kBlock, dv + 1)),
                   kernels::packed_floats(kBlock, std::max(r, dv + 1)),
                   kernels::packed_floats(dv + 1, std::max(kBlock, r))}));
    take(state_panels, 1, std::max(kernels::packed_floats(dv + 1, r), kernels::packed_floats(r, dv + 1)));
    take(state_panels_too, 1, std::max(kernels::packed_floats(dv + 1, r), kernels::packed_floats(r, dv + 1)));
  }
  size_t bytes() {
    size_t total = 0;
    each([&](Matrix<float>&, size_t rows, size_t cols) { total += Arena::bytes_for<float>(rows * cols); });
    return total;
  }
  void at(std::byte* memory) {
    each([&](Matrix<float>& m, size_t rows, size_t cols) {
      m = {reinterpret_cast<float*>(memory), rows, cols};
      memory += Arena::bytes_for<float>(rows * cols);
    });
  }

  size_t r, dv;
  Matrix<float> values;                  // v' of a block of keys
  Matrix<float> numerators;              // out·d of a block of queries, or n'
  Matrix<float> phi_q, phi_k, d_phi;     // of a block
  Matrix<float> p, dp;                   // of a block of queries and the keys that only some of them see
  Matrix<float> base, current, state;    // sums of whole segments, of this one, and both
  Matrix<float> turned, turned_current;  // T likewise
  Matrix<float> d;
  Matrix<float> panels, state_panels, state_panels_too;
};

void zero(Matrix<float> m);
// c = a + b; all of them are whole, and c may be a.
void add(Matrix<const float> a, Matrix<const float> b, Matrix<float> c);

// The work on one head, in pieces that a thread can do on its own.
class Worker {
 public:
  Worker(const LinearHead& head, const FeatureMap& map, Scratch& scratch)
      : head_(head), map_(map), s_(scratch) {}

  // sum = Σ v'_jᵀ·φ(k_j) over the keys.
  void sum_keys(Range keys, Matrix<float> sum);

  // Rows of out, from the state before this segment; leaves the sum of the segment's own keys in `current`.
  void forward(Range queries, Matrix<const float> base, Matrix<float> current, Matrix<float> out);

  // dq of the queries, and their denominators. `current` as in forward. Full attention: also
  // turned = Σ n'_iᵀ·φ(q_i).
  void backward_queries(Range queries, Matrix<const float> base, Matrix<float> current, Matrix<float> turned,
                        const HeadGradients& g);

  // Causal attention, last block first: dk and dv of the keys that came with these queries, from `base`,
  // T of all later segments. Leaves T of these queries in `current`.
  void backward_keys(Range queries, Matrix<const float> base, Matrix<float> current, const HeadGradients& g);

  // T of these queries as backward_keys sums it.
  void sum_queries(Range queries, Matrix<float> sum, const HeadGradients& g);

  // dk and dv of keys that every query sees; `turned` is T of all queries.
  void backward_seen_by_all(Range keys, Matrix<const float> turned, const HeadGradients& g);

 private:
  void multiply(kernels::Factor a, kernels::Factor b, Matrix<float> c, kernels::Accumulate accumulate);
  void load_queries(Range rows);
  void load_keys(Range rows);
  void load_numerator_gradients(Range rows, const HeadGradients& g);
  // Of the block's keys, row r sees the first seen(block, r).
  size_t seen(Range block, size_t r) const { return head_.visible(block.begin + r) - keys_.begin; }

  void mask(Range block, Matrix<float> p);
  // p = φ(Q)·φ(K)ᵀ of the block's own keys, 0 where a row does not see.
  void weights(Range block);
  void weight_gradients(Range block);
  // to += w·rows, where 0·NaN of a key that a row does not see must stay 0.
  void see(Matrix<const float> w, Range block, Matrix<const float> rows, Matrix<float> to);
  void denominators(const float* z, float* d);
  void pack_turned();
  // From turned_, and from p_ and dp_ if the block's own queries see these keys.
  void key_gradients(const HeadGradients& g, bool own_queries);

  const LinearHead& head_;
  const FeatureMap& map_;
  Scratch& s_;
  Team alone_;
  Range keys_{0, 0};
  Matrix<float> phi_q_, phi_k_, values_, numerators_, p_, dp_;
  kernels::Panels turned_, turned_values_;
};

}  // namespace bertie::linear_attention
