#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "support/numbers.h"
#include "support/targets.h"

namespace bertie::kernels {
namespace {

TEST(Embedding, AddsPositionAndTypeToTheWordOfEachToken) {
  for (size_t n : {1, 2, 15, 16, 33, 384}) {
    const std::vector<int32_t> ids{3, 0, 3, 1}, types{0, 1, 1, 0}, offsets{0, 3, 3, 4};  // one of them empty
    const auto word = test::random_floats(4 * n, 1), position = test::random_floats(3 * n, 2),
               type = test::random_floats(2 * n, 3);
    std::vector<float> expected(4 * n);
    reference::embedding<float>(ids, types, offsets, {word.data(), 4, n}, {position.data(), 3, n},
                                {type.data(), 2, n}, {expected.data(), 4, n});
    const size_t positions[] = {0, 1, 2, 0};
    for (size_t t = 0; t < 4; ++t) {
      test::Guarded y(std::span<const float>(word).subspan(size_t(ids[t]) * n, n), t);
      add_position_and_type(position.data() + positions[t] * n, type.data() + size_t(types[t]) * n, y.span());
      EXPECT_TRUE(y.intact());
      for (size_t c = 0; c < n; ++c) EXPECT_NEAR(y.span()[c], expected[t * n + c], 4e-7);
    }
  }
}

TEST(Embedding, BackwardAddsEachTokensGradientToItsRow) {
  test::on_every_target([&] {
    for (size_t n : {1, 15, 17, 128, 300})
      for (float factor : {1.0f, 0.25f}) {
        const std::vector<int32_t> rows{3, 0, 3, 1, 3};
        const auto dy = test::random_floats(5 * n, 1), start = test::random_floats(4 * n, 2);
        const auto exact = test::to_double(dy);
        auto expected = test::to_double(start);
        reference::embedding_backward(rows, {exact.data(), 5, n}, double(factor), {expected.data(), 4, n});
        test::Guarded first(start, 3);
        for (int threads : {1, 2, 3}) {
          Team team(threads);
          test::Guarded table(start, 3);
          test::Guarded& to = threads == 1 ? first : table;
          embedding_backward(rows, {dy.data(), 5, n}, factor, {to.data(), 4, n}, team);
          ASSERT_TRUE(to.intact());
          for (size_t i = 0; i < 4 * n; ++i) ASSERT_NEAR(to.span()[i], expected[i], 6e-7);
          ASSERT_TRUE(test::same_bits(to.span(), first.span()));
        }
      }
  });
}

}  // namespace
}  // namespace bertie::kernels
