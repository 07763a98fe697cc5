#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

TEST(Softmax, EqualsTheReferenceAtEveryLengthAndAddress) {
  test::Worst relative;
  test::on_every_target([&] {
    std::vector<size_t> lengths(2 * 2 * 16 + 4);
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i;
    for (size_t n : {128, 511, 512, 1000, 4096}) lengths.push_back(n);
    for (size_t n : lengths)
      for (size_t misalignment = 0; misalignment < (n < 100 ? 16 : 2); ++misalignment) {
        const auto x = test::random_floats(n, n, -10, 10);
        auto expected = test::to_double(x);
        reference::softmax<double>(expected);
        test::Guarded y(x, misalignment);
        softmax_forward(y.span());
        ASSERT_TRUE(y.intact()) << n;
        double sum = 0;
        for (size_t i = 0; i < n; ++i) {
          relative.see(std::abs(y.span()[i] / expected[i] - 1), double(n));
          sum += y.span()[i];
        }
        ASSERT_NEAR(sum, n ? 1 : 0, 2e-6) << n;
      }
  });
  EXPECT_LE(relative.error, 3e-6) << "relative, length " << relative.at;
  std::printf("softmax: worst relative error %.2e\n", relative.error);
}

TEST(Softmax, OfOneNumberIsOne) {
  test::on_every_target([&] {
    for (float x : {0.0f, -1e30f, 1e30f, 3.4e38f, -3.4e38f}) {
      softmax_forward({&x, 1});
      EXPECT_EQ(x, 1.0f);
    }
  });
}

TEST(Softmax, DoesNotOverflowOrUnderflowAsAWhole) {
  test::on_every_target([&] {
    for (float shift : {-1e4f, -100.0f, 100.0f, 1e4f}) {
      std::vector<float> x(37);
      for (size_t i = 0; i < x.size(); ++i) x[i] = shift + 0.5f * float(i % 5);
      auto expected = test::to_double(x);
      reference::softmax<double>(expected);
      softmax_forward(x);
      for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], expected[i], 1e-6) << shift;
    }
    std::vector<float> far(20, -3e38f);
    far[7] = 3e38f;
    softmax_forward(far);
    for (size_t i = 0; i < far.size(); ++i) EXPECT_EQ(far[i], i == 7 ? 1.0f : 0.0f);
  });
}

// A row of n with `value` at `at`.
std::vector<float> with(size_t n, size_t at, float value) {
  auto x = test::random_floats(n, n);
  x[at] = value;
  return x;
}

TEST(Softmax, MakesARowWithNaNOrPlusInfinityNaN) {
  test::on_every_target([&] {
    for (float poison : {test::kNaN, -test::kNaN, std::bit_cast<float>(0x7FC00001u),
                         std::bit_cast<float>(0x7FFFFFFFu), std::bit_cast<float>(0xFFC0BEEFu), test::kInf})
      for (size_t n : {1, 2, 16, 17, 33, 100})
        for (size_t at : {size_t{0}, n / 2, n - 1}) {
          auto x = with(n, at, poison);
          softmax_forward(x);
          for (float y : x)
            ASSERT_TRUE(std::isnan(y))
                << "length " << n << ", 0x" << std::hex << std::bit_cast<uint32_t>(poison) << std::dec
                << " at " << at << " gave " << y;
        }
  });
}

TEST(Softmax, GivesMinusInfinityNoWeight) {
  test::on_every_target([&] {
    for (size_t n : {2, 16, 17, 33, 100})
      for (size_t at : {size_t{0}, n / 2, n - 1}) {
        auto x = with(n, at, -test::kInf);
        auto expected = test::to_double(x);
        reference::softmax<double>(expected);
        softmax_forward(x);
        EXPECT_EQ(x[at], 0.0f);
        for (size_t i = 0; i < n; ++i) EXPECT_NEAR(x[i], expected[i], 1e-6);
      }
    for (size_t n : {1, 16, 35}) {
      std::vector<float> x(n, -test::kInf);
      softmax_forward(x);
      for (float y : x) EXPECT_TRUE(std::isnan(y));
    }
  });
}

TEST(Softmax, KeepsOrderAndTies) {
  test::on_every_target([&] {
    auto x = test::random_floats(200, 3, -5, 5);
    x[150] = x[3];
    const auto before = x;
    softmax_forward(x);
    EXPECT_EQ(x[150], x[3]);
    for (size_t i = 1; i < x.size(); ++i)
      if (before[i] > before[i - 1] + 1e-5f) {
        EXPECT_GT(x[i], x[i - 1]);
      }
  });
}

}  // namespace
}  // namespace bertie::kernels
