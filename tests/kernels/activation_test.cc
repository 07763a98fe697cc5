#include "kernels/activation.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

using enum Activation;
constexpr Activation kAll[] = {kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh};
constexpr const char* kNames[] = {"none", "gelu", "gelu_tanh", "relu", "silu", "tanh"};
const char* name(Activation f) { return kNames[size_t(f)]; }

float one(Activation f, float x) {
  activation_forward(f, {&x, 1});
  return x;
}

// Left of 0 gelu is |x|/2 times 1 + erf, two numbers that nearly cancel: erf's error (3e-7; 3.3e-7 where each
// step rounds twice for want of FMA) comes out multiplied by up to 5.54/2, from where on it is held.
double left_tail() {
  const bool fma = (hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2)) != 0;
  return 5.54 / 2 * (fma ? 3e-7 : 3.3e-7);
}

TEST(Activation, IsCloseToTheReferenceFromMinus20To20) {
  std::vector<float> sweep;
  for (int i = -200'000; i <= 200'000; ++i) sweep.push_back(float(i) * 1e-4f);
  test::on_every_target([&] {
    for (Activation f : kAll) {
      std::vector<float> y = sweep;
      activation_forward(f, y);
      // To the right the result is about x and its error may grow with it: 3e-7 is 2.5 units of a float.
      test::Worst worst, left;
      for (size_t i = 0; i < sweep.size(); ++i) {
        const double x = sweep[i];
        const double error = std::abs(y[i] - reference::activation(f, x));
        if (x > 0)
          worst.see(error / std::max(1.0, x), x);
        else
          left.see(error, x);
      }
      const bool exact = f == kNone || f == kRelu;
      EXPECT_LE(worst.error, exact ? 0 : 3e-7) << name(f) << " at " << worst.at;
      EXPECT_LE(left.error, exact ? 0 : f == kGelu ? left_tail() : 3e-7) << name(f) << " at " << left.at;
      std::printf("%-10s worst error %.2e at %g, left of 0 %.2e at %g\n", name(f), worst.error, worst.at,
                  left.error, left.at);
    }
  });
}

TEST(Activation, KeepsItsRelativePrecisionNearZero) {
  // gelu, gelu_tanh and silu are x/2 there: small inputs must not be flushed or biased.
  test::on_every_target([&] {
    for (Activation f : {kGelu, kGeluTanh, kSilu})
      for (float x = 1e-30f; x < 1e-3f; x *= 7)
        for (float signed_x : {x, -x})
          EXPECT_NEAR(one(f, signed_x) / reference::activation(f, double(signed_x)), 1, 5e-7)
              << name(f) << signed_x;
  });
}

TEST(Activation, KeepsNaN) {
  // With payload and sign too: a NaN's bits must not be taken for a number's.
  test::on_every_target([&] {
    for (Activation f : kAll)
      for (uint32_t bits :
           {0x7FC00000u, 0xFFC00000u, 0x7FC00001u, 0x7FC000FFu, 0xFFFFFFFFu, 0x7FFFFFFFu, 0x7FC12345u})
        EXPECT_TRUE(std::isnan(one(f, std::bit_cast<float>(bits))))
            << name(f) << " of 0x" << std::hex << bits;
  });
}

TEST(Activation, GivesTheLimitAtInfinityAndAtHugeNumbers) {
  test::on_every_target([&] {
    for (float x : {1e30f, test::kInf})
      for (Activation f : {kGelu, kGeluTanh, kRelu, kSilu}) {
        const float high = one(f, x);
        EXPECT_TRUE(std::isinf(x) ? high == x : std::abs(high / x - 1) <= 1.2e-7f) << name(f) << " of " << x;
        EXPECT_NEAR(one(f, -x), 0, left_tail()) << name(f) << " of " << -x;
      }
    for (float x : {1e30f, test::kInf}) {
      EXPECT_EQ(one(kTanh, x), 1.0f);
      EXPECT_EQ(one(kTanh, -x), -1.0f);
      EXPECT_EQ(one(kNone, -x), -x);
    }
  });
}

TEST(Activation, TakesAnyLengthAtAnyAddressAndWritesNowhereElse) {
  test::on_every_target([&] {
    for (Activation f : kAll)
      for (size_t n = 0; n <= 2 * 2 * 16 + 3; ++n)  // two vectors at a time
        for (size_t misalignment = 0; misalignment < 16; ++misalignment) {
          const auto x = test::random_floats(n, n + 100 * misalignment, -6, 6);
          test::Guarded y(x, misalignment);
          activation_forward(f, y.span());
          ASSERT_TRUE(y.intact()) << name(f) << " length " << n << " misalignment " << misalignment;
          for (size_t i = 0; i < n; ++i) {
            ASSERT_NEAR(y.span()[i], reference::activation(f, double(x[i])), 2e-6)
                << name(f) << " length " << n;
            ASSERT_EQ(y.span()[i], one(f, x[i])) << "an element's result depends on where it stands";
          }
        }
  });
}

// dy·f'(x) and f(x), for one row.
struct Back {
  Back(Activation f, std::span<const float> x, std::span<const float> dy, size_t misalignment = 0)
      : dx(dy, misalignment), y(x.size(), misalignment) {
    Team team;
    activation_backward(f, {x.data(), 1, x.size()}, {dx.data(), 1, x.size()}, {y.data(), 1, x.size()}, team);
  }
  test::Guarded dx, y;
};

TEST(ActivationBackward, IsCloseToTheReferenceFromMinus20To20) {
  std::vector<float> sweep;
  for (int i = -20'000; i <= 20'000; ++i) sweep.push_back(float(i) * 1e-3f);
  const std::vector<float> ones(sweep.size(), 1.0f);
  test::on_every_target([&] {
    for (Activation f : kAll) {
      Back back(f, sweep, ones);
      test::Worst worst;
      for (size_t i = 0; i < sweep.size(); ++i)
        worst.see(std::abs(back.dx.span()[i] - reference::activation_derivative(f, double(sweep[i]))),
                  double(sweep[i]));
      EXPECT_LE(worst.error, f == kNone || f == kRelu ? 0 : 3e-7) << name(f) << " at " << worst.at;
      std::printf("%-10s derivative's worst error %.2e at %g\n", name(f), worst.error, worst.at);
    }
  });
}

TEST(ActivationBackward, TakesAnyLengthAtAnyAddressAndGivesTheForwardsBits) {
  test::on_every_target([&] {
    for (Activation f : kAll)
      for (size_t n = 1; n <= 67; ++n)
        for (size_t misalignment : {0, 1, 15}) {
          const auto x = test::random_floats(n, n, -6, 6), dy = test::random_floats(n, n + 1);
          Back back(f, x, dy, misalignment);
          ASSERT_TRUE(back.dx.intact() && back.y.intact()) << name(f) << " length " << n;
          std::vector<float> y = x;
          activation_forward(f, y);
          ASSERT_TRUE(test::same_bits(back.y.span(), y));
          for (size_t i = 0; i < n; ++i)
            ASSERT_NEAR(back.dx.span()[i], dy[i] * reference::activation_derivative(f, double(x[i])), 1e-6);
        }
  });
}

TEST(ActivationBackward, TakesStridedRowsOfAnyTeamAndMayWriteOverX) {
  const size_t rows = 50, n = 333, stride = 340;
  const auto start = test::random_floats(rows * stride, 1, -3, 3), dy = test::random_floats(rows * stride, 2);
  test::on_every_target([&] {
    std::vector<float> expected;
    for (int threads : {1, 2, 3}) {
      Team team(threads);
      std::vector<float> x = start, dx = dy;
      const Matrix<float> xs(x.data(), rows, n, stride);
      activation_backward(kGelu, xs, {dx.data(), rows, n, stride}, xs, team);
      for (size_t r = 0; r < rows; ++r)
        for (size_t c = 0; c < stride; ++c) {
          const size_t i = r * stride + c;
          if (c < n) {
            ASSERT_EQ(x[i], one(kGelu, start[i]));
          } else {
            ASSERT_TRUE(x[i] == start[i] && dx[i] == dy[i]) << "written between the rows";
          }
        }
      if (threads == 1) expected = dx;
      EXPECT_TRUE(test::same_bits(dx, expected));
    }
  });
}

TEST(ActivationBackward, GivesTheLimitAtInfinityAndKeepsNaN) {
  test::on_every_target([&] {
    for (Activation f : {kGelu, kGeluTanh, kRelu, kSilu, kTanh}) {
      const std::vector<float> x{test::kInf, -test::kInf, 1e30f, -1e30f}, dy(4, 1.0f);
      Back back(f, x, dy);
      for (size_t i = 0; i < 4; ++i)
        EXPECT_NEAR(back.dx.span()[i], i % 2 == 0 && f != kTanh ? 1 : 0, 2e-7) << name(f) << " of " << x[i];
      if (f != kRelu) {
        EXPECT_TRUE(std::isnan(Back(f, std::vector<float>{test::kNaN}, std::vector<float>{1}).dx.span()[0]));
      }
    }
  });
}

}  // namespace
}  // namespace bertie::kernels
