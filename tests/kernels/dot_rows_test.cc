#include "kernels/dot_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/random.h"
#include "io/half.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

// Every length from 1 to beyond four vectors, so that each has its own rest.
TEST(DotRows, AreTheSumsOfTheSpecification) {
  constexpr size_t kRows = 5;
  for (size_t n = 1; n < 150; ++n) {
    const Random random(n);
    std::vector<float> q(n), numbers(kRows * n), scales(kRows);
    std::vector<uint16_t> halves(kRows * n);
    std::vector<int8_t> bytes(kRows * n);
    const auto drawn = [&](size_t i) { return float(random.at(i)[0]) / 4294967296.0f * 2 - 1; };
    for (size_t i = 0; i < n; ++i) q[i] = drawn(i);
    for (size_t i = 0; i < kRows * n; ++i) numbers[i] = drawn(1000 + i), bytes[i] = int8_t(127 * numbers[i]);
    bytes[0] = -128, bytes.back() = 127;
    for (size_t r = 0; r < kRows; ++r) scales[r] = 0.01f * float(r + 1);
    io::float_to_f16(numbers, reinterpret_cast<std::byte*>(halves.data()));
    io::f16_to_float(reinterpret_cast<const std::byte*>(halves.data()), numbers);
    test::on_every_target([&] {
      std::vector<float> of_halves(kRows), of_bytes(kRows), alone(1);
      dot_rows_f16(halves.data(), q, of_halves);
      dot_rows_i8(bytes.data(), scales.data(), q, of_bytes);
      for (size_t r = 0; r < kRows; ++r) {
        double half = 0, byte = 0, size = 0;
        for (size_t c = 0; c < n; ++c) {
          half += double(numbers[r * n + c]) * double(q[c]);
          byte += double(bytes[r * n + c]) * double(scales[r]) * double(q[c]);
          size += std::abs(double(q[c]));
        }
        EXPECT_NEAR(of_halves[r], half, 1e-6 * (size + 1)) << n;
        EXPECT_NEAR(of_bytes[r], byte, 1e-6 * 128 * double(scales[r]) * (size + 1)) << n;
        dot_rows_f16(&halves[r * n], q, alone);
        EXPECT_EQ(alone[0], of_halves[r]) << "whoever is beside it";
      }
    });
  }
}

}  // namespace
}  // namespace bertie::kernels
