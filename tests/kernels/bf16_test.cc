#include "kernels/bf16.h"

#include <gtest/gtest.h>

#include "kernels/gemm.h"
#include "kernels/reference.h"
#include "support/bf16.h"
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

TEST(Bf16, InstructionGivesTheBitsOfTheSpecification) {
  if (!test::bf16_instruction_runs()) GTEST_SKIP() << "this processor has no VDPBF16PS";
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
          bf16_matmul(left, panels, Matrix<float>(c.data(), s.m, s.n), workspace.data(), team, accumulate);
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

std::vector<double> rounded(std::span<const float> x) {
  std::vector<double> all;
  for (float v : x) all.push_back(from_bf16(to_bf16(v)));
  return all;
}

// Against the reference on rounded numbers; the bias and its gradient are not rounded.
void expect_linear_of_rounded_numbers() {
  constexpr size_t t = 61, k = 19, n = 45;  // more rows than a block, odd, more than a panel
  const auto x = test::random_floats(t * k, 1), w = test::random_floats(n * k, 2),
             dy = test::random_floats(t * n, 3);
  std::vector<float> packed(packed_floats(n, k)), bias(panels_for(n) * kPanel);
  std::copy_n(test::random_floats(n, 4).data(), n, bias.data());
  const Linear layer{.packed = packed.data(), .bias = bias.data(), .inputs = k, .outputs = n};
  pack_rows({w.data(), n, k}, 0, layer);

  const auto rx = rounded(x), rw = rounded(w), rdy = rounded(dy), b = test::to_double({bias.data(), n});
  std::vector<double> sum(t * n), y(t * n), dx(t * k), dw(n * k, 0.25), db(n), none(n);
  const Matrix<const double> xs(rx.data(), t, k), ws(rw.data(), n, k);
  reference::linear<double>(xs, ws, b, Activation::none, {sum.data(), t, n});
  reference::linear<double>(xs, ws, b, Activation::gelu, {y.data(), t, n});
  reference::linear_backward(xs, ws, {rdy.data(), t, n}, {dx.data(), t, k}, {dw.data(), n, k}, none);
  for (size_t j = 0; j < n; ++j) {
    db[j] = 0.25;
    for (size_t r = 0; r < t; ++r) db[j] += double(dy[r * n + j]);
  }

  std::vector<float> first;
  for (int threads : {1, 2, 3}) {
    Team team(threads);
    test::Guarded memory(mixed_workspace(layer, t)), workspace(linear_backward_input_workspace(layer));
    test::Guarded before(t * n), out(t * n), alone(t * n), d_in(t * k), g(packed.size()), g_bias(bias.size());
    mixed_forward({x.data(), t, k}, layer, Activation::gelu, {out.data(), t, n}, memory.data(), team,
                  {before.data(), t, n});
    mixed_forward({x.data(), t, k}, layer, Activation::gelu, {alone.data(), t, n}, memory.data(), team);
    std::fill_n(d_in.data(), t * k, 0.5f);
    mixed_backward_input({dy.data(), t, n}, layer, {d_in.data(), t, k}, workspace.data(), memory.data(), team,
                         Accumulate::yes);
    std::fill(g.span().begin(), g.span().end(), 0.25f);
    std::fill(g_bias.span().begin(), g_bias.span().end(), 0.25f);
    const Linear gradient{.packed = g.data(), .bias = g_bias.data(), .inputs = k, .outputs = n};
    mixed_backward_weights({x.data(), t, k}, {dy.data(), t, n}, gradient, workspace.data(), memory.data(),
                           team);
    ASSERT_TRUE(memory.intact() && workspace.intact() && before.intact() && out.intact() && d_in.intact());
    ASSERT_TRUE(alone.intact() && g.intact() && g_bias.intact());

    std::vector<float> d_weights(n * k), all;
    unpack_rows(gradient, 0, {d_weights.data(), n, k});
    for (std::span<const float> part :
         {std::span<const float>(before.span()), std::span<const float>(out.span()),
          std::span<const float>(d_in.span()), std::span<const float>(d_weights),
          std::span<const float>(g_bias.span())})
      all.insert(all.end(), part.begin(), part.end());
    if (threads == 1) first = all;
    ASSERT_TRUE(test::same_bits(all, first));
    ASSERT_TRUE(test::same_bits(alone.span(), out.span()));
    for (size_t i = 0; i < t * n; ++i) ASSERT_NEAR(before.data()[i], sum[i], 1e-5);
    for (size_t i = 0; i < t * n; ++i) ASSERT_NEAR(out.data()[i], y[i], 1e-5);
    for (size_t i = 0; i < t * k; ++i) ASSERT_NEAR(d_in.data()[i], 0.5 + dx[i], 1e-5);
    for (size_t i = 0; i < n * k; ++i) ASSERT_NEAR(d_weights[i], dw[i], 1e-5);
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(g_bias.data()[i], db[i], 1e-5);
  }
}

TEST(Bf16, LinearLayersAreTheReferenceOnRoundedNumbers) {
  expect_linear_of_rounded_numbers();  // by the instruction where CPUID shows it, else by the specification
  const test::Bf16Instruction forced;
  if (forced.runs()) expect_linear_of_rounded_numbers();
}

}  // namespace
}  // namespace bertie::kernels
