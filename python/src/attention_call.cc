// bertie/attention.h on arrays: Look, Compute and Score own what they look at, and the call is forward and
// back.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bertie/attention.h"
#include "calls.h"
#include "module.h"
#include "result_class.h"

namespace bertie::python {
namespace {

using Numbers1 = Numbers<float, 1>;
using Numbers2 = Numbers<float, 2>;

// The library's structs hold views; these hold the arrays too.
struct HeldLook {
  Look look;
  std::vector<int32_t> global = {};
  std::optional<Numbers<uint8_t, 2>> allowed = {};
  std::optional<Numbers1> spans = {};

  Look get() const {
    Look made = look;
    made.global = global;
    if (allowed) made.allowed = {allowed->data(), allowed->shape(0), allowed->shape(1)};
    if (spans) made.spans = {spans->data(), spans->shape(0)};
    return made;
  }
};
struct HeldCompute {
  Compute compute;
  std::optional<Numbers2> e = {}, f = {};

  Compute get() const {
    Compute made = compute;
    if (e) made.e = matrix_of(*e);
    if (f) made.f = matrix_of(*f);
    return made;
  }
};
struct HeldScore {
  Score score;
  std::optional<Numbers2> w = {}, w1 = {}, w2 = {}, v = {};

  Score get() const {
    Score made = score;
    if (w) made.w = matrix_of(*w);
    if (w1) made.w1 = matrix_of(*w1);
    if (w2) made.w2 = matrix_of(*w2);
    if (v) made.v = matrix_of(*v);
    return made;
  }
};

// Workspaces that wait for a call, by their threads: one call has one at a time.
class Workspaces {
 public:
  std::unique_ptr<Workspace> take(int threads) {
    std::lock_guard lock(mutex_);
    auto& idle = idle_[threads];
    if (idle.empty()) return std::make_unique<Workspace>(threads);
    auto last = std::move(idle.back());
    idle.pop_back();
    return last;
  }
  void give(int threads, std::unique_ptr<Workspace> workspace) {
    std::lock_guard lock(mutex_);
    idle_[threads].push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<Workspace>>> idle_;
};
// Never destroyed: its threads may not be joined while a process that was forked or is ending unloads things.
Workspaces& workspaces() {
  static auto* all = new Workspaces;
  return *all;
}

class WorkspaceLease {
 public:
  explicit WorkspaceLease(int threads) : threads_(threads), workspace_(workspaces().take(threads)) {}
  ~WorkspaceLease() { workspaces().give(threads_, std::move(workspace_)); }
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;
  Workspace* get() const { return workspace_.get(); }

 private:
  int threads_;
  std::unique_ptr<Workspace> workspace_;
};

// How to score, where to look, how to compute, and on which rows: what forward and backward have in common.
struct CallOptions {
  size_t heads = 1;
  HeldScore score;
  HeldLook look;
  HeldCompute compute;
  Dropout dropout;
  std::vector<int32_t> q_offsets, k_offsets;
  int threads = 1;

  AttentionOptions get(Workspace* workspace) const {
    return {.heads = heads,
            .score = score.get(),
            .look = look.get(),
            .compute = compute.get(),
            .dropout = dropout,
            .q_offsets = q_offsets,
            .k_offsets = k_offsets,
            .workspace = workspace};
  }
};

// Σₛ H·n·m: the weights of all sequences.
size_t weights_of(const CallOptions& options, size_t queries, size_t keys) {
  if (options.q_offsets.empty()) return options.heads * queries * keys;
  const auto& q = options.q_offsets;
  const auto& k = options.k_offsets.empty() ? q : options.k_offsets;
  size_t all = 0;
  for (size_t s = 0; s + 1 < std::min(q.size(), k.size()); ++s)
    all += options.heads * size_t(std::max(q[s + 1] - q[s], 0)) * size_t(std::max(k[s + 1] - k[s], 0));
  return all;
}

nb::tuple forward(const Numbers2& q, const Numbers2& k, const Numbers2& v, const CallOptions& options,
                  bool want_weights, bool keep) {
  const size_t rows = q.shape(0), width = v.shape(1);
  Memory<float> out(rows * width);
  const Matrix<float> to(out.data(), rows, width);
  std::vector<float> weights;
  AttentionSaved saved;
  {
    nb::gil_scoped_release free;
    WorkspaceLease workspace(options.threads);
    const AttentionOptions how = options.get(workspace.get());
    if (want_weights) {
      weights.resize(weights_of(options, rows, k.shape(0)));
      attention(matrix_of(q), matrix_of(k), matrix_of(v), to, weights, how);
    }
    if (keep)
      attention(matrix_of(q), matrix_of(k), matrix_of(v), to, saved, how);
    else if (!want_weights)
      attention(matrix_of(q), matrix_of(k), matrix_of(v), to, how);
  }
  nb::object all_weights = want_weights ? nb::cast(array_of(std::move(weights))) : nb::none();
  return nb::make_tuple(out.release({rows, width}), all_weights, array_of(std::move(saved.log_sums)));
}

// A gradient of the shape of `of`, zero to begin with; where there is no such parameter it stays empty.
struct Gradient {
  explicit Gradient(const std::optional<Numbers2>& of)
      : rows(of ? of->shape(0) : 0), cols(of ? of->shape(1) : 0), values(rows * cols) {}
  Matrix<float> get() { return values.empty() ? Matrix<float>() : Matrix<float>(values.data(), rows, cols); }

  size_t rows, cols;
  std::vector<float> values;
};

nb::dict backward(const Numbers2& q, const Numbers2& k, const Numbers2& v, const Numbers2& out,
                  const Numbers1& log_sums, const Numbers2& d_out, const CallOptions& options) {
  Gradient dq(q), dk(k), dv(v), dw(options.score.w), dw1(options.score.w1), dw2(options.score.w2),
      additive(options.score.v), de(options.compute.e), df(options.compute.f);
  std::vector<float> spans(options.look.spans ? options.look.spans->shape(0) : 0);
  {
    nb::gil_scoped_release free;
    WorkspaceLease workspace(options.threads);
    const AttentionSaved saved{{log_sums.data(), log_sums.data() + log_sums.shape(0)}};
    attention_backward(matrix_of(q), matrix_of(k), matrix_of(v), matrix_of(out), saved, matrix_of(d_out),
                       {.q = dq.get(),
                        .k = dk.get(),
                        .v = dv.get(),
                        .w = dw.get(),
                        .w1 = dw1.get(),
                        .w2 = dw2.get(),
                        .additive_v = additive.get(),
                        .spans = spans,
                        .e = de.get(),
                        .f = df.get()},
                       options.get(workspace.get()));
  }
  nb::dict gradients;
  const auto add = [&](const char* name, Gradient& gradient, bool there = true) {
    if (there) gradients[name] = array_of(std::move(gradient.values), {gradient.rows, gradient.cols});
  };
  add("q", dq);
  add("k", dk);
  add("v", dv);
  add("w", dw, options.score.w.has_value());
  add("w1", dw1, options.score.w1.has_value());
  add("w2", dw2, options.score.w2.has_value());
  add("additive_v", additive, options.score.v.has_value());
  add("e", de, options.compute.e.has_value());
  add("f", df, options.compute.f.has_value());
  if (options.look.spans) gradients["spans"] = array_of(std::move(spans));
  return gradients;
}

void bind_look(nb::module_& m) {
  const auto at_end = nb::arg("queries_at_end") = false;
  const auto placed = [](Look look, bool queries_at_end) {
    look.queries_at_end = queries_at_end;
    return look;
  };
  nb::class_<HeldLook>(m, "Look", "Where to look: which keys a query sees.")
      .def_static("full", [] { return HeldLook{Look::full()}; })
      .def_static(
          "causal", [placed](bool end) { return HeldLook{placed(Look::causal(), end)}; }, at_end,
          "Keys up to the query's own.")
      .def_static(
          "window",
          [placed](size_t before, std::optional<size_t> after, bool end) {
            return HeldLook{placed(Look::window(before, after.value_or(before)), end)};
          },
          nb::arg("before"), nb::arg("after") = nb::none(), at_end,
          "So many keys before the query and after it; given one number, on both sides.")
      .def_static(
          "window_and_global",
          [placed](size_t around, const std::vector<int32_t>& global, bool end) {
            return HeldLook{placed(Look::window_and_global(around, {}), end), global};
          },
          nb::arg("around"), nb::arg("global_tokens"), at_end,
          "Longformer: a window, and tokens that see everything and are seen by everyone.")
      .def_static(
          "big_bird",
          [placed](size_t block, size_t window, size_t global, size_t random, uint64_t seed, bool end) {
            return HeldLook{placed(Look::big_bird({block, window, global, random, seed}), end)};
          },
          nb::arg("block") = 64, nb::arg("window") = 3, nb::arg("global_blocks") = 1, nb::arg("random") = 3,
          nb::arg("seed") = 0, at_end)
      .def_static(
          "strided",
          [placed](size_t stride, bool end) { return HeldLook{placed(Look::strided(stride), end)}; },
          nb::arg("stride"), at_end)
      .def_static(
          "fixed",
          [placed](size_t stride, size_t summary, bool end) {
            return HeldLook{placed(Look::fixed(stride, summary), end)};
          },
          nb::arg("stride"), nb::arg("summary") = 1, at_end)
      .def_static(
          "mask",
          [](const Numbers<uint8_t, 2>& allowed) {
            return HeldLook{.look = Look::mask({}), .allowed = allowed};
          },
          nb::arg("allowed"), "(queries, keys): not 0 where a query sees a key.")
      .def_static(
          "adaptive_span",
          [placed](const Numbers1& spans, float ramp, bool both_sides, bool end) {
            return HeldLook{.look = placed(Look::adaptive_span({}, ramp, both_sides), end), .spans = spans};
          },
          nb::arg("spans"), nb::arg("ramp"), nb::arg("both_sides") = false, at_end,
          "Spans that are learned, one for each head.");
}

void bind_compute(nb::module_& m) {
  nb::class_<HeldCompute>(m, "Compute", "How to compute.")
      .def_static("softmax", [] { return HeldCompute{Compute::softmax()}; })
      .def_static("linear", [] { return HeldCompute{Compute::linear()}; })
      .def_static(
          "performer",
          [](size_t features, uint64_t seed) {
            return HeldCompute{Compute::performer({.features = features, .seed = seed})};
          },
          nb::arg("features") = 256, nb::arg("seed") = 0)
      .def_static(
          "linformer",
          [](const Numbers2& e, const Numbers2& f) {
            return HeldCompute{Compute::linformer({}, {}), e, f};
          },
          nb::arg("e"), nb::arg("f"))
      .def_static(
          "nystrom",
          [](size_t landmarks, size_t iterations) {
            return HeldCompute{Compute::nystrom({.landmarks = landmarks, .iterations = iterations})};
          },
          nb::arg("landmarks") = 64, nb::arg("iterations") = 6);
}

void bind_score(nb::module_& m) {
  nb::class_<HeldScore>(m, "Score", "How to score: how well a query and a key agree.")
      .def_static(
          "scaled_dot", [] { return HeldScore{Score::scaled_dot()}; }, "q·k/√D")
      .def_static(
          "scaled_by", [](float scale) { return HeldScore{Score::scaled_by(scale)}; }, nb::arg("scale"))
      .def_static(
          "dot", [] { return HeldScore{Score::dot()}; }, "q·k")
      .def_static(
          "general", [](const Numbers2& w) { return HeldScore{.score = Score::general({}), .w = w}; },
          nb::arg("w"), "qᵀ·W·k; w (H·D, Dk).")
      .def_static(
          "additive",
          [](const Numbers2& w1, const Numbers2& w2, const Numbers2& v) {
            return HeldScore{.score = Score::additive({}, {}, {}), .w1 = w1, .w2 = w2, .v = v};
          },
          nb::arg("w1"), nb::arg("w2"), nb::arg("v"),
          "vᵀ·tanh(W₁·q + W₂·k); w1 (H·A, D), w2 (H·A, Dk), v (H, A).");
}

}  // namespace

void bind_attention_call(nb::module_& m) {
  bind_look(m);
  bind_compute(m);
  bind_score(m);
  nb::class_<CallOptions>(m, "AttentionCall",
                          "What a forward and a backward pass of attention have in common.")
      .def(
          "__init__",
          [](CallOptions* self, size_t heads, const HeldScore& score, const HeldLook& look,
             const HeldCompute& compute, float dropout, uint64_t seed, const std::vector<int32_t>& q_offsets,
             const std::vector<int32_t>& k_offsets, int threads) {
            new (self)
                CallOptions{heads, score, look, compute, {dropout, seed}, q_offsets, k_offsets, threads};
          },
          nb::arg("heads"), nb::arg("score"), nb::arg("look"), nb::arg("compute"), nb::arg("dropout"),
          nb::arg("seed"), nb::arg("q_offsets"), nb::arg("k_offsets"), nb::arg("threads"))
      .def(
          "forward",
          [](const CallOptions& self, const Numbers2& q, const Numbers2& k, const Numbers2& v, bool weights,
             bool keep) { return forward(q, k, v, self, weights, keep); },
          nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("weights") = false, nb::arg("keep") = false,
          "The output; the weights, if wanted; and what the backward pass needs, if that is to be kept.")
      .def(
          "backward",
          [](const CallOptions& self, const Numbers2& q, const Numbers2& k, const Numbers2& v,
             const Numbers2& out, const Numbers1& log_sums,
             const Numbers2& d_out) { return backward(q, k, v, out, log_sums, d_out, self); },
          nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"), nb::arg("log_sums"), nb::arg("d_out"),
          nb::sig("def backward(self, q, k, v, out, log_sums, d_out) -> dict[str, numpy.typing.NDArray]"));
}

}  // namespace bertie::python
