#include "kernels/dropout.h"

#include <gtest/gtest.h>

#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

const std::vector<uint64_t> kRows{0, 1, uint64_t{1} << 32, (uint64_t{7} << 32) | 511, ~uint64_t{0}};

TEST(Dropout, DrawsTheMaskThatTheSpecificationSays) {
  test::on_every_target([&] {
    for (float rate : {0.1f, 0.5f, 0.999f, 1.0f})
      for (size_t n : {1, 15, 16, 17, 31, 32, 40, 127, 128, 129, 300})
        for (size_t misalignment : {0, 5}) {
          const RowDropout dropout{{rate, 0x123456789ABCDEF}, kRows};
          const auto x = test::random_floats(kRows.size() * n, n);
          test::Guarded y(x.size(), misalignment);
          Team team(2);
          dropout_rows({x.data(), kRows.size(), n}, dropout, {y.data(), kRows.size(), n}, team);
          ASSERT_TRUE(y.intact());
          for (size_t t = 0; t < kRows.size(); ++t)
            for (size_t c = 0; c < n; ++c)
              ASSERT_EQ(y.data()[t * n + c],
                        x[t * n + c] * float(dropout_factor(dropout.dropout, kRows[t], c)))
                  << rate << ", row " << t << ", column " << c << " of " << n;
        }
  });
}

TEST(Dropout, OfRateZeroIsACopy) {
  Team team;
  const auto x = test::random_floats(5 * 40, 1);
  std::vector<float> y(x.size()), same = x;
  dropout_rows({x.data(), 5, 40}, {}, {y.data(), 5, 40}, team);
  EXPECT_TRUE(test::same_bits(x, y));
  dropout_rows({same.data(), 5, 40}, {}, {same.data(), 5, 40}, team);
  EXPECT_TRUE(test::same_bits(x, same));
}

TEST(Dropout, OfARowDoesNotDependOnItsBatch) {
  Team team;
  const RowDropout dropout{{0.3f, 5}, kRows};
  const auto x = test::random_floats(kRows.size() * 70, 1);
  std::vector<float> all(x.size()), some(2 * 70);
  dropout_rows({x.data(), kRows.size(), 70}, dropout, {all.data(), kRows.size(), 70}, team);
  dropout_rows({x.data() + 3 * 70, 2, 70}, {dropout.dropout, dropout.rows.subspan(3, 2)},
               {some.data(), 2, 70}, team);
  EXPECT_TRUE(test::same_bits(std::span(all).last(2 * 70), some));
}

TEST(Dropout, DropsAsOftenAsItSaysAndKeepsTheMean) {
  // A million draws, 3σ; and a different seed, row or column gives different ones.
  const Dropout dropout{0.1f, 11};
  const size_t rows = 1000, n = 1000;
  double kept = 0, sum = 0;
  for (size_t t = 0; t < rows; ++t)
    for (size_t c = 0; c < n; ++c) {
      const double factor = dropout_factor(dropout, t, c);
      kept += factor > 0, sum += factor;
    }
  const double draws = double(rows * n), rate = dropout_threshold(0.1f) / 65536.0;
  EXPECT_NEAR(kept / draws, 1 - rate, 3 * std::sqrt(rate * (1 - rate) / draws));
  EXPECT_NEAR(sum / draws, 1, 4 * std::sqrt(rate / (1 - rate) / draws));
  size_t differs_by_seed = 0, differs_by_row = 0;
  for (size_t c = 0; c < n; ++c) {
    const bool here = dropout_factor(dropout, 3, c) > 0;
    differs_by_seed += here != (dropout_factor({0.1f, 12}, 3, c) > 0);
    differs_by_row += here != (dropout_factor(dropout, 4, c) > 0);
  }
  EXPECT_NEAR(double(differs_by_seed), 180, 45);  // 2·0.1·0.9 of 1000, ± 3.7σ
  EXPECT_NEAR(double(differs_by_row), 180, 45);
}

}  // namespace
}  // namespace bertie::kernels
