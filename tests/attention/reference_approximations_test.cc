// The reference of the linear-time mechanisms and of multi-head: gradients against Dual numbers, and the
// cases where they must be exact.
#include <gtest/gtest.h>

#include "attention/derivatives.h"
#include "bertie/attention_reference.h"
#include "bertie/attention_reference_nystrom.h"

namespace bertie {
namespace {

using reference::Table;
using test::expect_exact_gradients;
using test::random_tables;
using test::Tables;
using test::TableShape;

struct Shape {
  size_t n, m, d, dv;
};
const Shape kShapes[] = {{3, 5, 4, 2}, {4, 4, 3, 3}, {1, 6, 2, 5}, {5, 1, 3, 2},
                         {1, 1, 1, 1}, {0, 3, 2, 2}, {3, 0, 2, 2}, {7, 8, 2, 3}};

bool everywhere(size_t, size_t) { return true; }
bool causal(size_t i, size_t j) { return j <= i; }
bool from_the_second_on(size_t i, size_t j) { return j + 1 <= i; }  // the first query sees nothing

TEST(ReferenceGradients, OfLinearAttentionAreExact) {
  for (const Shape& s : kShapes)
    for (auto sees : {everywhere, causal, from_the_second_on}) {
      const std::vector<TableShape> shapes{{"q", s.n, s.d}, {"k", s.m, s.d}, {"v", s.m, s.dv}};
      expect_exact_gradients(
          shapes, random_tables(shapes, 1),
          [&]<class T>(const Tables<T>& in) {
            Table<T> out(s.n, s.dv);
            const reference::EluFeatures elu;
            reference::linear_attention<T>(elu, elu, in[0], in[1], in[2], sees, out);
            return out;
          },
          [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& d) {
            const reference::EluFeatures elu;
            reference::linear_attention_backward<double>(elu, elu, in[0], in[1], in[2], sees, d_out,
                                                         {d[0], d[1], d[2]});
          });
    }
}

TEST(ReferenceGradients, OfRandomFeaturesAreExact) {
  for (const Shape& s : kShapes)
    for (double size : {1.0, 20.0})  // 20: exponents of hundreds, those of keys are stopped at 60
      for (auto sees : {everywhere, causal, from_the_second_on}) {
        const std::vector<TableShape> shapes{{"q", s.n, s.d}, {"k", s.m, s.d}, {"v", s.m, s.dv}};
        const auto omega = std::move(random_tables({{"omega", 9, s.d}}, 2, 3 * size)[0]);
        expect_exact_gradients(
            shapes, random_tables(shapes, 1),
            [&]<class T>(const Tables<T>& in) {
              Table<T> w(9, s.d), out(s.n, s.dv);
              for (size_t f = 0; f < 9; ++f)
                for (size_t c = 0; c < s.d; ++c) w(f, c) = T(omega(f, c));
              reference::linear_attention<T>(reference::RandomFeatures<T>{w, T(0.5), true},
                                             reference::RandomFeatures<T>{w, T(0.5), false}, in[0], in[1],
                                             in[2], sees, out);
              return out;
            },
            [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& d) {
              reference::linear_attention_backward<double>(
                  reference::RandomFeatures<double>{omega, 0.5, true},
                  reference::RandomFeatures<double>{omega, 0.5, false}, in[0], in[1], in[2], sees, d_out,
                  {d[0], d[1], d[2]});
            });
      }
}

TEST(ReferenceGradients, OfLinformerAreExact) {
  for (const Shape& s : kShapes)
    for (size_t r : {size_t{1}, size_t{3}}) {
      const std::vector<TableShape> shapes{
          {"q", s.n, s.d}, {"k", s.m, s.d}, {"v", s.m, s.dv}, {"e", r, s.m + 2}, {"f", r, s.m + 2}};
      const auto first = [&]<class M>(Matrix<M> x) { return x.slice_cols(0, s.m); };
      expect_exact_gradients(
          shapes, random_tables(shapes, 1),
          [&]<class T>(const Tables<T>& in) {
            Table<T> out(s.n, s.dv);
            reference::linformer_attention<T>(in[0], in[1], in[2], T(0.7), first(Matrix<const T>(in[3])),
                                              first(Matrix<const T>(in[4])), out);
            return out;
          },
          [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& d) {
            reference::linformer_attention_backward<double>(
                in[0], in[1], in[2], 0.7, first(Matrix<const double>(in[3])),
                first(Matrix<const double>(in[4])), d_out, {d[0], d[1], d[2]}, first(Matrix<double>(d[3])),
                first(Matrix<double>(d[4])));
          });
    }
}

TEST(ReferenceGradients, OfNystromAreExactThroughItsIteration) {
  for (const Shape& s : kShapes)
    for (size_t landmarks : {1, 3, 64})
      for (size_t iterations : {0, 1, 6}) {
        SCOPED_TRACE(testing::Message() << s.n << " queries, " << s.m << " keys, " << landmarks
                                        << " landmarks, " << iterations << " iterations");
        const std::vector<TableShape> shapes{{"q", s.n, s.d}, {"k", s.m, s.d}, {"v", s.m, s.dv}};
        expect_exact_gradients(
            shapes, random_tables(shapes, 1),
            [&]<class T>(const Tables<T>& in) {
              Table<T> out(s.n, s.dv);
              reference::nystrom_attention<T>(in[0], in[1], in[2], T(0.7), landmarks, iterations, out);
              return out;
            },
            [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& d) {
              reference::nystrom_attention_backward<double>(in[0], in[1], in[2], 0.7, landmarks, iterations,
                                                            d_out, {d[0], d[1], d[2]});
            });
      }
}

// Two heads with causal look, on x and y of different widths, or self-attention with y = x.
TEST(ReferenceGradients, OfMultiHeadAreExact) {
  const size_t heads = 2, d = 3, dv = 2, cx = 4, c = 5;
  const auto head = [&](auto m, size_t h) { return m.slice_cols(h * m.cols() / heads, m.cols() / heads); };
  const auto look = [](size_t i, size_t j) { return j <= i + 1 ? 1.0 : 0.0; };
  for (bool self : {false, true}) {
    const size_t n = 3, m = self ? n : 4, cy = self ? cx : 3;
    std::vector<TableShape> shapes{{"wq", heads * d, cx}, {"wk", heads * d, cy}, {"wv", heads * dv, cy},
                                   {"wo", c, heads * dv}, {"bq", 1, heads * d},  {"bk", 1, heads * d},
                                   {"bv", 1, heads * dv}, {"bo", 1, c},          {"x", n, cx}};
    if (!self) shapes.push_back({"y", m, cy});
    const auto mechanism = [&]<class T>(Matrix<const T> q, Matrix<const T> k, Matrix<const T> v,
                                        Matrix<T> context) {
      for (size_t h = 0; h < heads; ++h) {
        Table<T> weights(n, m);
        reference::softmax_attention<T>(reference::DotScore<T>{head(q, h), head(k, h), T(0.6)}, head(v, h),
                                        weights, head(context, h), look);
      }
    };
    const auto backward = [&](Matrix<const double> q, Matrix<const double> k, Matrix<const double> v,
                              Matrix<const double> d_context, const reference::Gradients<double>& g) {
      for (size_t h = 0; h < heads; ++h)
        reference::softmax_attention_backward<double>(
            reference::DotScore<double>{head(q, h), head(k, h), 0.6, head(g.q, h), head(g.k, h)}, head(v, h),
            head(d_context, h), head(g.v, h), look);
    };
    const auto weights = [&]<class T>(const Tables<T>& in) {
      return reference::MultiHeadWeights<const T>{in[0],    in[1],    in[2],    in[3],
                                                  in[4][0], in[5][0], in[6][0], in[7][0]};
    };
    expect_exact_gradients(
        shapes, random_tables(shapes, 1),
        [&]<class T>(const Tables<T>& in) {
          Table<T> out(n, c);
          reference::multi_head_attention<T>(in[8], in[self ? 8 : 9], weights(in), mechanism, out);
          return out;
        },
        [&](const Tables<double>& in, const Table<double>& d_out, Tables<double>& g) {
          const auto bias = [&](size_t t) { return Matrix<double>(g[t])[0]; };
          reference::multi_head_attention_backward<double>(
              in[8], in[self ? 8 : 9], weights(in), mechanism, backward, d_out, g[8], g[self ? 8 : 9],
              {g[0], g[1], g[2], g[3], bias(4), bias(5), bias(6), bias(7)});
        });
  }
}

Table<double> exact(const Tables<double>& in, double scale) {
  Table<double> weights(in[0].rows(), in[1].rows()), out(in[0].rows(), in[2].cols());
  reference::attention<double>(in[0], in[1], in[2], scale, weights, out);
  return out;
}

double worst(const Table<double>& a, const Table<double>& b) {
  double most = 0;
  for (size_t r = 0; r < a.rows(); ++r)
    for (size_t c = 0; c < a.cols(); ++c) most = std::max(most, std::abs(a(r, c) - b(r, c)));
  return most;
}

// Every mechanism's output and gradients of q, one after the other.
template <class T>
std::vector<T> everything(const Tables<double>& in) {
  Tables<T> t;
  for (const auto& from : in) {
    t.emplace_back(from.rows(), from.cols());
    for (size_t r = 0; r < from.rows(); ++r)
      for (size_t c = 0; c < from.cols(); ++c) t.back()(r, c) = T(from(r, c));
  }
  const Matrix<const T> q = std::as_const(t[0]), k = std::as_const(t[1]), v = std::as_const(t[2]),
                        d_out = std::as_const(t[3]), e = std::as_const(t[4]), omega = std::as_const(t[5]);
  std::vector<T> all;
  const auto run = [&](const auto& forward, const auto& backward) {
    Table<T> out(q.rows(), v.cols()), dq(q.rows(), q.cols()), dk(k.rows(), k.cols()), dv(v.rows(), v.cols());
    forward(Matrix<T>(out));
    backward(reference::Gradients<T>{dq, dk, dv});
    for (size_t r = 0; r < q.rows(); ++r) {
      all.insert(all.end(), out[r].begin(), out[r].end());
      all.insert(all.end(), dq[r].begin(), dq[r].end());
    }
  };
  const T scale = T(0.5);
  Table<T> weights(q.rows(), k.rows()), de(e.rows(), e.cols());
  run([&](Matrix<T> out) { reference::attention<T>(q, k, v, scale, weights, out); },
      [&](auto d) { reference::attention_backward<T>(q, k, v, scale, d_out, d); });
  const reference::EluFeatures elu;
  run([&](Matrix<T> out) { reference::linear_attention<T>(elu, elu, q, k, v, causal, out); },
      [&](auto d) { reference::linear_attention_backward<T>(elu, elu, q, k, v, causal, d_out, d); });
  const reference::RandomFeatures<T> of_q{omega, scale, true}, of_k{omega, scale, false};
  run([&](Matrix<T> out) { reference::linear_attention<T>(of_q, of_k, q, k, v, causal, out); },
      [&](auto d) { reference::linear_attention_backward<T>(of_q, of_k, q, k, v, causal, d_out, d); });
  run([&](Matrix<T> out) { reference::linformer_attention<T>(q, k, v, scale, e, e, out); },
      [&](auto d) { reference::linformer_attention_backward<T>(q, k, v, scale, e, e, d_out, d, de, de); });
  run([&](Matrix<T> out) { reference::nystrom_attention<T>(q, k, v, scale, 3, 6, out); },
      [&](auto d) { reference::nystrom_attention_backward<T>(q, k, v, scale, 3, 6, d_out, d); });
  return all;
}

TEST(Reference, InFloatIsNearlyThatInDouble) {
  const auto in = random_tables(
      {{"q", 6, 4}, {"k", 7, 4}, {"v", 7, 3}, {"d_out", 6, 3}, {"e", 5, 7}, {"omega", 9, 4}}, 3);
  const auto wide = everything<double>(in);
  const auto narrow = everything<float>(in);
  ASSERT_EQ(wide.size(), narrow.size());
  for (size_t i = 0; i < wide.size(); ++i) EXPECT_NEAR(wide[i], double(narrow[i]), 1e-5) << i;
}

TEST(Reference, LinformerWithIdentitiesIsExact) {
  const auto in = random_tables({{"q", 5, 4}, {"k", 6, 4}, {"v", 6, 3}}, 3);
  Table<double> identity(6, 6), out(5, 3);
  for (size_t i = 0; i < 6; ++i) identity(i, i) = 1;
  reference::linformer_attention<double>(in[0], in[1], in[2], 0.5, identity, identity, out);
  EXPECT_LE(worst(out, exact(in, 0.5)), 1e-15);
}

TEST(Reference, NystromWithALandmarkForEveryRowIsExactOnceItsIterationHasConverged) {
  const auto in = random_tables({{"q", 8, 4}, {"k", 8, 4}, {"v", 8, 3}}, 3, 2);
  Table<double> out(8, 3);
  reference::nystrom_attention<double>(in[0], in[1], in[2], 0.5, 8, 30, out);
  EXPECT_LE(worst(out, exact(in, 0.5)), 1e-9);
}

TEST(Reference, RandomFeaturesComeCloserToTheSoftmaxAsTheyGrowInNumber) {
  const auto in = random_tables({{"q", 6, 4}, {"k", 9, 4}, {"v", 9, 3}}, 3);
  const Table<double> expected = exact(in, 0.5);
  double before = 1;
  for (size_t features : {size_t{100}, size_t{10000}}) {
    Table<double> omega(features, 4), out(6, 3);
    Random random(8);
    for (size_t f = 0; f < features; ++f)
      for (size_t c = 0; c < 4; ++c) omega(f, c) = double(random.normal());
    reference::linear_attention<double>(reference::RandomFeatures<double>{omega, 0.5, true},
                                        reference::RandomFeatures<double>{omega, 0.5, false}, in[0], in[1],
                                        in[2], everywhere, out);
    EXPECT_LE(worst(out, expected), before / 3);
    before = worst(out, expected);
  }
  EXPECT_LE(before, 0.02);
}

}  // namespace
}  // namespace bertie
