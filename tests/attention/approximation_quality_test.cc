// How far the linear-time mechanisms are from exact attention, and that it falls as they are given more. An
// error is √(Σ|out − exact|²/Σ|exact|²); the values are random, so exact outputs are small and this is
// strict.
#include <gtest/gtest.h>

#include "bertie/attention.h"
#include "support/numbers.h"

namespace bertie {
namespace {

struct Problem {
  Problem(size_t n_, size_t m_, size_t d_, float size) : n(n_), m(m_), d(d_) {
    q = test::random_floats(n * d, 1, -size, size);
    k = test::random_floats(m * d, 2, -size, size);
    v = test::random_floats(m * d, 3);
  }
  std::vector<float> run(const AttentionOptions& o) const {
    std::vector<float> out(n * d);
    attention({q.data(), n, d}, {k.data(), m, d}, {v.data(), m, d}, {out.data(), n, d}, o);
    return out;
  }
  // Against exact attention with the same look.
  double error(const AttentionOptions& o) const {
    const auto out = run(o), exact = run({.look = o.look});
    double off = 0, all = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      off += std::pow(double(out[i]) - double(exact[i]), 2);
      all += std::pow(double(exact[i]), 2);
    }
    return std::sqrt(off / all);
  }
  size_t n, m, d;
  std::vector<float> q, k, v;
};

// Measured, as the mean of ten seeds: 0.42, 0.23, 0.12, 0.068; causal 0.29, 0.16, 0.088, 0.049. Four times
// the features, half the error.
TEST(Performer, ComesCloserWithEveryFourfoldOfFeatures) {
  const Problem p(60, 80, 16, 0.8f);
  for (const Look& look : {Look::full(), Look::causal()}) {
    double before = 10;
    for (size_t features : {16, 64, 256, 1024}) {
      double mean = 0;
      for (uint64_t seed = 0; seed < 10; ++seed)
        mean +=
            p.error({.look = look, .compute = Compute::performer({.features = features, .seed = seed})}) / 10;
      RecordProperty((look.kind == Look::Kind::kFull ? "full_" : "causal_") + std::to_string(features),
                     std::to_string(mean));
      EXPECT_LE(mean, before / 1.5) << features << " features";
      before = mean;
    }
    EXPECT_LE(before, 0.08);
  }
}

// Measured: 0.40, 0.31, 1.8·10⁻⁴. Random rows have no neighbors alike; only all of them are enough.
TEST(Nystrom, ComesCloserWithMoreLandmarksAndIsExactWithOneForEveryRow) {
  const Problem p(64, 64, 8, 1);
  double before = 10;
  for (size_t landmarks : {4, 16, 64}) {
    const double error = p.error({.compute = Compute::nystrom({.landmarks = landmarks, .iterations = 20})});
    RecordProperty("error_with_" + std::to_string(landmarks), std::to_string(error));
    EXPECT_LE(error, before) << landmarks << " landmarks";
    before = error;
  }
  EXPECT_LE(before, 1e-3);
}

TEST(Linformer, WithIdentityMatricesIsExact) {
  const size_t m = 70;
  const Problem p(50, m, 16, 2);
  std::vector<float> identity(m * m);
  for (size_t i = 0; i < m; ++i) identity[i * m + i] = 1;
  const Matrix<const float> i(identity.data(), m, m);
  EXPECT_LE(p.error({.compute = Compute::linformer(i, i)}), 2e-6);
}

// E and F that average segments: with keys and values that change slowly, the more rows the closer. Measured:
// 0.98, 0.054, 0.0027, 0.
TEST(Linformer, ComesCloserWithMoreRowsWhereNeighborsAreAlike) {
  Problem p(32, 64, 4, 1);
  for (size_t j = 0; j < p.m; ++j)
    for (size_t c = 0; c < p.d; ++c) {
      p.k[j * p.d + c] = float(std::sin(double(j) * 0.1 + double(c)));
      p.v[j * p.d + c] = float(std::cos(double(j) * 0.1 * double(c + 1)));
    }
  double before = 10;
  for (size_t rows : {2, 8, 32, 64}) {
    std::vector<float> means(rows * p.m);
    for (size_t j = 0; j < p.m; ++j) means[j * rows / p.m * p.m + j] = float(rows) / float(p.m);
    const Matrix<const float> e(means.data(), rows, p.m);
    const double error = p.error({.compute = Compute::linformer(e, e)});
    RecordProperty("error_with_" + std::to_string(rows), std::to_string(error));
    EXPECT_LE(error, before / 2) << rows << " rows";
    before = error;
  }
  EXPECT_LE(before, 2e-6);
}

TEST(Linear, IsAMeanOfTheValuesThatItSees) {
  const Problem p(30, 40, 8, 2);
  for (const Look& look : {Look::full(), Look::causal()}) {
    const auto out = p.run({.look = look, .compute = Compute::linear()});
    for (size_t i = 0; i < p.n; ++i)
      for (size_t c = 0; c < p.d; ++c) {
        float low = test::kInf, high = -test::kInf;
        for (size_t j = 0; j < (look.kind == Look::Kind::kCausal ? i + 1 : p.m); ++j)
          low = std::min(low, p.v[j * p.d + c]), high = std::max(high, p.v[j * p.d + c]);
        EXPECT_GE(out[i * p.d + c], low - 1e-6f);
        EXPECT_LE(out[i * p.d + c], high + 1e-6f);
      }
  }
}

}  // namespace
}  // namespace bertie
