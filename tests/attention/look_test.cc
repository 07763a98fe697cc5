// The kernel's view of where to look, words of 32 keys and panels to skip, against the definitions key by
// key.
#include "attention/look.h"

#include <gtest/gtest.h>

#include "attention/reference_look.h"
#include "support/numbers.h"

namespace bertie {
namespace {

struct Lengths {
  size_t n, m;
};
const Lengths kLengths[] = {{1, 1},  {5, 5},   {40, 40},   {97, 97}, {3, 70},
                            {70, 3}, {33, 64}, {130, 129}, {4, 0}};

void expect_as_defined(Look look, const std::string& name) {
  for (bool at_end : {false, true})
    for (auto [n, m] : kLengths)
      for (size_t head : {0, 1}) {
        look.queries_at_end = at_end;
        SCOPED_TRACE(testing::Message() << name << ", " << n << " queries, " << m << " keys, head " << head
                                        << (at_end ? ", queries at the end" : ""));
        const size_t first_row = look.kind == Look::Kind::kMask ? 2 : 0;
        Pattern pattern(look, head, first_row, n, m);
        const auto sees = [&](size_t i, size_t j) {
          return reference::sees(look, head, first_row + i, i, j, n, m);
        };
        for (size_t r0 = 0; r0 < n; r0 += 14) {
          const size_t r1 = std::min(r0 + 14, n);
          std::vector<int32_t> memory(Pattern::memory_size(look, r1 - r0, m));
          pattern.prepare(r0, r1, memory.data());
          for (size_t j0 = 0; j0 < m; j0 += 32) {
            const size_t j1 = std::min(j0 + 32, m);
            bool any = false;
            for (size_t i = r0; i < r1; ++i) {
              uint32_t expected = 0, bits = 0xDEADBEEF;
              for (size_t j = j0; j < j1; ++j) expected |= uint32_t(sees(i, j)) << (j - j0);
              pattern.row(i, j0, j1, &bits);
              ASSERT_EQ(bits, expected) << "query " << i << ", keys from " << j0;
              any |= expected != 0;
            }
            ASSERT_TRUE(!any || pattern.any(r0, r1, j0, j1)) << "queries " << r0 << ", keys " << j0;
          }
        }
      }
}

TEST(Pattern, IsTheDefinitionKeyByKey) {
  expect_as_defined(Look::full(), "full");
  expect_as_defined(Look::causal(), "causal");
  for (auto [before, after] : {std::pair<size_t, size_t>(0, 0), {1, 0}, {0, 3}, {40, 2}, {1000, 1000}})
    expect_as_defined(Look::window(before, after), "window");
  const int32_t global[] = {0, 2, 33, 64};
  expect_as_defined(Look::window_and_global(2, global), "window and global");
  expect_as_defined(Look::window_and_global(0, {}), "window and no global");
  for (const BigBird& pattern : {BigBird{.block = 1, .window = 1, .global = 0, .random = 2, .seed = 4},
                                 BigBird{.block = 3, .window = 7, .global = 3, .random = 100},
                                 BigBird{.block = 5, .window = 3, .global = 1, .random = 0},
                                 BigBird{.block = 16, .window = 1, .global = 0, .random = 0},
                                 BigBird{.block = 16, .window = 3, .global = 1, .random = 2, .seed = 9},
                                 BigBird{.block = 64, .window = 3, .global = 1, .random = 3}})
    expect_as_defined(Look::big_bird(pattern), "BigBird of " + std::to_string(pattern.block));
  for (size_t stride : {1, 2, 7, 32, 500}) expect_as_defined(Look::strided(stride), "strided");
  for (size_t stride : {1, 2, 7, 32, 500})
    for (size_t summary : {size_t{1}, stride / 2, stride})
      expect_as_defined(Look::fixed(stride, summary), "fixed");
  for (float ramp : {0.5f, 1.0f, 3.25f})
    for (bool both_sides : {false, true}) {
      const float spans[] = {2.5f, 0.0f}, far[] = {1e9f, 31.0f};
      expect_as_defined(Look::adaptive_span(spans, ramp, both_sides), "adaptive span");
      expect_as_defined(Look::adaptive_span(far, ramp, both_sides), "adaptive span, far");
    }
}

TEST(Pattern, OfAMaskIsItsRowsInTheBatch) {
  const auto random = test::random_floats(132 * 129, 3);
  std::vector<uint8_t> allowed(random.size());
  for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = random[i] > 0.5f ? 1 : random[i] > 0.4f ? 255 : 0;
  expect_as_defined(Look::mask({allowed.data(), 132, 129}), "mask");
}

TEST(Pattern, OfAWindowWithoutEndSeesEverything) {
  expect_as_defined(Look::window(size_t(-1)), "all of size_t");
  expect_as_defined(Look::window(size_t(-1), 0), "causal by a window");
  expect_as_defined(Look::window(0, size_t(-1)), "only forward");
}

}  // namespace
}  // namespace bertie
