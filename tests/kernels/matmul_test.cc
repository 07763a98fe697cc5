#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

struct Shape {
  size_t m, n, k;
};

// A stored matrix with gaps between its rows that hold NaN.
struct Stored {
  Stored(size_t rows, size_t cols, uint64_t seed, size_t gap = 3)
      : values(rows * (cols + gap), test::kNaN), view(values.data(), rows, cols, cols + gap) {
    const auto random = test::random_floats(rows * cols, seed);
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < cols; ++c) values[r * (cols + gap) + c] = random[r * cols + c];
  }
  std::vector<float> values;
  Matrix<const float> view;
};

Factor factor(const Stored& m, bool is_transposed) { return {m.view, is_transposed}; }

double element(const Factor& f, size_t r, size_t c) { return f.transposed ? f.stored(c, r) : f.stored(r, c); }

// Worst |c − exact| as a multiple of 2⁻²⁴·Σ|a||b|, the natural unit of a sum's error.
double check(Shape s, bool a_transposed, bool b_transposed, Accumulate accumulate, Team& team) {
  const Stored sa(a_transposed ? s.k : s.m, a_transposed ? s.m : s.k, s.m + 1);
  const Stored sb(b_transposed ? s.n : s.k, b_transposed ? s.k : s.n, s.n + 2);
  const Factor a = factor(sa, a_transposed), b = factor(sb, b_transposed);
  const size_t stride = s.n + 5;
  const auto before = test::random_floats(s.m * s.n, 3);
  test::Guarded c(s.m * stride), workspace(matmul_workspace_floats(s.k, s.n));
  std::fill(c.span().begin(), c.span().end(), test::Guarded::guard());
  for (size_t i = 0; i < s.m; ++i)
    for (size_t j = 0; j < s.n; ++j) c.data()[i * stride + j] = before[i * s.n + j];
  matmul(a, b, {c.data(), s.m, s.n, stride}, workspace.data(), team, accumulate);
  EXPECT_TRUE(c.intact() && workspace.intact());
  test::Worst worst;
  for (size_t i = 0; i < s.m; ++i) {
    for (size_t j = 0; j < s.n; ++j) {
      double sum = accumulate == Accumulate::kYes ? before[i * s.n + j] : 0, size = std::abs(sum);
      for (size_t k = 0; k < s.k; ++k) {
        const double product = element(a, i, k) * element(b, k, j);
        sum += product, size += std::abs(product);
      }
      worst.see(std::abs(c.data()[i * stride + j] - sum) / (0x1p-24 * size + 1e-30));
    }
    for (size_t j = s.n; j < stride; ++j)
      EXPECT_EQ(c.data()[i * stride + j], test::Guarded::guard()) << "written between the rows";
  }
  return worst.error;
}

double allowed(size_t k) { return 2 + 2 * std::sqrt(double(k)); }

TEST(Matmul, EqualsADoubleLoopForEveryTransposition) {
  Team team;
  double worst = 0;
  test::on_every_target([&] {
    for (size_t m : {1, 2, 6, 7, 14, 15, 29, 57})
      for (size_t n : {1, 5, 31, 32, 33, 64, 70})
        for (size_t k : {1, 2, 3, 4, 7, 33})
          for (int flags = 0; flags < 8; ++flags) {
            const double error = check({m, n, k}, flags & 1, flags & 2, Accumulate(flags / 4), team);
            ASSERT_LE(error, allowed(k)) << m << " × " << n << " × " << k << ", flags " << flags;
            worst = std::max(worst, error);
          }
  });
  std::printf("matmul, small: worst error %.2f · 2^-24 · sum of |a||b|\n", worst);
}

TEST(Matmul, EqualsADoubleLoopAroundSlicesOfKAndInManyChunks) {
  Team team(3);
  test::on_every_target([&] {
    for (Shape s : {Shape{17, 40, 1023}, Shape{17, 40, 1025}, Shape{3, 33, 4095}, Shape{3, 33, 4097},
                    Shape{9, 70, 8200}, Shape{500, 200, 33}, Shape{3000, 3, 5}, Shape{3, 3000, 5}})
      for (int flags = 0; flags < 8; ++flags)
        ASSERT_LE(check(s, flags & 1, flags & 2, Accumulate(flags / 4), team), allowed(s.k))
            << s.m << " × " << s.n << " × " << s.k << ", flags " << flags;
  });
}

TEST(Matmul, OfNothingIsZeroAndAddsNothing) {
  Team team;
  std::vector<float> c(6, 7.0f);
  matmul(Matrix<const float>(nullptr, 2, 0), Matrix<const float>(nullptr, 0, 3), {c.data(), 2, 3}, nullptr,
         team, Accumulate::kYes);
  EXPECT_EQ(c, std::vector<float>(6, 7.0f));
  matmul(Matrix<const float>(nullptr, 2, 0), Matrix<const float>(nullptr, 0, 3), {c.data(), 2, 3}, nullptr,
         team);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
  matmul(Matrix<const float>(nullptr, 0, 4), Matrix<const float>(nullptr, 4, 0), {c.data(), 0, 0}, nullptr,
         team);
}

std::vector<float> product(Factor a, Factor b, Team& team) {
  std::vector<float> c(a.rows() * b.cols()), workspace(matmul_workspace_floats(b.rows(), b.cols()));
  matmul(a, b, {c.data(), a.rows(), b.cols()}, workspace.data(), team);
  return c;
}

TEST(Matmul, GivesTheSameBitsWithAnyNumberOfThreads) {
  Team one, three(3);
  test::on_every_target([&] {
    for (Shape s : {Shape{1, 100, 64}, Shape{300, 96, 1100}, Shape{2000, 70, 40}, Shape{64, 256, 5000}})
      for (int flags = 0; flags < 4; ++flags) {
        const Stored sa(flags & 1 ? s.k : s.m, flags & 1 ? s.m : s.k, 1);
        const Stored sb(flags & 2 ? s.n : s.k, flags & 2 ? s.k : s.n, 2);
        const Factor a = factor(sa, flags & 1), b = factor(sb, flags & 2);
        EXPECT_TRUE(test::same_bits(product(a, b, three), product(a, b, one)));
      }
  });
}

TEST(Matmul, GivesTheSameBitsHoweverTheFactorsAreStoredAndForPartsOfThem) {
  Team team;
  test::on_every_target([&] {
    const size_t m = 40, n = 70, k = 1100;
    const Stored a(m, k, 1), b(k, n, 2);
    Stored a_turned(k, m, 0), b_turned(n, k, 0);
    for (size_t i = 0; i < m; ++i)
      for (size_t c = 0; c < k; ++c) a_turned.values[c * (m + 3) + i] = a.view(i, c);
    for (size_t c = 0; c < k; ++c)
      for (size_t j = 0; j < n; ++j) b_turned.values[j * (k + 3) + c] = b.view(c, j);
    const auto expected = product(a.view, b.view, team);
    EXPECT_TRUE(
        test::same_bits(product(transposed(a_turned.view), transposed(b_turned.view), team), expected));
    for (size_t i : {size_t{0}, size_t{13}, m - 1})
      EXPECT_TRUE(test::same_bits(product(a.view.slice_rows(i, 1), b.view, team),
                                  std::span(expected).subspan(i * n, n)));
  });
}

TEST(Matmul, UsesPanelsPackedOnceManyTimes) {
  Team team;
  test::on_every_target([&] {
    const Stored a(30, 50, 1), b(50, 45, 2);
    std::vector<float> memory(packed_floats(45, 50)), c(30 * 45);
    const Panels packed = pack(b.view, memory.data(), team);
    for (size_t r = 0; r < 30; r += 10)
      matmul(a.view.slice_rows(r, 10), packed, {c.data() + r * 45, 10, 45}, team);
    EXPECT_TRUE(test::same_bits(c, product(a.view, b.view, team)));
  });
}

TEST(Matmul, CarriesNaNToTheRowsAndColumnsItBelongsTo) {
  Team team;
  test::on_every_target([&] {
    Stored a(16, 30, 1), b(30, 40, 2);
    const auto clean = product(a.view, b.view, team);
    a.values[5 * 33 + 29] = test::kNaN;
    b.values[3 * 43 + 35] = test::kNaN;
    const auto c = product(a.view, b.view, team);
    for (size_t i = 0; i < 16; ++i)
      for (size_t j = 0; j < 40; ++j)
        ASSERT_TRUE(i == 5 || j == 35 ? std::isnan(c[i * 40 + j]) : c[i * 40 + j] == clean[i * 40 + j])
            << i << ", " << j;
  });
}

}  // namespace
}  // namespace bertie::kernels
