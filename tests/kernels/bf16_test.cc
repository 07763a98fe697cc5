#include "kernels/bf16.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/gemm.h"
#include "support/numbers.h"

namespace bertie::kernels {
namespace {

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_bf16(1.0f), 0x3F80);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f), 0x3F80);             // half way, below is even
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);  // just above
  EXPECT_EQ(to_bf16(1.0f + 0x1.8p-7f), 0x3F82);           // half way, above is even
  EXPECT_EQ(to_bf16(-1.0f - 0x1.8p-7f), 0xBF82);
  EXPECT_EQ(to_bf16(0.0f), 0);
  EXPECT_EQ(to_bf16(-0.0f), 0x8000);
  EXPECT_EQ(to_bf16(3.4e38f), 0x7F80);  // larger than all that bf16 has
  EXPECT_EQ(to_bf16(test::kInf), 0x7F80);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(test::kNaN))));
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(Bf16, RoundingIsTheNearestOfAll) {
  for (float x : test::random_floats(10'000, 1, -100, 100)) {
    const uint16_t rounded = to_bf16(x);
    const double error = std::abs(double(from_bf16(rounded)) - double(x));
    for (int step : {-1, 1})
      EXPECT_LE(error, std::abs(double(from_bf16(uint16_t(rounded + step))) - double(x))) << x;
    EXPECT_EQ(to_bf16(from_bf16(rounded)), rounded);
  }
}

// Numbers of a tile: of ordinary size, or from the ends of the range.
struct Tile {
  Tile(size_t row_count, size_t inner, uint64_t seed, float scale = 1)
      : rows(row_count),
        k(inner),
        a(test::random_floats(rows * k, seed, -scale, scale)),
        b(test::random_floats(k * kPanel, seed + 1)),
        start(test::random_floats(rows * kPanel, seed + 2, -scale, scale)),
        a_rounded(rows * (k + k % 2)),
        b_rounded((k + 1) / 2 * 2 * kPanel) {
    round();
  }
  void round() {
    for (size_t i = 0; i < a.size(); ++i) a_rounded[i / k * (k + k % 2) + i % k] = to_bf16(a[i]);
    round_panel({b.data(), k, kPanel}, b_rounded.data());
  }
  std::vector<float> run(void (*tile)(size_t, const Bf16TileArgs&), bool accumulate) const {
    std::vector<float> out = start;
    tile(rows, {.a = a_rounded.data(),
                .a_stride = k + k % 2,
                .b = b_rounded.data(),
                .pairs = (k + 1) / 2,
                .out = out.data(),
                .out_stride = kPanel,
                .accumulate = accumulate});
    return out;
  }
  size_t rows, k;
  std::vector<float> a, b, start;
  std::vector<uint16_t> a_rounded, b_rounded;
};

TEST(Bf16, TileIsTheProductOfTheRoundedNumbers) {
  for (size_t rows : {1, 5, 14})
    for (size_t k : {1, 2, 7, 64, 301})
      for (bool accumulate : {false, true}) {
        const Tile t(rows, k, rows * 100 + k);
        const auto out = t.run(bf16_tile_plain, accumulate);
        for (size_t i = 0; i < rows; ++i)
          for (size_t j = 0; j < kPanel; ++j) {
            double sum = accumulate ? t.start[i * kPanel + j] : 0, size = std::abs(sum);
            for (size_t c = 0; c < k; ++c) {
              const double product = double(from_bf16(to_bf16(t.a[i * k + c]))) *
                                     double(from_bf16(to_bf16(t.b[c * kPanel + j])));
              sum += product, size += std::abs(product);
            }
            EXPECT_NEAR(out[i * kPanel + j], sum, (2 + 2 * std::sqrt(double(k))) * 0x1p-24 * size);
          }
      }
}

// Whether the instruction runs, whatever CPUID says: some virtual machines do not show it. A child tries.
bool instruction_runs() {
#if defined(__x86_64__)
  if (has_bf16_instruction()) return true;
  if (!__builtin_cpu_supports("avx512f")) return false;
  const Tile t(1, 2, 1);
  const pid_t child = fork();
  if (child == 0) {
    t.run(bf16_tile_native, false);
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
#else
  return false;
#endif
}

TEST(Bf16, InstructionGivesTheBitsOfTheSpecification) {
  if (!instruction_runs()) GTEST_SKIP() << "this processor has no VDPBF16PS";
  for (size_t rows = 1; rows <= kBf16TileRows; ++rows)
    for (size_t k : {1, 2, 9, 200})
      for (bool accumulate : {false, true})
        for (float scale : {1.0f, 1e-38f, 1e-20f, 1e38f}) {
          Tile t(rows, k, rows * 1000 + k, scale);
          ASSERT_TRUE(
              test::same_bits(t.run(bf16_tile_native, accumulate), t.run(bf16_tile_plain, accumulate)))
              << rows << " × " << k << ", " << scale;
          t.a[0] = test::kInf;
          t.round();
          ASSERT_TRUE(
              test::same_bits(t.run(bf16_tile_native, accumulate), t.run(bf16_tile_plain, accumulate)))
              << "with Inf, " << rows << " × " << k << ", " << scale;
        }
}

TEST(Bf16, MatmulIsTheProductOfTheRoundedNumbersForAnyTeam) {
  struct Shape {
    size_t m, k, n;
  };
  for (Shape s : {Shape{1, 1, 1}, Shape{15, 7, 33}, Shape{60, 40, 64}, Shape{130, 33, 70}})
    for (bool transposed_left : {false, true})
      for (Accumulate accumulate : {Accumulate::no, Accumulate::yes}) {
        const auto a = test::random_floats(s.m * s.k, 1), b = test::random_floats(s.k * s.n, 2);
        const Matrix<const float> stored(a.data(), transposed_left ? s.k : s.m, transposed_left ? s.m : s.k);
        const Factor left(stored, transposed_left);
        std::vector<float> packed(packed_floats(s.n, s.k)), first;
        for (int threads : {1, 2, 3}) {
          Team team(threads);
          const Panels panels = pack(Matrix<const float>(b.data(), s.k, s.n), packed.data(), team);
          test::Guarded workspace(bf16_matmul_workspace(s.m, s.k, s.n));
          test::Guarded c(std::vector<float>(s.m * s.n, 0.5f), 3);
          bf16_matmul(left, panels, {c.data(), s.m, s.n}, workspace.data(), team, accumulate);
          ASSERT_TRUE(c.intact() && workspace.intact());
          if (threads == 1) first.assign(c.span().begin(), c.span().end());
          ASSERT_TRUE(test::same_bits(c.span(), first));
        }
        for (size_t r = 0; r < s.m; ++r)
          for (size_t j = 0; j < s.n; ++j) {
            double sum = accumulate == Accumulate::yes ? 0.5 : 0, size = sum;
            for (size_t k = 0; k < s.k; ++k) {
              const float x = transposed_left ? stored(k, r) : stored(r, k);
              const double product =
                  double(from_bf16(to_bf16(x))) * double(from_bf16(to_bf16(b[k * s.n + j])));
              sum += product, size += std::abs(product);
            }
            ASSERT_NEAR(first[r * s.n + j], sum, (2 + 2 * std::sqrt(double(s.k))) * 0x1p-24 * size);
          }
      }
}

}  // namespace
}  // namespace bertie::kernels
