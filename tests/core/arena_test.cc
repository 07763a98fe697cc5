#include "core/arena.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace bertie {
namespace {

bool aligned(const void* p, size_t to = kAlignment) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

TEST(Block, IsZeroedAlignedAndLargeEnough) {
  for (size_t bytes : {size_t{1}, size_t{64}, size_t{4095}, size_t{4097}, (size_t{2} << 20) - 1,
                       size_t{2} << 20, (size_t{5} << 20) + 3}) {
    const Block block(bytes);
    ASSERT_GE(block.size(), bytes);
    EXPECT_TRUE(aligned(block.data()));
    if (bytes >= size_t{2} << 20) {
      EXPECT_TRUE(aligned(block.data(), size_t{2} << 20)) << "huge pages need it";
    }
    for (size_t i = 0; i < block.size(); ++i) ASSERT_EQ(block.data()[i], std::byte{0});
    std::fill_n(block.data(), block.size(), std::byte{255});  // all of it is writable
  }
}

TEST(Block, OfNothingIsNothing) {
  const Block block(0);
  EXPECT_EQ(block.data(), nullptr);
  EXPECT_EQ(block.size(), 0u);
}

TEST(Block, ThatNoMachineHasIsAnError) {
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  for (size_t bytes : {kMax, kMax - 4096, kMax - (size_t{3} << 20), kMax / 2, size_t{1} << 50})
    test::expect_error("out of memory", [&] { Block block(bytes); });
}

TEST(Block, MovesWithoutCopying) {
  Block a(100);
  std::byte* const data = a.data();
  Block b(std::move(a));
  EXPECT_EQ(b.data(), data);
  Block c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), 4096u);
}

TEST(Arena, GivesAlignedPiecesThatDoNotOverlap) {
  Arena arena;
  const size_t sizes[] = {1, 3, 16, 17, 0, 100};
  size_t bytes = 0;
  for (size_t n : sizes) bytes += Arena::bytes_for<float>(n);
  arena.reset(bytes);
  EXPECT_GE(arena.capacity(), bytes);
  const float* end = nullptr;
  for (size_t n : sizes) {
    float* p = arena.take<float>(n);
    EXPECT_TRUE(aligned(p));
    EXPECT_GE(p, end);
    std::fill_n(p, n, 1.0f);
    end = p + n;
  }
}

TEST(Arena, BytesForCoversWhatTakeUses) {
  EXPECT_EQ(Arena::bytes_for<float>(0), 0u);
  EXPECT_EQ(Arena::bytes_for<float>(1), 64u);
  EXPECT_EQ(Arena::bytes_for<float>(16), 64u);
  EXPECT_EQ(Arena::bytes_for<float>(17), 128u);
  EXPECT_EQ(Arena::bytes_for<std::byte>(65), 128u);
}

TEST(Arena, GrowsToTheLargestRunAndThenStaysPut) {
  Arena arena;
  size_t largest = 0;
  for (size_t bytes : {1000, 50000, 200, 7'000'000, 50000}) {
    arena.reset(bytes);
    largest = std::max(largest, bytes);
    EXPECT_GE(arena.capacity(), largest);
  }
  const size_t capacity = arena.capacity();
  EXPECT_LE(capacity, round_up(largest + largest / 4, size_t{2} << 20));
  float* const first = arena.take<float>(10);
  for (size_t bytes = 0; bytes <= largest; bytes += 99'991) {  // what fits does not move the memory
    arena.reset(bytes);
    EXPECT_EQ(arena.take<float>(0), first);
  }
  EXPECT_EQ(arena.capacity(), capacity);
}

TEST(Arena, IsStillUsableAfterASizeThatNoMachineHas) {
  Arena arena;
  arena.reset(1000);
  test::expect_error("out of memory", [&] { arena.reset(size_t{1} << 50); });
  arena.reset(1000);
  std::fill_n(arena.take<std::byte>(1000), 1000, std::byte{1});
}

}  // namespace
}  // namespace bertie
