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

TEST(Arena, RunsOnWhatItCounted) {
  Arena arena;
  int runs = 0;
  std::vector<float*> taken;
  const auto body = [&] {
    ++runs;
    taken = {arena.take<float>(100)};
    {
      const Arena::Scope scope(arena);
      taken.push_back(arena.take<float>(1000));
    }
    taken.push_back(arena.take<float>(400));  // where the scope's was
    if (arena.counting()) return;
    std::fill_n(taken[0], 100, 1.0f), std::fill_n(taken[2], 400, 2.0f);
  };
  EXPECT_EQ(arena.count(body), Arena::bytes_for<float>(100) + Arena::bytes_for<float>(1000))
      << "what is taken at one time, at most";
  arena.run(body);
  EXPECT_EQ(runs, 3);
  EXPECT_FALSE(arena.counting());
  EXPECT_EQ(taken[1], taken[2]);
  EXPECT_EQ(taken[0][99], 1.0f);
}

TEST(Arena, ABodyThatThrowsWhileCountingLeavesItUsable) {
  Arena arena;
  EXPECT_THROW(arena.run([] { throw 1; }), int);
  EXPECT_FALSE(arena.counting());
  arena.run([&] {
    std::byte* const bytes = arena.take<std::byte>(1000);
    if (!arena.counting()) std::fill_n(bytes, 1000, std::byte{1});
  });
}

TEST(Arena, ABodyThatTakesMoreThanItCountedIsRefused) {
  Arena arena;
  test::expect_error("planned too small", [&] {
    arena.run([&] { arena.take<std::byte>(arena.counting() ? 10 : size_t{1} << 24); });
  });
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
