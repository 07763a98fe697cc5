// Every mechanism by the public functions, against the reference in double; on every instruction set.
#include <gtest/gtest.h>

#include "attention/mechanism_cases.h"
#include "support/targets.h"

namespace bertie {
namespace {

using test::double_table;
using test::FastRun;
using test::Mechanism;
using test::MechanismCase;
using test::MechanismShape;
using test::relative_error;
using test::Table;

constexpr double kForward = 1e-5;   // of the largest output
constexpr double kBackward = 1e-4;  // of the largest entry of the gradient

double largest(std::span<const double> x) {
  double most = 0;
  for (double a : x) most = std::max(most, std::abs(a));
  return most;
}

double worst(std::span<const float> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return test::kInf;
  test::Worst w;
  for (size_t i = 0; i < actual.size(); ++i) w.see(std::abs(double(actual[i]) - expected[i]));
  return std::isnan(w.error) ? test::kInf : w.error;
}

// Σ_j weights(i, j)·v_j, in the layout of out.
std::vector<double> weighted_values(const MechanismCase& c, std::span<const float> weights) {
  const size_t heads = c.shape.heads, dv = c.shape.dv;
  std::vector<double> out(c.q.rows() * c.v.cols());
  size_t at = 0;
  for (size_t s = 0; s < c.shape.queries.size(); ++s)
    for (size_t h = 0; h < heads; ++h)
      for (int32_t i = c.q_offsets[s]; i < c.q_offsets[s + 1]; ++i)
        for (int32_t j = c.k_offsets[s]; j < c.k_offsets[s + 1]; ++j, ++at)
          for (size_t x = 0; x < dv; ++x)
            out[size_t(i) * heads * dv + h * dv + x] +=
                double(weights[at]) * double(c.v(size_t(j), h * dv + x));
  return out;
}

class Mechanisms : public testing::TestWithParam<size_t> {
 protected:
  const Mechanism& mechanism() const { return test::mechanisms()[GetParam()]; }
  template <class Body>
  void on_every_shape(const Body& body) const {
    for (const MechanismShape& shape : test::mechanism_shapes()) {
      SCOPED_TRACE(mechanism().name + " on " + shape.name);
      MechanismCase c(shape, 100);
      mechanism().set(c);
      c.draw_inputs();
      body(c);
    }
  }
};

TEST_P(Mechanisms, GiveTheReferencesOutputWeightsAndGradients) {
  on_every_shape([&](const MechanismCase& c) {
    const Table<double> q = double_table(c.q), k = double_table(c.k), v = double_table(c.v);
    const test::ReferenceBatch expected(q, k, v, c.options, c.omega());
    const auto expected_out = test::numbers_of(expected.out);
    const auto expected_gradients = test::all_of(expected.backward(double_table(c.d_out)));
    double largest_gradient = 0;
    for (const auto& [name, g] : expected_gradients)
      largest_gradient = std::max(largest_gradient, largest(g));
    test::on_every_target([&] {
      const FastRun run(c, nullptr);
      EXPECT_LE(worst(run.out, expected_out), kForward * largest(expected_out)) << "out";
      for (size_t t = 0; t < expected_gradients.size(); ++t) {
        const auto& [name, g] = expected_gradients[t];
        // A gradient that vanishes (with one key to look at) can be no smaller than rounding.
        EXPECT_LE(worst(*run.gradients.all()[t].second, g),
                  kBackward * std::max(largest(g), 1e-2 * largest_gradient))
            << "gradient of " << name;
      }
      std::vector<float> plain(run.out.size(), test::kNaN);
      attention(c.q, c.k, c.v, {plain.data(), c.q.rows(), c.v.cols()}, c.options);
      EXPECT_TRUE(test::same_bits(plain, run.out)) << "keeping something for backward changed the output";
      std::vector<float> out(run.out.size(), test::kNaN), weights(expected.weights.size(), test::kNaN);
      attention(c.q, c.k, c.v, {out.data(), c.q.rows(), c.v.cols()}, weights, c.options);
      EXPECT_LE(worst(out, expected_out), kForward * largest(expected_out)) << "out beside weights";
      if (mechanism().exact)
        EXPECT_LE(worst(weights, expected.weights), kForward) << "weights";
      else
        EXPECT_LE(worst(out, weighted_values(c, weights)), kForward * largest(expected_out)) << "weights·v";
    });
  });
}

TEST_P(Mechanisms, GiveTheSameBitsWithAnyNumberOfThreads) {
  Workspace one(1), three(3);
  on_every_shape([&](const MechanismCase& c) {
    test::on_every_target([&] {
      const FastRun a(c, &one), b(c, &three), alone(c, nullptr);
      EXPECT_TRUE(test::same_bits(a.out, b.out));
      EXPECT_TRUE(test::same_bits(a.out, alone.out)) << "memory of its own";
      EXPECT_TRUE(test::same_bits(a.saved.log_sums, b.saved.log_sums));
      for (size_t t = 0; t < a.gradients.all().size(); ++t) {
        const auto [name, g] = a.gradients.all()[t];
        EXPECT_TRUE(test::same_bits(*g, *b.gradients.all()[t].second)) << "gradient of " << name;
      }
      size_t pairs = 0;
      for (size_t sequence = 0; sequence < c.shape.queries.size(); ++sequence)
        pairs += size_t(c.shape.queries[sequence]) * size_t(c.shape.keys[sequence]) * c.shape.heads;
      std::vector<float> weights[2];
      for (size_t t = 0; t < 2; ++t) {
        AttentionOptions options = c.options;
        options.workspace = t == 0 ? &one : &three;
        std::vector<float> out(a.out.size());
        weights[t].assign(pairs, test::kNaN);
        attention(c.q, c.k, c.v, {out.data(), c.q.rows(), c.v.cols()}, weights[t], options);
      }
      EXPECT_TRUE(test::same_bits(weights[0], weights[1])) << "weights";
    });
  });
}

// Dropout is a function of the sequence's number in the batch, so there only the first can be compared.
TEST_P(Mechanisms, GiveASequenceTheSameBitsInABatchAndAlone) {
  on_every_shape([&](const MechanismCase& c) {
    const FastRun packed(c, nullptr);
    const size_t sequences = c.options.dropout.rate > 0 ? 1 : c.shape.queries.size();
    for (size_t s = 0; s < sequences; ++s) {
      const size_t q0 = size_t(c.q_offsets[s]), n = size_t(c.q_offsets[s + 1]) - q0,
                   k0 = size_t(c.k_offsets[s]), m = size_t(c.k_offsets[s + 1]) - k0;
      MechanismCase one({"alone", {int32_t(n)}, {int32_t(m)}, c.shape.heads, c.shape.d, c.shape.dv}, 1);
      const auto q_offsets = one.options.q_offsets, k_offsets = one.options.k_offsets;
      one.options = c.options;
      one.options.q_offsets = q_offsets, one.options.k_offsets = k_offsets;
      if (c.options.look.kind == Look::Kind::kMask)
        one.options.look.allowed = c.options.look.allowed.slice_rows(q0, n);
      one.q = c.q.slice_rows(q0, n), one.d_out = c.d_out.slice_rows(q0, n);
      one.k = c.k.slice_rows(k0, m), one.v = c.v.slice_rows(k0, m);
      const FastRun alone(one, nullptr);
      const auto rows = [](const std::vector<float>& x, size_t first, size_t count, size_t cols) {
        return std::span(x).subspan(first * cols, count * cols);
      };
      EXPECT_TRUE(test::same_bits(alone.out, rows(packed.out, q0, n, c.v.cols()))) << "sequence " << s;
      EXPECT_TRUE(test::same_bits(alone.gradients.q, rows(packed.gradients.q, q0, n, c.q.cols())))
          << "dq " << s;
      EXPECT_TRUE(test::same_bits(alone.gradients.k, rows(packed.gradients.k, k0, m, c.k.cols())))
          << "dk " << s;
      EXPECT_TRUE(test::same_bits(alone.gradients.v, rows(packed.gradients.v, k0, m, c.v.cols())))
          << "dv " << s;
    }
  });
}

TEST_P(Mechanisms, AddToTheGradientsOfParametersAndAssignThoseOfInputs) {
  on_every_shape([&](const MechanismCase& c) {
    const FastRun zero(c, nullptr), five(c, nullptr, 5);
    for (size_t t = 0; t < zero.gradients.all().size(); ++t) {
      const auto [name, from_zero] = zero.gradients.all()[t];
      const auto& from_five = *five.gradients.all()[t].second;
      if (t < 3) {
        EXPECT_TRUE(test::same_bits(*from_zero, from_five)) << name;
        continue;
      }
      double most = 5;  // up to 1100 rows are added one by one, each sum rounded to 5·2⁻²⁴
      for (float x : *from_zero) most = std::max(most, std::abs(double(x)));
      for (size_t i = 0; i < from_five.size(); ++i)
        ASSERT_NEAR(from_five[i], 5.0 + double((*from_zero)[i]), 2e-5 * most) << name << " " << i;
    }
  });
}

TEST_P(Mechanisms, LeaveOutTheGradientsNobodyAskedFor) {
  on_every_shape([&](const MechanismCase& c) {
    const FastRun all(c, nullptr);
    test::FastGradients some(c);
    AttentionGradients views = some.views(c);
    views.w = {}, views.w1 = {}, views.w2 = {}, views.additive_v = {}, views.e = {}, views.f = {},
    views.spans = {};
    attention_backward(c.q, c.k, c.v, {all.out.data(), c.q.rows(), c.v.cols()}, all.saved, c.d_out, views,
                       c.options);
    EXPECT_TRUE(test::same_bits(some.q, all.gradients.q));
    EXPECT_TRUE(test::same_bits(some.k, all.gradients.k));
    EXPECT_TRUE(test::same_bits(some.v, all.gradients.v));
    for (float x : some.w1) EXPECT_EQ(x, 0.0f);
  });
}

// Rows further apart than they are wide, in and out, between guards.
TEST_P(Mechanisms, ReadAndWriteOnlyTheirOwnColumns) {
  MechanismCase c({"strided", {6, 11}, {6, 11}, 2, 4, 4}, 7);
  mechanism().set(c);
  c.draw_inputs();
  const FastRun expected(c, nullptr);
  const size_t gap = 5;
  const auto spread = [&](Matrix<const float> m) {
    auto& x = c.floats.emplace_back(m.rows() * (m.cols() + gap), test::kNaN);
    for (size_t r = 0; r < m.rows(); ++r) std::copy_n(m.row(r), m.cols(), x.data() + r * (m.cols() + gap));
    return Matrix<const float>(x.data(), m.rows(), m.cols(), m.cols() + gap);
  };
  std::deque<test::Guarded> memory;
  const auto target = [&](Matrix<const float> m) {
    auto& x = memory.emplace_back(m.rows() * (m.cols() + gap), 3);
    return Matrix<float>(x.data(), m.rows(), m.cols(), m.cols() + gap);
  };
  const auto gaps_intact = [&](Matrix<float> m) {
    for (size_t r = 0; r < m.rows(); ++r)
      for (size_t x = m.cols(); x < m.stride(); ++x)
        if (m.row(r)[x] != test::Guarded::guard()) return false;
    return true;
  };
  const auto q = spread(c.q), k = spread(c.k), v = spread(c.v), d_out = spread(c.d_out);
  const auto out = target(d_out), dq = target(q), dk = target(k), dv = target(v);
  AttentionSaved saved;
  attention(q, k, v, out, saved, c.options);
  test::FastGradients own(c);
  AttentionGradients views = own.views(c);
  views.q = dq, views.k = dk, views.v = dv;
  attention_backward(q, k, v, out, saved, d_out, views, c.options);
  for (const auto& m : memory) EXPECT_TRUE(m.intact());
  for (const auto& m : {out, dq, dk, dv}) EXPECT_TRUE(gaps_intact(m));
  EXPECT_TRUE(test::same_bits(test::copy_of(out), expected.out));
  EXPECT_TRUE(test::same_bits(test::copy_of(dq), expected.gradients.q));
  EXPECT_TRUE(test::same_bits(test::copy_of(dk), expected.gradients.k));
  EXPECT_TRUE(test::same_bits(test::copy_of(dv), expected.gradients.v));
}

INSTANTIATE_TEST_SUITE_P(Every, Mechanisms, testing::Range(size_t{0}, test::mechanisms().size()),
                         [](const testing::TestParamInfo<size_t>& which) {
                           return test::test_name(test::mechanisms()[which.param].name);
                         });

}  // namespace
}  // namespace bertie
