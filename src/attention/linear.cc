#include "attention/linear.h"

#include <algorithm>
#include <optional>

#include "attention/linear_head.h"

namespace bertie::linear_attention {
namespace {

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

  LinearHead head(size_t s, size_t h) const {
    const size_t d = b_.head_size(), dv = b_.value_size(), n = b_.queries(s), m = b_.keys(s);
    return {.q = b_.q.slice_rows(size_t(b_.q_offsets[s]), n).slice_cols(h * d, d),
            .k = b_.k.slice_rows(size_t(b_.k_offsets[s]), m).slice_cols(h * d, d),
            .v = b_.v.slice_rows(size_t(b_.k_offsets[s]), m).slice_cols(h * dv, dv),
            .causal = b_.look.kind == Look::Kind::kCausal,
            .offset = b_.look.queries_at_end ? ptrdiff_t(m) - ptrdiff_t(n) : 0};
  }

  // body(sequence, head, worker) for every head of every sequence, each on one thread.
  template <class Body>
  void each_head(const Body& body) {
    team_.parallel_for(b_.sequences() * b_.heads, [&](size_t chunk, size_t thread) {
      const LinearHead h = head(chunk / b_.heads, chunk % b_.heads);
      Scratch s = scratch(thread);
      Worker worker(h, *map_, s);
      body(chunk / b_.heads, chunk % b_.heads, h, worker, s, thread);
    });
  }

  // body(head, segment, …) for segments [first, last) of one sequence's heads, each on one thread.
  template <class Body>
  void each_segment(size_t s, Range segments, const Body& body) {
    team_.parallel_for(b_.heads * segments.size(), [&](size_t chunk, size_t thread) {
      const LinearHead h = head(s, chunk / segments.size());
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
    each_segment(s, all, [&](size_t h, size_t g, const LinearHead& here, Worker& worker, Scratch&) {
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
    plan.each_head([&](size_t s, size_t h, const LinearHead& head, Worker& worker, Scratch& own, size_t) {
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
    const LinearHead any = plan.head(s, 0);
    plan.each_segment(s, {any.key_segments(), any.segments()},
                      [&](size_t h, size_t g, const LinearHead& head, Worker& worker, Scratch& own) {
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
  const auto clear_unseen = [](const LinearHead& head, const HeadGradients& to) {
    const size_t seen = head.visible(head.q.rows()), m = head.k.rows();
    zero(to.k.slice_rows(seen, m - seen));
    zero(to.v.slice_rows(seen, m - seen));
  };
  if (!plan.split) {
    plan.each_head(
        [&](size_t s, size_t h, const LinearHead& head, Worker& worker, Scratch& own, size_t thread) {
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
    const LinearHead any = plan.head(s, 0);
    const Range of_keys{0, any.key_segments()}, of_queries{any.key_segments(), any.segments()};
    const auto to = [&](size_t h) { return gradients_of(s, h, plan.denominators(h)); };
    plan.sum_keys(s);
    plan.each_segment(
        s, of_queries, [&](size_t h, size_t g, const LinearHead& head, Worker& worker, Scratch& own) {
          worker.backward_queries(head.queries(g), plan.sum(h, g), own.current, plan.sum(h, g, true), to(h));
          if (head.causal) worker.sum_queries(head.queries(g), plan.sum(h, g, true), to(h));
        });
    plan.sum_up(of_queries, true, any.causal);
    if (any.causal)
      plan.each_segment(
          s, of_queries, [&](size_t h, size_t g, const LinearHead& head, Worker& worker, Scratch& own) {
            worker.backward_keys(head.queries(g), plan.sum(h, g, true), own.turned_current, to(h));
          });
    plan.each_segment(s, of_keys, [&](size_t h, size_t g, const LinearHead& head, Worker& worker, Scratch&) {
      worker.backward_seen_by_all(head.keys(g), plan.sum(h, of_queries.end, true), to(h));
    });
    for (size_t h = 0; h < b.heads; ++h) clear_unseen(plan.head(s, h), to(h));
  }
}

}  // namespace bertie::linear_attention
