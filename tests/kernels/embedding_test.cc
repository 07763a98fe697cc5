#include "kernels/embedding.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "support/numbers.h"

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

}  // namespace
}  // namespace bertie::kernels
