// Pieces of work on several threads come out as from one.
#include "cli/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace {

using bertie::cli::side_by_side;

struct Work {
  size_t most = 0, next = 0;
  std::atomic<size_t> read = 0, most_ahead = 0;
  std::atomic<bool> given_up = false;
  std::vector<size_t> finished = {};

  // Runs pieces 0 .. most-1; `fail` throws wherever it likes: (0 reading, 1 working, 2 finishing, piece).
  template <class Fail>
  void run(int threads, const Fail& fail) {
    side_by_side<size_t>(
        threads,
        [&](size_t& piece) {
          piece = next++;
          ++read;
          fail(0, piece);
          return piece < most;
        },
        [&](size_t& piece) {
          std::this_thread::sleep_for(std::chrono::microseconds(piece * 7919 % 300));
          fail(1, piece);
        },
        [&](size_t& piece) {
          fail(2, piece);
          most_ahead = std::max<size_t>(most_ahead, read - piece);
          finished.push_back(piece);
        },
        [&] { given_up = true; });
  }
};

TEST(SideBySide, FinishesInOrderAndNeverFarAhead) {
  for (const int threads : {1, 2, 3, 8}) {
    Work work{.most = 500};
    work.run(threads, [](int, size_t) {});
    ASSERT_EQ(work.finished.size(), 500u);
    for (size_t i = 0; i < 500; ++i) EXPECT_EQ(work.finished[i], i);
    EXPECT_LE(work.most_ahead, 2 * size_t(threads) + 1) << threads;
    EXPECT_FALSE(work.given_up);
  }
}

TEST(SideBySide, WhatIsThrownComesAfterAllThatWasBefore) {
  for (const int threads : {1, 2, 8})
    for (const int where : {0, 1, 2})
      for (const size_t when : {0, 1, 100}) {
        Work work{.most = 500};
        const auto fail = [&](int step, size_t piece) {
          if (step == where && piece >= when) throw std::runtime_error(std::to_string(piece));
        };
        try {
          work.run(threads, fail);
          ADD_FAILURE() << "nothing came out";
        } catch (const std::runtime_error& error) {
          EXPECT_EQ(error.what(), std::to_string(when));
        }
        EXPECT_EQ(work.finished.size(), when) << threads << where;
        EXPECT_TRUE(work.given_up);
        EXPECT_LE(work.read, when + 2 * size_t(threads) + 1);
      }
}

TEST(SideBySide, NothingIsNoWork) {
  Work work{.most = 0};
  work.run(4, [](int, size_t) {});
  EXPECT_TRUE(work.finished.empty());
}

}  // namespace
