#include "core/checked.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace bertie {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(Checked, CountsLikeAnIntegerWhileItFits) {
  EXPECT_EQ((Checked(3) + Checked(4)).value(), 7u);
  EXPECT_EQ((Checked(4) - Checked(4)).value(), 0u);
  EXPECT_EQ((Checked(3) * Checked(4)).value(), 12u);
  EXPECT_EQ((Checked(kMax) + Checked(0)).value(), kMax);
  EXPECT_EQ((Checked(kMax - 1) + Checked(1)).value(), kMax);
  EXPECT_EQ((Checked(uint64_t{1} << 32) * Checked((uint64_t{1} << 32) - 1)).value(),
            kMax - (uint64_t{1} << 32) + 1);
  EXPECT_LT(Checked(1), Checked(2));
  EXPECT_EQ(Checked(2), Checked(2));
}

TEST(Checked, ThrowsWhereItWouldWrap) {
  test::expect_error("64 bits", [] { Checked(kMax) + Checked(1); });
  test::expect_error("64 bits", [] { Checked(3) - Checked(4); });
  test::expect_error("64 bits", [] { Checked(uint64_t{1} << 32) * Checked(uint64_t{1} << 32); });
  test::expect_error("64 bits", [] { Checked(kMax) * Checked(2); });
}

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  int64_t n = 0;
  EXPECT_TRUE(parse_number("-12", n));
  EXPECT_EQ(n, -12);
  for (const char* wrong : {"", " 1", "1 ", "1x", "0x10", "+1", "9223372036854775808"})
    EXPECT_FALSE(parse_number(wrong, n)) << wrong;
  uint32_t u = 0;
  EXPECT_FALSE(parse_number("-1", u));
  EXPECT_FALSE(parse_number("4294967296", u));
  EXPECT_TRUE(parse_number("4294967295", u));
  double d = 0;
  EXPECT_TRUE(parse_number("1e-12", d));
  EXPECT_EQ(d, 1e-12);
}

TEST(Error, CarriesAMessageAndAHint) {
  const Error error("what is wrong", "what to try");
  EXPECT_STREQ(error.what(), "what is wrong");
  EXPECT_EQ(error.hint(), "what to try");
  EXPECT_EQ(Error("alone").hint(), "");
}

}  // namespace
}  // namespace bertie
