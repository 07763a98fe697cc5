#pragma once
// Every mechanism on random packed batches, by the public functions and by the reference in double.
#include <gtest/gtest.h>

#include <cctype>
#include <deque>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "attention/features.h"
#include "attention/reference_batch.h"
#include "bertie/attention.h"
#include "support/numbers.h"

namespace bertie::test {

struct MechanismShape {
  std::string name;
  std::vector<int32_t> queries, keys;  // lengths, one of each for every sequence
  size_t heads, d, dv;
};

// Inputs of one call, and all that its options look at.
struct MechanismCase {
  MechanismCase(const MechanismShape& s, uint64_t seed_) : shape(s), seed(seed_) {
    for (const auto& [lengths, offsets] : {std::pair(&s.queries, &q_offsets), {&s.keys, &k_offsets}})
      for (int32_t n : *lengths) offsets->push_back(offsets->back() + n);
    longest_keys = s.keys.empty() ? 0 : size_t(*std::max_element(s.keys.begin(), s.keys.end()));
    options.heads = s.heads;
    options.q_offsets = q_offsets, options.k_offsets = k_offsets;
    dk = s.d;
  }
  MechanismCase(const MechanismCase&) = delete;  // options look into it

  Matrix<const float> random(size_t rows, size_t cols, float size = 1) {
    const auto& x = floats.emplace_back(random_floats(rows * cols, seed++, -size, size));
    return {x.data(), rows, cols};
  }
  // After the options have said what they need.
  void draw_inputs() {
    const size_t tq = size_t(q_offsets.back()), tk = size_t(k_offsets.back()), h = shape.heads;
    q = random(tq, h * shape.d, 2), k = random(tk, h * dk, 2), v = random(tk, h * shape.dv);
    d_out = random(tq, h * shape.dv);
  }
  ReferenceBatch::Omega omega() const {
    return [this](size_t) {
      std::vector<float> w(options.compute.features * shape.d);
      orthogonal_features(options.compute.features, shape.d, options.compute.seed,
                          {w.data(), options.compute.features, shape.d});
      return double_table(Matrix<const float>(w.data(), options.compute.features, shape.d));
    };
  }

  MechanismShape shape;
  uint64_t seed;
  std::vector<int32_t> q_offsets{0}, k_offsets{0};
  size_t dk, longest_keys;
  AttentionOptions options;
  Matrix<const float> q, k, v, d_out;
  std::deque<std::vector<float>> floats;
  std::deque<std::vector<uint8_t>> bytes;
  std::vector<int32_t> global;
};

struct Mechanism {
  std::string name;
  std::function<void(MechanismCase&)> set;
  bool exact = true;  // the weights of an approximation are not those of the formula
};

inline const std::vector<MechanismShape>& mechanism_shapes() {
  static const std::vector<MechanismShape> shapes{
      {"self", {5, 0, 1, 9, 40}, {5, 0, 1, 9, 40}, 2, 8, 8},
      {"cross", {3, 70, 0, 1, 2}, {50, 1, 4, 0, 33}, 3, 5, 7},
      {"one of each", {1}, {1}, 1, 1, 1},
      {"nothing", {0}, {0}, 1, 4, 4},
      {"wide values, more keys than a block", {37}, {600}, 1, 8, 40},
      {"more queries than a group", {1100}, {33}, 1, 4, 4},
      {"head of 64", {150}, {150}, 2, 64, 64},
  };
  return shapes;
}

inline const std::vector<Mechanism>& mechanisms() {
  using Case = MechanismCase;
  static const float spans[] = {0.4f, 7.5f, 40.25f};
  static const auto at_end = [](Look look) {
    look.queries_at_end = true;
    return look;
  };
  static const auto looking = [](Look look, Dropout dropout = {}) {
    return [=](Case& c) { c.options.look = look, c.options.dropout = dropout; };
  };
  static const auto computing = [](Compute compute, Look look = {}) {
    return [=](Case& c) { c.options.look = look, c.options.compute = compute; };
  };
  static const auto general = [](Case& c) {
    c.dk = c.shape.d + 3;
    // 1/√D, so that scores are of one size for all shapes: a score of 200 is known to 10⁻⁵ in float.
    c.options.score =
        Score::general(c.random(c.shape.heads * c.shape.d, c.dk, 1 / std::sqrt(float(c.shape.d))));
  };
  static const auto additive = [](Case& c) {
    const size_t a = 6, h = c.shape.heads;
    c.dk = c.shape.d + 1;
    const auto w1 = c.random(h * a, c.shape.d), w2 = c.random(h * a, c.dk), v = c.random(h, a, 2);
    c.options.score = Score::additive(w1, w2, v);
  };
  // A tenth of all pairs; every seventh query sees nothing.
  static const auto mask = [](Case& c) {
    const size_t rows = size_t(c.q_offsets.back()), cols = c.longest_keys;
    const auto numbers = random_floats(rows * cols, c.seed++, 0, 1);
    auto& allowed = c.bytes.emplace_back(rows * cols);
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = numbers[i] < 0.1f && i / cols % 7 != 3 ? 3 : 0;
    c.options.look = Look::mask({allowed.data(), rows, cols});
  };
  // The first key, one in the middle of the shortest sequence, and one that this sequence does not have.
  static const auto window_and_global = [](Case& c) {
    int32_t shortest = 1000;
    for (int32_t m : c.shape.keys)
      if (m > 0) shortest = std::min(shortest, m);
    c.global = shortest > 2 ? std::vector<int32_t>{0, shortest / 2, shortest + 1} : std::vector<int32_t>{0};
    c.options.look = Look::window_and_global(2, c.global);
  };
  static const auto span = [](float ramp, bool both_sides, bool ends) {
    return [=](Case& c) {
      c.options.look = Look::adaptive_span(std::span(spans).first(c.shape.heads), ramp, both_sides);
      c.options.look.queries_at_end = ends;
    };
  };
  static const Dropout some{.rate = 0.2f, .seed = 12345678901ull};
  static const BigBird blocks{.block = 8, .window = 3, .global = 1, .random = 2, .seed = 9};
  static const std::vector<Mechanism> all{
      {"scaled dot product", [](Case&) {}},
      {"dot product", [](Case& c) { c.options.score = Score::dot(); }},
      {"scale of one's own", [](Case& c) { c.options.score = Score::scaled_by(0.3f); }},
      {"general", general},
      {"additive", additive},
      {"causal", looking(Look::causal())},
      {"causal at the end", looking(at_end(Look::causal()))},
      {"window", looking(Look::window(3, 1))},
      {"window at the end", looking(at_end(Look::window(20)))},
      {"window and global", window_and_global},
      {"BigBird", looking(Look::big_bird(blocks))},
      {"BigBird at the end", looking(at_end(Look::big_bird(blocks)))},
      {"strided", looking(Look::strided(6))},
      {"fixed", looking(Look::fixed(6, 2))},
      {"mask", mask},
      {"adaptive span", span(3.5f, false, false)},
      {"adaptive span, both sides, at the end", span(16, true, true)},
      {"dropout", looking(Look::full(), some)},
      {"dropout, causal", looking(Look::causal(), some)},
      {"dropout, adaptive span, general",
       [](Case& c) { general(c), span(9, true, false)(c), c.options.dropout = some; }},
      {"dropout, mask, additive", [](Case& c) { additive(c), mask(c), c.options.dropout = some; }},
      {"additive, window", [](Case& c) { additive(c), c.options.look = Look::window(5); }},
      {"linear", computing(Compute::linear()), false},
      {"linear, causal", computing(Compute::linear(), Look::causal()), false},
      {"linear, causal at the end", computing(Compute::linear(), at_end(Look::causal())), false},
      {"Performer", computing(Compute::performer({.features = 40, .seed = 3})), false},
      {"Performer, causal", computing(Compute::performer({.features = 40, .seed = 3}), Look::causal()),
       false},
      {"Performer, causal at the end",
       computing(Compute::performer({.features = 40, .seed = 3}), at_end(Look::causal())), false},
      {"Linformer",
       [](Case& c) {
         const auto e = c.random(7, c.longest_keys + 2, 0.3f), f = c.random(7, c.longest_keys + 2, 0.3f);
         c.options.compute = Compute::linformer(e, f);
       },
       false},
      {"Nystrom", computing(Compute::nystrom({.landmarks = 8})), false},
      {"Nystrom, 2 iterations", computing(Compute::nystrom({.landmarks = 5, .iterations = 2})), false},
  };
  return all;
}

// "causal at the end" as a test is called: CausalAtTheEnd.
inline std::string test_name(const std::string& words) {
  std::string name;
  bool up = true;
  for (char x : words) {
    const bool letter = std::isalnum(static_cast<unsigned char>(x)) != 0;
    if (letter) name += up ? char(std::toupper(x)) : x;
    up = !letter;
  }
  return name;
}

// Gradients by attention_backward, in memory of their own. Parameter gradients begin at `begin`, to see that
// they are added to.
struct FastGradients {
  explicit FastGradients(const MechanismCase& c, float begin = 0) {
    const auto like = [](Matrix<const float> m, float x) {
      return std::vector<float>(m.rows() * m.cols(), x);
    };
    const AttentionOptions& o = c.options;
    q = like(c.q, kNaN), k = like(c.k, kNaN), v = like(c.v, kNaN);
    w = like(o.score.w, begin), w1 = like(o.score.w1, begin), w2 = like(o.score.w2, begin);
    additive_v = like(o.score.v, begin), e = like(o.compute.e, begin), f = like(o.compute.f, begin);
    spans.assign(o.look.spans.size(), begin);
  }
  AttentionGradients views(const MechanismCase& c) {
    const auto as = [](std::vector<float>& x, Matrix<const float> m) {
      return x.empty() ? Matrix<float>() : Matrix<float>(x.data(), m.rows(), m.cols());
    };
    const AttentionOptions& o = c.options;
    return {.q = {q.data(), c.q.rows(), c.q.cols()},
            .k = {k.data(), c.k.rows(), c.k.cols()},
            .v = {v.data(), c.v.rows(), c.v.cols()},
            .w = as(w, o.score.w),
            .w1 = as(w1, o.score.w1),
            .w2 = as(w2, o.score.w2),
            .additive_v = as(additive_v, o.score.v),
            .spans = spans,
            .e = as(e, o.compute.e),
            .f = as(f, o.compute.f)};
  }
  std::vector<std::pair<const char*, const std::vector<float>*>> all() const {
    return {{"q", &q},
            {"k", &k},
            {"v", &v},
            {"w", &w},
            {"w1", &w1},
            {"w2", &w2},
            {"additive_v", &additive_v},
            {"spans", &spans},
            {"e", &e},
            {"f", &f}};
  }
  std::vector<float> q, k, v, w, w1, w2, additive_v, spans, e, f;
};

inline std::vector<std::pair<const char*, std::vector<double>>> all_of(const ReferenceGradients& g) {
  return {{"q", numbers_of(g.q)},
          {"k", numbers_of(g.k)},
          {"v", numbers_of(g.v)},
          {"w", numbers_of(g.w)},
          {"w1", numbers_of(g.w1)},
          {"w2", numbers_of(g.w2)},
          {"additive_v", numbers_of(g.additive_v)},
          {"spans", numbers_of(g.spans)},
          {"e", numbers_of(g.e)},
          {"f", numbers_of(g.f)}};
}

// One call forward, with what backward needs, and backward.
struct FastRun {
  FastRun(const MechanismCase& c, Workspace* workspace, float begin = 0)
      : out(c.q.rows() * c.v.cols(), kNaN), gradients(c, begin) {
    AttentionOptions options = c.options;
    options.workspace = workspace;
    const Matrix<float> o(out.data(), c.q.rows(), c.v.cols());
    attention(c.q, c.k, c.v, o, saved, options);
    attention_backward(c.q, c.k, c.v, o, saved, c.d_out, gradients.views(c), options);
  }
  std::vector<float> out;
  AttentionSaved saved;
  FastGradients gradients;
};

}  // namespace bertie::test
