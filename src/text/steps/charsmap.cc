#include "text/steps/charsmap.h"

#include <bit>
#include <cstring>

#include "bertie/error.h"
#include "text/unicode/unicode.h"

namespace bertie::text {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;  // the published ones have 240 kB
constexpr uint32_t kValueMask = (1u << 31) - 1, kLabelMask = 1u << 31 | 0xFF;

uint32_t children(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }
bool ends_key(uint32_t unit) { return unit & 1u << 8; }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& name) {
  static_assert(std::endian::native == std::endian::little);
  if (bytes.size() > kMaxBytes)
    throw Error(name + " has " + std::to_string(bytes.size()) + " bytes, at most " +
                std::to_string(kMaxBytes) + " are allowed");
  uint32_t size = 0;
  if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
  if (size == 0 || size % 4 != 0 || size > bytes.size() - 4)
    throw Error(name + ": a trie of " + std::to_string(size) + " bytes cannot be in " +
                    std::to_string(bytes.size()) + " bytes",
                "The file is damaged. Download it again.");
  units_.resize(size / 4);
  std::memcpy(units_.data(), bytes.data() + 4, size);
  replacements_ = bytes.substr(4 + size_t{size});
  if (!valid_utf8(replacements_))
    throw Error(name + ": the replacements are not UTF-8", "The file is damaged. Download it again.");
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  uint32_t at = children(units_[0]);
  for (char c : text) {
    const uint8_t byte = uint8_t(c);
    if (byte == 0) break;
    at ^= byte;
    if (at >= units_.size()) break;
    const uint32_t unit = units_[at];
    if ((unit & kLabelMask) != byte) break;
    at ^= children(unit);
    if (!ends_key(unit)) continue;
    if (at >= units_.size()) break;
    const size_t begin = units_[at] & kValueMask;
    if (begin > replacements_.size() ||
        (begin < replacements_.size() && is_continuation(replacements_[begin])))
      break;
    return std::string_view(replacements_.c_str() + begin);
  }
  return {};
}

std::string decode_base64(std::string_view text, const std::string& name) {
  auto value = [&](char c) -> uint32_t {
    if (c >= 'A' && c <= 'Z') return uint32_t(c - 'A');
    if (c >= 'a' && c <= 'z') return uint32_t(c - 'a' + 26);
    if (c >= '0' && c <= '9') return uint32_t(c - '0' + 52);
    if (c == '+') return 62;
    if (c == '/') return 63;
    throw Error(name + " is not Base64");
  };
  if (text.size() % 4 != 0) throw Error(name + " is not Base64: its length is no multiple of four");
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const size_t filled = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) bits = bits << 6 | (k + filled < 4 ? value(text[i + k]) : 0);
    const char three[] = {char(bits >> 16), char(bits >> 8), char(bits)};
    out.append(three, 3 - filled);
  }
  return out;
}

}  // namespace bertie::text
