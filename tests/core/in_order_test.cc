// Work by several threads that looks like work by one.
#include "core/in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace bertie {
namespace {

struct Number {
  int value = 0, square = 0;
};

TEST(InOrder, JobsAreFinishedInTheOrderTheyWereRead) {
  for (const int threads : {1, 2, 7}) {
    int next = 0;
    std::vector<int> squares;
    in_order<Number>(
        threads, [&](Number& n) { return n.value = next++, n.value < 1000; },
        [](Number& n) {
          volatile int spin = n.value * 37 % 500;  // some take longer than others
          while (spin > 0) spin = spin - 1;
          n.square = n.value * n.value;
        },
        [&](Number& n) { squares.push_back(n.square); });
    ASSERT_EQ(squares.size(), 1000u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(squares[size_t(i)], i * i);
  }
}

TEST(InOrder, NothingToDoIsDone) {
  in_order<Number>(
      4, [](Number&) { return false; }, [](Number&) { FAIL(); }, [](Number&) { FAIL(); });
}

TEST(InOrder, AnErrorStopsAllAfterWhatCameBeforeIt) {
  for (const int threads : {1, 3})
    for (const int step : {0, 1, 2}) {
      int next = 0, finished = 0;
      const auto fail_at_50 = [&](int here, const Number& n) {
        if (here == step && n.value == 50) throw std::runtime_error("fifty");
      };
      try {
        in_order<Number>(
            threads,
            [&](Number& n) {
              n.value = next++;
              fail_at_50(0, n);
              return n.value < 100'000;
            },
            [&](Number& n) { fail_at_50(1, n); },
            [&](Number& n) {
              fail_at_50(2, n);
              ++finished;
            });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "fifty");
      }
      EXPECT_EQ(finished, 50);
      EXPECT_LE(next, 50 + threads + 1);
    }
}

}  // namespace
}  // namespace bertie
