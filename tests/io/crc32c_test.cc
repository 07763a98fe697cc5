// CRC-32C is Castagnoli's, by the numbers of RFC 3720 and by bits.
#include "io/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace bertie::io {
namespace {

uint32_t bit_by_bit(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= uint8_t(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, IsTheSameEightBytesAtATimeAndInParts) {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(crc32c(text), bit_by_bit(text)) << i << " bytes";
    const std::string_view all = text, start = all.substr(0, text.size() / 3);
    EXPECT_EQ(crc32c(all.substr(start.size()), crc32c(start)), crc32c(all));
    text += char(i * 151);
  }
}

}  // namespace
}  // namespace bertie::io
