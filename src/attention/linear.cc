#include "attention/linear.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "kernels/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/linear.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bertie::linear_attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE float dot(const float* a, const float* b, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// d[r] = φ(q_r)·z + Σ p[r]; p, unless empty, holds 0 beyond what a row sees.
void sum_weights(Matrix<const float> phi, const float* z, Matrix<const float> p, float* d) {
  const hn::ScalableTag<float> tag;
  for (size_t r = 0; r < phi.rows(); ++r) {
    d[r] = dot(phi.row(r), z, phi.cols());
    if (p.empty()) continue;
    auto sum = hn::Zero(tag);
    for (size_t c = 0; c < p.cols(); c += hn::Lanes(tag)) sum = hn::Add(sum, hn::LoadU(tag, p.row(r) + c));
    d[r] += hn::GetLane(hn::SumOfLanes(tag, sum));
  }
}

// n'_r from dout_r, out_r and d_r.
void numerator_gradients(Matrix<const float> d_out, Matrix<const float> out, const float* d,
                         Matrix<float> to) {
  for (size_t r = 0; r < out.rows(); ++r) {
    const size_t dv = out.cols();
    if (d[r] == 0) {
      std::fill_n(to.row(r), dv + 1, 0.0f);
      continue;
    }
    for (size_t c = 0; c < dv; ++c) to(r, c) = d_out(r, c) / d[r];
    to(r, dv) = -dot(d_out.row(r), out.row(r), dv) / d[r];
  }
}

// out_r = numerators_r/d_r. Adding 0 makes −0 and 0 alike: which one a sum of nothing much is depends on
// whether zeros were added to it.
void divide_rows(Matrix<const float> numerators, const float* d, Matrix<float> out) {
  for (size_t r = 0; r < out.rows(); ++r) {
    float* HWY_RESTRICT to = out.row(r);
    const float* HWY_RESTRICT from = numerators.row(r);
    if (d[r] == 0)
      std::fill_n(to, out.cols(), 0.0f);
    else
      for (size_t c = 0; c < out.cols(); ++c) to[c] = from[c] / d[r] + 0.0f;
  }
}

// c = a + b, n numbers; c may be a.
void add_all(const float* a, const float* b, size_t n, float* c) {
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, c + i);
  for (; i < n; ++i) c[i] = a[i] + b[i];
}

bool finite(Matrix<const float> m) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d), whole = m.cols() / lanes * lanes;
  auto zero = hn::Zero(d);  // 0·x is NaN for what is not finite
  float rest = 0;
  for (size_t r = 0; r < m.rows(); ++r) {
    for (size_t c = 0; c < whole; c += lanes)
      zero = hn::MulAdd(hn::LoadU(d, m.row(r) + c), hn::Zero(d), zero);
    for (size_t c = whole; c < m.cols(); ++c) rest += m(r, c) * 0.0f;
  }
  return hn::GetLane(hn::SumOfLanes(d, zero)) + rest == 0;
}

}  // namespace bertie::linear_attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bertie::linear_attention {

HWY_EXPORT(sum_weights);
HWY_EXPORT(divide_rows);
HWY_EXPORT(add_all);
HWY_EXPORT(numerator_gradients);
HWY_EXPORT(finite);

namespace {

using kernels::Accumulate;
using kernels::Factor;
using kernels::matmul;
using kernels::packed_floats;
using kernels::Panels;
using kernels::transposed;

constexpr size_t kBlock = 64;      // queries, or keys, at a time
constexpr size_t kSegment = 4096;  // queries, or keys, that are summed up before they are added to others
static_assert(kSegment % kBlock == 0);

struct Range {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

// One head of one sequence.
struct Head {
  Matrix<const float> q, k, v;
  bool causal;
  ptrdiff_t offset;  // query i stands at position i + offset of the keys

  size_t visible(size_t i) const {
    if (q.rows() == 0) return 0;
    return causal ? size_t(std::clamp<ptrdiff_t>(ptrdiff_t(i) + offset + 1, 0, ptrdiff_t(k.rows())))
                  : k.rows();
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
         std::max({packed_floats(r, std::max(kBlock, dv + 1)), packed_floats(kBlock, std::max(r, dv + 1)),
                   packed_floats(dv + 1, std::max(kBlock, r))}));
    take(state_panels, 1, std::max(packed_floats(dv + 1, r), packed_floats(r, dv + 1)));
    take(state_panels_too, 1, std::max(packed_floats(dv + 1, r), packed_floats(r, dv + 1)));
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

void zero(Matrix<float> m) {
  for (size_t r = 0; r < m.rows(); ++r) std::fill_n(m.row(r), m.cols(), 0.0f);
}

// c = a + b; all of them are whole.
void add(Matrix<const float> a, Matrix<const float> b, Matrix<float> c) {
  HWY_DYNAMIC_DISPATCH(add_all)(a.data(), b.data(), c.rows() * c.cols(), c.data());
}

// The work on one head, in pieces that a thread can do on its own.
class Worker {
 public:
  Worker(const Head& head, const FeatureMap& map, Scratch& scratch) : h(head), map_(map), s(scratch) {}

  // sum = Σ v'_jᵀ·φ(k_j) over the keys.
  void sum_keys(Range keys, Matrix<float> sum) {
    zero(sum);
    for (size_t j = keys.begin; j < keys.end; j += kBlock) {
      load_keys({j, std::min(j + kBlock, keys.end)});
      multiply(transposed(values_), phi_k_, sum, Accumulate::yes);
    }
  }

  // Rows of out, from the state before this segment; leaves the sum of the segment's own keys in `current`.
  void forward(Range queries, Matrix<const float> base, Matrix<float> current, Matrix<float> out) {
    zero(current);
    Panels state;
    for (size_t i = queries.begin; i < queries.end; i += kBlock) {
      const Range block{i, std::min(i + kBlock, queries.end)};
      if (i == queries.begin || keys_.size() > 0) {
        add(base, current, s.state);
        state = kernels::pack(transposed(s.state.slice_rows(0, s.dv)), s.state_panels.data(), alone_);
      }
      load_queries(block);
      load_keys({h.visible(block.begin), h.visible(block.end)});
      const Matrix<float> numerators = Matrix<float>(s.numerators.data(), block.size(), s.dv);
      matmul(phi_q_, state, numerators, alone_);
      weights(block);
      see(p_, block, values_.slice_cols(0, s.dv), numerators);
      denominators(s.state.row(s.dv), s.d.data());
      HWY_DYNAMIC_DISPATCH(divide_rows)(numerators, s.d.data(), out.slice_rows(block.begin, block.size()));
      if (keys_.size() > 0) multiply(transposed(values_), phi_k_, current, Accumulate::yes);
    }
  }

  // dq of the queries, and their denominators. `current` as in forward. Full attention: also
  // turned = Σ n'_iᵀ·φ(q_i).
  void backward_queries(Range queries, Matrix<const float> base, Matrix<float> current, Matrix<float> turned,
                        const HeadGradients& g) {
    zero(current);
    if (!h.causal) zero(turned);
    Panels state;
    for (size_t i = queries.begin; i < queries.end; i += kBlock) {
      const Range block{i, std::min(i + kBlock, queries.end)};
      if (i == queries.begin || keys_.size() > 0) {
        add(base, current, s.state);
        state = kernels::pack(s.state, s.state_panels.data(), alone_);
      }
      load_queries(block);
      load_keys({h.visible(block.begin), h.visible(block.end)});
      weights(block);
      denominators(s.state.row(s.dv), g.d + block.begin);
      load_numerator_gradients(block, g);
      const Matrix<float> d_phi = s.d_phi.slice_rows(0, block.size());
      matmul(numerators_, state, d_phi, alone_);
      weight_gradients(block);
      see(dp_, block, phi_k_, d_phi);
      map_.queries_backward(phi_q_, d_phi, g.q.slice_rows(block.begin, block.size()));
      if (keys_.size() > 0) multiply(transposed(values_), phi_k_, current, Accumulate::yes);
      if (!h.causal) multiply(transposed(numerators_), phi_q_, turned, Accumulate::yes);
    }
  }

  // Causal attention, last block first: dk and dv of the keys that came with these queries, from `base`,
  // T of all later segments. Leaves T of these queries in `current`.
  void backward_keys(Range queries, Matrix<const float> base, Matrix<float> current, const HeadGradients& g) {
    zero(current);
    const size_t blocks = (queries.size() + kBlock - 1) / kBlock;
    for (size_t b = blocks; b-- > 0;) {
      const size_t i = queries.begin + b * kBlock;
      const Range block{i, std::min(i + kBlock, queries.end)};
      load_queries(block);
      load_keys({h.visible(block.begin), h.visible(block.end)});
      load_numerator_gradients(block, g);
      if (keys_.size() > 0) {
        add(base, current, s.state);
        pack_turned();
        weights(block);
        weight_gradients(block);
        key_gradients(g, true);
      }
      multiply(transposed(numerators_), phi_q_, current, Accumulate::yes);
    }
  }

  // T of these queries as backward_keys sums it.
  void sum_queries(Range queries, Matrix<float> sum, const HeadGradients& g) {
    zero(sum);
    const size_t blocks = (queries.size() + kBlock - 1) / kBlock;
    for (size_t b = blocks; b-- > 0;) {
      const size_t i = queries.begin + b * kBlock;
      const Range block{i, std::min(i + kBlock, queries.end)};
      load_queries(block);
      load_numerator_gradients(block, g);
      multiply(transposed(numerators_), phi_q_, sum, Accumulate::yes);
    }
  }

  // dk and dv of keys that every query sees; `turned` is T of all queries.
  void backward_seen_by_all(Range keys, Matrix<const float> turned, const HeadGradients& g) {
    std::copy_n(turned.data(), turned.rows() * turned.cols(), s.state.data());
    pack_turned();
    for (size_t j = keys.begin; j < keys.end; j += kBlock) {
      load_keys({j, std::min(j + kBlock, keys.end)});
      key_gradients(g, false);
    }
  }

 private:
  void multiply(Factor a, Factor b, Matrix<float> c, Accumulate accumulate) {
    matmul(a, b, c, s.panels.data(), alone_, accumulate);
  }

  void load_queries(Range rows) {
    phi_q_ = s.phi_q.slice_rows(0, rows.size());
    map_.queries(h.q.slice_rows(rows.begin, rows.size()), phi_q_);
  }

  void load_keys(Range rows) {
    keys_ = rows;
    phi_k_ = s.phi_k.slice_rows(0, rows.size());
    values_ = s.values.slice_rows(0, rows.size());
    if (rows.size() == 0) return;
    map_.keys(h.k.slice_rows(rows.begin, rows.size()), phi_k_);
    for (size_t j = 0; j < rows.size(); ++j) {
      std::copy_n(h.v.row(rows.begin + j), s.dv, values_.row(j));
      values_(j, s.dv) = 1;
    }
  }

  void load_numerator_gradients(Range rows, const HeadGradients& g) {
    numerators_ = s.numerators.slice_rows(0, rows.size());
    HWY_DYNAMIC_DISPATCH(numerator_gradients)
    (g.d_out.slice_rows(rows.begin, rows.size()), g.out.slice_rows(rows.begin, rows.size()), g.d + rows.begin,
     numerators_);
  }

  // Of the block's keys, row r sees the first seen(block, r).
  size_t seen(Range block, size_t r) const { return h.visible(block.begin + r) - keys_.begin; }

  void mask(Range block, Matrix<float> p) {
    for (size_t r = 0; r < block.size(); ++r) std::fill(p.row(r) + seen(block, r), p.row(r) + kBlock, 0.0f);
  }

  // p = φ(Q)·φ(K)ᵀ of the block's own keys, 0 where a row does not see.
  void weights(Range block) {
    p_ = {};
    if (keys_.size() == 0) return;
    p_ = s.p.slice_rows(0, block.size());
    multiply(phi_q_, transposed(phi_k_), p_.slice_cols(0, keys_.size()), Accumulate::no);
    mask(block, p_);
  }

  void weight_gradients(Range block) {
    if (keys_.size() == 0) return;
    dp_ = s.dp.slice_rows(0, block.size());
    multiply(numerators_, transposed(values_), dp_.slice_cols(0, keys_.size()), Accumulate::no);
    mask(block, dp_);
  }

  // to += w·rows, where 0·NaN of a key that a row does not see must stay 0.
  void see(Matrix<const float> w, Range block, Matrix<const float> rows, Matrix<float> to) {
    if (keys_.size() == 0) return;
    if (HWY_DYNAMIC_DISPATCH(finite)(rows))
      return multiply(w.slice_cols(0, keys_.size()), rows, to, Accumulate::yes);
    for (size_t r = 0; r < block.size(); ++r) {
      const size_t count = seen(block, r);
      multiply(w.slice_rows(r, 1).slice_cols(0, count), rows.slice_rows(0, count), to.slice_rows(r, 1),
               Accumulate::yes);
    }
  }

  void denominators(const float* z, float* d) { HWY_DYNAMIC_DISPATCH(sum_weights)(phi_q_, z, p_, d); }

  void pack_turned() {
    turned_ = kernels::pack(s.state, s.state_panels.data(), alone_);
    turned_values_ =
        kernels::pack(transposed(s.state.slice_rows(0, s.dv)), s.state_panels_too.data(), alone_);
  }

  // From turned_, and from p_ and dp_ if the block's own queries see these keys.
  void key_gradients(const HeadGradients& g, bool own_queries) {
    const Matrix<float> d_phi = s.d_phi.slice_rows(0, keys_.size());
    const Matrix<float> dv = g.v.slice_rows(keys_.begin, keys_.size());
    matmul(values_, turned_, d_phi, alone_);
    matmul(phi_k_, turned_values_, dv, alone_);
    if (own_queries) {
      multiply(transposed(dp_.slice_cols(0, keys_.size())), phi_q_, d_phi, Accumulate::yes);
      multiply(transposed(p_.slice_cols(0, keys_.size())), numerators_.slice_cols(0, s.dv), dv,
               Accumulate::yes);
    }
    map_.keys_backward(h.k.slice_rows(keys_.begin, keys_.size()), phi_k_, d_phi,
                       g.k.slice_rows(keys_.begin, keys_.size()));
  }

  const Head& h;
  const FeatureMap& map_;
  Scratch& s;
  Team alone_;
  Range keys_{0, 0};
  Matrix<float> phi_q_, phi_k_, values_, numerators_, p_, dp_;
  Panels turned_, turned_values_;
};

// Everything a call needs, taken from the arena in one piece.
class Plan {
 public:
  Plan(const AttentionBatch& b, const Compute& compute, Workspace::Parts& parts, bool backward)
      : b_(b), team_(parts.team), scratch_(FeatureMap::size(compute, b.head_size()), b.value_size()) {
    const size_t threads = size_t(team_.threads());
    for (size_t s = 0; s < b.sequences(); ++s) {
      longest_ = std::max(longest_, b.queries(s));
      segments_ = std::max(segments_, head(s, 0).segments());
    }
    // With fewer heads than threads, segments go to different threads. It costs computing φ(K) twice.
    split = threads > 1 && segments_ > 2 && b.heads * b.sequences() < 2 * threads;
    const size_t rows = backward ? (split ? b.heads : threads) * longest_ : 0;
    const size_t sums = split ? b.heads * (segments_ + 1) * (backward ? 2 : 1) : 0;
    const size_t sum_floats = (scratch_.dv + 1) * scratch_.r;
    parts.arena.reset(FeatureMap::bytes(compute, b.head_size()) + threads * scratch_.bytes() +
                      Arena::bytes_for<float>(rows) + Arena::bytes_for<float>(sums * sum_floats));
    map_.emplace(compute, b.head_size(), b.scale, parts.arena, team_);
    memory_ = parts.arena.take<std::byte>(threads * scratch_.bytes());
    denominators_ = parts.arena.take<float>(rows);
    sums_ = parts.arena.take<float>(sums * sum_floats);
  }

  Head head(size_t s, size_t h) const {
    const size_t d = b_.head_size(), dv = b_.value_size(), n = b_.queries(s), m = b_.keys(s);
    return {.q = b_.q.slice_rows(size_t(b_.q_offsets[s]), n).slice_cols(h * d, d),
            .k = b_.k.slice_rows(size_t(b_.k_offsets[s]), m).slice_cols(h * d, d),
            .v = b_.v.slice_rows(size_t(b_.k_offsets[s]), m).slice_cols(h * dv, dv),
            .causal = b_.look.kind == Look::Kind::causal,
            .offset = b_.look.queries_at_end ? ptrdiff_t(m) - ptrdiff_t(n) : 0};
  }

  // body(sequence, head, worker) for every head of every sequence, each on one thread.
  template <class Body>
  void each_head(const Body& body) {
    team_.parallel_for(b_.sequences() * b_.heads, [&](size_t chunk, size_t thread) {
      const Head h = head(chunk / b_.heads, chunk % b_.heads);
      Scratch s = scratch(thread);
      Worker worker(h, *map_, s);
      body(chunk / b_.heads, chunk % b_.heads, h, worker, s, thread);
    });
  }

  // body(head, segment, …) for segments [first, last) of one sequence's heads, each on one thread.
  template <class Body>
  void each_segment(size_t s, Range segments, const Body& body) {
    team_.parallel_for(b_.heads * segments.size(), [&](size_t chunk, size_t thread) {
      const Head h = head(s, chunk / segments.size());
      Scratch own = scratch(thread);
      Worker worker(h, *map_, own);
      body(chunk / segments.size(), segments.begin + chunk % segments.size(), h, worker, own);
    });
  }

  // A sum of each segment, or of all before it; one more for the total. `turned`: T, else W.
  Matrix<float> sum(size_t h, size_t segment, bool turned = false) const {
    const size_t rows = scratch_.dv + 1, cols = scratch_.r;
    const size_t index = (turned ? b_.heads + h : h) * (segments_ + 1) + segment;
    return {sums_ + index * rows * cols, rows, cols};
  }
  // From each segment's sum to the sum of those before it (after it, with `last_first`).
  void sum_up(Range segments, bool turned, bool last_first) {
    team_.parallel_for(b_.heads, [&](size_t h, size_t thread) {
      Scratch own = scratch(thread);
      zero(own.base);
      for (size_t i = 0; i < segments.size(); ++i) {
        const Matrix<float> here = sum(h, last_first ? segments.end - 1 - i : segments.begin + i, turned);
        std::copy_n(own.base.data(), here.rows() * here.cols(), own.current.data());
        add(own.base, here, own.base);
        std::copy_n(own.current.data(), here.rows() * here.cols(), here.data());
      }
      std::copy_n(own.base.data(), own.base.rows() * own.base.cols(), sum(h, segments.end, turned).data());
    });
  }
  // W before every segment.
  void sum_keys(size_t s) {
    const Range all{0, head(s, 0).segments()};
    each_segment(s, all, [&](size_t h, size_t g, const Head& here, Worker& worker, Scratch&) {
      worker.sum_keys(g + 1 < all.end ? here.keys(g) : Range{0, 0}, sum(h, g));
    });
    sum_up(all, false, false);
  }

  float* denominators(size_t row_of_memory) const { return denominators_ + row_of_memory * longest_; }

  bool split = false;

 private:
  Scratch scratch(size_t thread) {
    Scratch s = scratch_;
    s.at(memory_ + thread * scratch_.bytes());
    return s;
  }

  const AttentionBatch& b_;
  Team& team_;
  Scratch scratch_;
  std::optional<FeatureMap> map_;
  size_t longest_ = 0, segments_ = 0;
  std::byte* memory_;
  float *denominators_, *sums_;
};

Matrix<float> rows_of(Matrix<float> m, std::span<const int32_t> offsets, size_t s, size_t h, size_t heads) {
  const size_t width = m.cols() / heads;
  return m.slice_rows(size_t(offsets[s]), size_t(offsets[s + 1] - offsets[s])).slice_cols(h * width, width);
}
Matrix<const float> rows_of(Matrix<const float> m, std::span<const int32_t> offsets, size_t s, size_t h,
                            size_t heads) {
  const size_t width = m.cols() / heads;
  return m.slice_rows(size_t(offsets[s]), size_t(offsets[s + 1] - offsets[s])).slice_cols(h * width, width);
}

}  // namespace

void forward(const AttentionBatch& b, const Compute& compute, Matrix<float> out, Workspace::Parts& parts) {
  Plan plan(b, compute, parts, false);
  const auto out_of = [&](size_t s, size_t h) { return rows_of(out, b.q_offsets, s, h, b.heads); };
  if (!plan.split) {
    plan.each_head([&](size_t s, size_t h, const Head& head, Worker& worker, Scratch& own, size_t) {
      zero(own.base);
      for (size_t g = 0; g < head.segments(); ++g) {
        if (g < head.key_segments())
          worker.sum_keys(head.keys(g), own.current);
        else
          worker.forward(head.queries(g), own.base, own.current, out_of(s, h));
        add(own.base, own.current, own.base);
      }
    });
    return;
  }
  for (size_t s = 0; s < b.sequences(); ++s) {
    plan.sum_keys(s);
    const Head any = plan.head(s, 0);
    plan.each_segment(s, {any.key_segments(), any.segments()},
                      [&](size_t h, size_t g, const Head& head, Worker& worker, Scratch& own) {
                        worker.forward(head.queries(g), plan.sum(h, g), own.current, out_of(s, h));
                      });
  }
}

void backward(const AttentionBatch& b, const Compute& compute, Matrix<const float> out,
              Matrix<const float> d_out, const AttentionGradients& gradients, Workspace::Parts& parts) {
  Plan plan(b, compute, parts, true);
  const auto gradients_of = [&](size_t s, size_t h, float* denominators) {
    return HeadGradients{.out = rows_of(out, b.q_offsets, s, h, b.heads),
                         .d_out = rows_of(d_out, b.q_offsets, s, h, b.heads),
                         .q = rows_of(gradients.q, b.q_offsets, s, h, b.heads),
                         .k = rows_of(gradients.k, b.k_offsets, s, h, b.heads),
                         .v = rows_of(gradients.v, b.k_offsets, s, h, b.heads),
                         .d = denominators};
  };
  const auto clear_unseen = [](const Head& head, const HeadGradients& to) {
    const size_t seen = head.visible(head.q.rows()), m = head.k.rows();
    zero(to.k.slice_rows(seen, m - seen));
    zero(to.v.slice_rows(seen, m - seen));
  };
  if (!plan.split) {
    plan.each_head([&](size_t s, size_t h, const Head& head, Worker& worker, Scratch& own, size_t thread) {
      const HeadGradients to = gradients_of(s, h, plan.denominators(thread));
      const size_t first = head.key_segments();
      zero(own.base);
      zero(own.turned);
      for (size_t g = 0; g < head.segments(); ++g) {
        if (g < first)
          worker.sum_keys(head.keys(g), own.current);
        else
          worker.backward_queries(head.queries(g), own.base, own.current, own.turned_current, to);
        add(own.base, own.current, own.base);
        if (g >= first && !head.causal) add(own.turned, own.turned_current, own.turned);
      }
      for (size_t g = head.segments(); head.causal && g-- > first;) {
        worker.backward_keys(head.queries(g), own.turned, own.turned_current, to);
        add(own.turned, own.turned_current, own.turned);
      }
      for (size_t g = 0; g < first; ++g) worker.backward_seen_by_all(head.keys(g), own.turned, to);
      clear_unseen(head, to);
    });
    return;
  }
  for (size_t s = 0; s < b.sequences(); ++s) {
    const Head any = plan.head(s, 0);
    const Range of_keys{0, any.key_segments()}, of_queries{any.key_segments(), any.segments()};
    const auto to = [&](size_t h) { return gradients_of(s, h, plan.denominators(h)); };
    plan.sum_keys(s);
    plan.each_segment(s, of_queries, [&](size_t h, size_t g, const Head& head, Worker& worker, Scratch& own) {
      worker.backward_queries(head.queries(g), plan.sum(h, g), own.current, plan.sum(h, g, true), to(h));
      if (head.causal) worker.sum_queries(head.queries(g), plan.sum(h, g, true), to(h));
    });
    plan.sum_up(of_queries, true, any.causal);
    if (any.causal)
      plan.each_segment(
          s, of_queries, [&](size_t h, size_t g, const Head& head, Worker& worker, Scratch& own) {
            worker.backward_keys(head.queries(g), plan.sum(h, g, true), own.turned_current, to(h));
          });
    plan.each_segment(s, of_keys, [&](size_t h, size_t g, const Head& head, Worker& worker, Scratch&) {
      worker.backward_seen_by_all(head.keys(g), plan.sum(h, of_queries.end, true), to(h));
    });
    for (size_t h = 0; h < b.heads; ++h) clear_unseen(plan.head(s, h), to(h));
  }
}

}  // namespace bertie::linear_attention
#endif
